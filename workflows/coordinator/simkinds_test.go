package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// The kinds of the tests only hash: what they write is a hash of their
// parameters, their place, and what they read.

type hashParams struct {
	Salt string
	// Big outputs are objects of their own, others travel in the commit.
	Big bool
	// Fail makes the kind refuse, always.
	Fail bool `json:",omitempty"`
}

var (
	standingKind = tasks.Kind{Name: "test/standing", Version: 1, Class: tasks.Compute, Run: runStanding}
	reportKind   = tasks.Kind{Name: "test/report", Version: 1, Class: tasks.Compute, Run: runStanding}
	partKind     = tasks.Kind{Name: "test/part", Version: 1, Class: tasks.Compute, Run: runPart}
	joinKind     = tasks.Kind{Name: "test/join", Version: 1, Class: tasks.Compute, Run: runJoin}
	testKinds    = tasks.NewRegistry(standingKind, reportKind, partKind, joinKind)
)

// outBlob is the output that every test kind but a part has.
const outBlob = tasks.ModelBlob

func runStanding(ctx context.Context, t *tasks.Task) error {
	p, h, err := digestInputs(ctx, t)
	if err != nil {
		return err
	}
	return t.Put(ctx, outBlob, stretch(h, p.Big))
}

func runPart(ctx context.Context, t *tasks.Task) error {
	p, h, err := digestInputs(ctx, t)
	if err != nil {
		return err
	}
	return t.PutRecomputable(ctx, outBlob, stretch(h, p.Big))
}

// runJoin keeps metric rows as a training does: a growing blob in the open
// segment, and one that lasts at its end.
func runJoin(ctx context.Context, t *tasks.Task) error {
	p, h, err := digestInputs(ctx, t)
	if err != nil {
		return err
	}
	var rows []byte
	if t.Step > 1 && !plan.Boundary(t.Step-1) {
		if rows, err = t.Blob(ctx, tasks.PreviousInput, tasks.RowsBlob); err != nil {
			return err
		}
	}
	rows = append(bytes.Clone(rows), byte(t.Step))
	name := tasks.RowsBlob
	if plan.Boundary(t.Step) {
		name = tasks.SegmentBlob
		rows = stretch(sha256.Sum256(rows), p.Big)
	}
	return errors.Join(t.Put(ctx, outBlob, stretch(h, p.Big)), t.Put(ctx, name, rows))
}

func digestInputs(ctx context.Context, t *tasks.Task) (hashParams, [32]byte, error) {
	var p hashParams
	if err := t.Decode(&p); err != nil {
		return p, [32]byte{}, err
	}
	if p.Fail {
		return p, [32]byte{}, tasks.Permanent(errors.New("told to fail"))
	}
	h := sha256.New()
	fmt.Fprintln(h, t.Kind, p.Salt, t.Step, t.Part)
	for _, in := range t.Inputs {
		data, err := t.Blob(ctx, in.Name, outBlob)
		if err != nil {
			return p, [32]byte{}, err
		}
		fmt.Fprintln(h, in.Name, storage.DigestOf(data))
	}
	return p, [32]byte(h.Sum(nil)), nil
}

func stretch(h [32]byte, big bool) []byte {
	if !big {
		return bytes.Clone(h[:])
	}
	return bytes.Repeat(h[:], storage.MaxInline/len(h)+1)
}

// outputs are the digests of a node's blobs by name.
type outputs map[string]storage.Digest

func outputsOf(c *storage.Commit) outputs {
	out := make(outputs)
	for _, b := range c.Blobs {
		out[b.Name] = b.Digest
	}
	return out
}

// evaluator computes a plan one node after the other, in memory, with neither
// queue nor store: what a coordinator must arrive at.
type evaluator struct {
	blobs map[storage.Key]map[string][]byte
}

func newEvaluator() *evaluator {
	return &evaluator{make(map[storage.Key]map[string][]byte)}
}

func (e *evaluator) Commit(context.Context, storage.Key) (*storage.Commit, error) {
	return nil, errors.New("test kinds read no metrics")
}

func (e *evaluator) Blob(_ context.Context, node storage.Key, name string) ([]byte, error) {
	data, ok := e.blobs[node][name]
	if !ok {
		return nil, fmt.Errorf("no blob %q of %s", name, node.Short())
	}
	return data, nil
}

func (e *evaluator) BlobRange(context.Context, storage.Key, string, int64, int64) ([]byte, error) {
	return nil, errors.New("test kinds read whole blobs")
}

func (e *evaluator) Imported(context.Context, storage.Digest) (io.ReadCloser, error) {
	return nil, errors.New("test kinds import nothing")
}

type memorySink map[string][]byte

func (s memorySink) Put(_ context.Context, name string, data []byte, _ storage.Durability) error {
	s[name] = data
	return nil
}

func (e *evaluator) execute(spec tasks.Spec) error {
	if e.blobs[spec.Key] != nil {
		return nil
	}
	sink := make(memorySink)
	if err := testKinds[spec.Kind].Run(context.Background(), tasks.NewTask(spec, e, sink, nil, nil)); err != nil {
		return err
	}
	e.blobs[spec.Key] = sink
	return nil
}

func (e *evaluator) reach(p *plan.Plan, r plan.Ref) error {
	if e.blobs[r.Key] != nil {
		return nil
	}
	if r.Chain == nil {
		n := p.Nodes[r.Key]
		for _, need := range n.Needs {
			if err := e.reach(p, need); err != nil {
				return err
			}
		}
		return e.execute(n.Spec)
	}
	for _, need := range r.Chain.StandingNeeds() {
		if err := e.reach(p, need); err != nil {
			return err
		}
	}
	for step := 1; step <= r.Step; step++ {
		for j := range r.Chain.Width {
			if err := e.execute(r.Chain.PartSpec(step, j)); err != nil {
				return err
			}
		}
		if err := e.execute(r.Chain.JoinSpec(step)); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluator) outputs(key storage.Key) outputs {
	out := make(outputs)
	for name, data := range e.blobs[key] {
		out[name] = storage.DigestOf(data)
	}
	return out
}

// archiveSource reads inputs as a worker does.
type archiveSource struct{ archive *storage.Archive }

func (s archiveSource) Commit(ctx context.Context, node storage.Key) (*storage.Commit, error) {
	c, err := s.archive.Committed(ctx, node)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return nil, &tasks.MissingError{Node: node, Err: err}
	}
	return c, err
}

func (s archiveSource) Blob(ctx context.Context, node storage.Key, name string) ([]byte, error) {
	c, err := s.Commit(ctx, node)
	if err != nil {
		return nil, err
	}
	b, ok := c.Blob(name)
	if !ok {
		return nil, fmt.Errorf("%s %s has no blob %q", c.Kind, node.Short(), name)
	}
	data, err := s.archive.ReadBlob(ctx, node, b)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return nil, &tasks.MissingError{Node: node, Blob: name, Err: err}
	}
	return data, err
}

func (s archiveSource) BlobRange(context.Context, storage.Key, string, int64, int64) ([]byte, error) {
	return nil, errors.New("test kinds read whole blobs")
}

func (s archiveSource) Imported(context.Context, storage.Digest) (io.ReadCloser, error) {
	return nil, errors.New("test kinds import nothing")
}

// builder makes plans by hand.
type builder struct {
	plan.Plan
}

func newBuilder() *builder {
	return &builder{plan.Plan{Nodes: make(map[storage.Key]*plan.Node), Chains: make(map[storage.Key]*plan.Chain)}}
}

func (b *builder) node(kind tasks.Kind, p hashParams, needs ...plan.Ref) plan.Ref {
	var inputs []tasks.Input
	for i, need := range needs {
		inputs = append(inputs, tasks.Input{Name: fmt.Sprintf("in-%d", i), Key: need.Key})
	}
	spec, err := tasks.NewSpec(kind, p, inputs...)
	if err != nil {
		panic(err)
	}
	b.Nodes[spec.Key] = &plan.Node{Spec: spec, Label: "node " + p.Salt, Needs: needs}
	return plan.Ref{Key: spec.Key}
}

type chainOptions struct {
	salt            string
	width, steps    int
	keep            []int
	every, keepLast int
	big             bool
	failParts       bool
	secretKey       string
}

func (b *builder) chain(o chainOptions, origin plan.Ref, shared ...plan.Ref) *plan.Chain {
	template := func(kind tasks.Kind, fail bool, needs []plan.Ref) plan.Template {
		raw, err := json.Marshal(hashParams{Salt: o.salt, Big: o.big, Fail: fail})
		if err != nil {
			panic(err)
		}
		t := plan.Template{Kind: kind, Params: raw, Needs: needs, SecretKey: o.secretKey}
		for i, need := range needs {
			t.Inputs = append(t.Inputs, tasks.Input{Name: fmt.Sprintf("shared-%d", i), Key: need.Key})
		}
		return t
	}
	c := &plan.Chain{
		Origin: origin, Steps: o.steps, StepRounds: 1, Width: o.width,
		Part: template(partKind, o.failParts, shared), Join: template(joinKind, false, nil),
		Keep: o.keep, Every: o.every, KeepLast: o.keepLast,
	}
	if !slices.Contains(c.Keep, c.Steps) {
		c.Keep = append(c.Keep, c.Steps)
	}
	slices.Sort(c.Keep)
	c.Recipe = plan.Recipe(origin.Key, o.width, 1, c.Part, c.Join)
	b.Chains[c.Recipe] = c
	return c
}

func (b *builder) cell(report, model plan.Ref) {
	c := plan.Cell{Index: len(b.Cells), Name: fmt.Sprintf("c%02d", len(b.Cells)+1), Report: report, Model: model, Chain: model.Chain}
	c.Label = "cell " + c.Name
	b.Cells = append(b.Cells, c)
}

func (b *builder) done(t testing.TB) *plan.Plan {
	t.Helper()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	return &b.Plan
}

// federated is a plan as a federated experiment has it: data, a chain, an audit
// at each kept step, and a report over all of them.
func federated(t testing.TB, o chainOptions) *plan.Plan {
	b := newBuilder()
	data := b.node(standingKind, hashParams{Salt: "data", Big: true})
	origin := b.node(standingKind, hashParams{Salt: "origin", Big: true}, data)
	c := b.chain(o, origin, data)
	var audits []plan.Ref
	for _, step := range c.Keep {
		audits = append(audits, b.node(standingKind, hashParams{Salt: fmt.Sprintf("audit %d", step)}, c.At(step), data))
	}
	b.cell(b.node(reportKind, hashParams{Salt: "report"}, audits...), c.At(c.Steps))
	return b.done(t)
}

// randomPlan draws a plan: a layered DAG of standing nodes, of which some read
// checkpoints, some chains, and cells over them.
func randomPlan(t testing.TB, r *rand.Rand) *plan.Plan {
	b := newBuilder()
	var pool []plan.Ref
	pick := func(most int) []plan.Ref {
		var refs []plan.Ref
		for _, i := range r.Perm(len(pool))[:min(len(pool), r.IntN(most+1))] {
			refs = append(refs, pool[i])
		}
		return refs
	}
	node := func() {
		p := hashParams{Salt: fmt.Sprint(len(pool), "-", r.IntN(3)), Big: r.IntN(2) == 0}
		pool = append(pool, b.node(standingKind, p, pick(3)...))
	}
	for range 2 + r.IntN(4) {
		node()
	}
	standing := slices.Clone(pool)
	var chains []*plan.Chain
	for i := range 1 + r.IntN(2) {
		o := chainOptions{salt: fmt.Sprint("chain", i), width: r.IntN(4), steps: 1 + r.IntN(25), big: r.IntN(3) > 0, every: r.IntN(6), keepLast: r.IntN(3)}
		if r.IntN(4) == 0 {
			o.steps += 90
		}
		for range r.IntN(4) {
			o.keep = append(o.keep, 1+r.IntN(o.steps))
		}
		slices.Sort(o.keep)
		o.keep = slices.Compact(o.keep)
		c := b.chain(o, standing[r.IntN(len(standing))], standing[r.IntN(len(standing))])
		chains = append(chains, c)
		for _, step := range c.Keep {
			pool = append(pool, b.node(standingKind, hashParams{Salt: fmt.Sprint("audit", i, step)}, c.At(step)))
		}
	}
	for range r.IntN(4) {
		node()
	}
	for i := range 1 + r.IntN(3) {
		c := chains[r.IntN(len(chains))]
		needs := append(pick(4), pool[len(pool)-1])
		b.cell(b.node(reportKind, hashParams{Salt: fmt.Sprint("report", i)}, needs...), c.At(c.Steps))
	}
	return b.done(t)
}
