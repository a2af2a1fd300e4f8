// Package plantest makes plans for tests: by hand, in the form of experiments, or at random. Their kinds
// only hash, so that a plan of hundreds of steps runs in milliseconds; an Evaluator computes the expected
// results. It also runs whole experiments, from the file to the report, in memory and in one goroutine:
//
//	report := plantest.CellReport(t, file, "training.rounds=3")
package plantest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// Params are the parameters of the kinds. A kind writes a hash of its parameters, its place and its inputs.
type Params struct {
	// Salt distinguishes nodes.
	Salt string
	// Big makes the outputs separate objects. Otherwise they are inline in the commit.
	Big bool
	// Fail makes every attempt fail.
	Fail bool `json:",omitempty"`
}

// The kinds.
var (
	Standing = tasks.Kind{Name: "test/standing", Version: 1, Class: tasks.Compute, Run: runStanding}
	Report   = tasks.Kind{Name: "test/report", Version: 1, Class: tasks.Compute, Run: runStanding}
	Part     = tasks.Kind{Name: "test/part", Version: 1, Class: tasks.Compute, Run: runPart}
	Join     = tasks.Kind{Name: "test/join", Version: 1, Class: tasks.Compute, Run: runJoin}
	Kinds    = tasks.NewRegistry(Standing, Report, Part, Join)
)

// outBlob is the name of the output of every kind.
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

// runJoin keeps metric rows as a training does: in the open segment as a blob that only the next join
// reads, and at the end of the segment as a lasting blob.
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
	}
	if p.Big || plan.Boundary(t.Step) {
		rows = stretch(sha256.Sum256(rows), p.Big)
	}
	return errors.Join(t.Put(ctx, outBlob, stretch(h, p.Big)), t.Put(ctx, name, rows))
}

func digestInputs(ctx context.Context, t *tasks.Task) (Params, [32]byte, error) {
	var p Params
	if err := t.Decode(&p); err != nil {
		return p, [32]byte{}, err
	}
	if p.Fail {
		return p, [32]byte{}, tasks.Permanent(errors.New("requested to fail"))
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

// Outputs are the digests of a node's blobs by name.
type Outputs map[string]storage.Digest

// OutputsOf returns the outputs that a commit names.
func OutputsOf(c *storage.Commit) Outputs {
	out := make(Outputs)
	for _, b := range c.Blobs {
		out[b.Name] = b.Digest
	}
	return out
}

// Evaluator computes a plan one node after the other, in memory, without a queue or a store. A coordinator
// must give the same results.
type Evaluator struct{ runner *tasks.Runner }

// NewEvaluator returns an evaluator that has computed nothing.
func NewEvaluator() *Evaluator { return &Evaluator{tasks.NewRunner()} }

// Sink holds the outputs of a task by name.
type Sink map[string][]byte

func (s Sink) Put(_ context.Context, name string, data []byte, _ storage.Durability) error {
	s[name] = data
	return nil
}

// Reach computes a node of a plan and its needs.
func (e *Evaluator) Reach(p *plan.Plan, r plan.Ref) error {
	w := walk{plan: p, done: func(key storage.Key) bool { return e.runner.Node(key) != nil }, execute: func(spec tasks.Spec) error {
		_, err := e.runner.Run(context.Background(), Kinds[spec.Kind], spec)
		return err
	}}
	return w.reach(r)
}

// walk executes the needs of a node, and then the node.
type walk struct {
	plan    *plan.Plan
	done    func(storage.Key) bool
	execute func(tasks.Spec) error
}

func (w *walk) reach(r plan.Ref) error {
	if r.Chain == nil {
		n := w.plan.Nodes[r.Key]
		return w.all(n.Needs, n.Spec)
	}
	if err := w.all(r.Chain.StandingNeeds()); err != nil {
		return err
	}
	for step := 1; step <= r.Step; step++ {
		var specs []tasks.Spec
		for j := range r.Chain.Width {
			specs = append(specs, r.Chain.PartSpec(step, j))
		}
		if err := w.all(nil, append(specs, r.Chain.JoinSpec(step))...); err != nil {
			return err
		}
	}
	return nil
}

// all executes the specs that are not done, after their needs.
func (w *walk) all(needs []plan.Ref, specs ...tasks.Spec) error {
	for _, need := range needs {
		if !w.done(need.Key) {
			if err := w.reach(need); err != nil {
				return err
			}
		}
	}
	for _, spec := range specs {
		if !w.done(spec.Key) {
			if err := w.execute(spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// Outputs returns the outputs of a node, or nil if it has not been computed.
func (e *Evaluator) Outputs(key storage.Key) Outputs {
	n := e.runner.Node(key)
	if n == nil {
		return nil
	}
	return OutputsOf(n.Commit())
}

// Source reads inputs from an archive as a worker does. It reads only whole blobs, because the kinds read
// nothing else.
type Source struct {
	tasks.Source
	Archive *storage.Archive
}

func (s Source) Blob(ctx context.Context, node storage.Key, name string) ([]byte, error) {
	data, err := s.Archive.ReadOutput(ctx, node, name)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return nil, &tasks.MissingError{Node: node, Blob: name, Err: err}
	}
	return data, err
}

// Execute runs a task on the outputs in an archive and commits its outputs there, as a worker does. It
// returns the commit in the archive.
func Execute(ctx context.Context, archive *storage.Archive, spec tasks.Spec, attempt string) (*storage.Commit, error) {
	sink := make(Sink)
	if err := Kinds[spec.Kind].Run(ctx, tasks.NewTask(spec, Source{Archive: archive}, sink, nil, nil)); err != nil {
		return nil, err
	}
	c := &storage.Commit{Key: spec.Key, Kind: spec.Kind, KindVersion: spec.Version, Attempt: attempt}
	for _, name := range slices.Sorted(maps.Keys(sink)) {
		b, err := archive.PutBlob(ctx, c.Key, name, sink[name], storage.Durable)
		if err != nil {
			return nil, err
		}
		c.Blobs = append(c.Blobs, b)
	}
	stands, _, err := archive.Commit(ctx, c)
	return stands, err
}

// Store executes the targets of a plan's cells, and their needs, in an archive. It deletes nothing.
func Store(t testing.TB, archive *storage.Archive, p *plan.Plan) {
	t.Helper()
	w := walk{
		plan: p,
		done: func(key storage.Key) bool {
			there, err := archive.HasCommit(t.Context(), key)
			return there && err == nil
		},
		execute: func(spec tasks.Spec) error {
			_, err := Execute(t.Context(), archive, spec, "stored")
			return err
		},
	}
	for _, c := range p.Cells {
		for _, ref := range []plan.Ref{c.Report, c.Model} {
			must.Do(t, w.all([]plan.Ref{ref}))
		}
	}
}

// Builder makes plans by hand.
type Builder struct {
	plan.Plan
}

// NewBuilder returns a builder of a plan without nodes.
func NewBuilder() *Builder {
	return &Builder{plan.Plan{Nodes: make(map[storage.Key]*plan.Node), Chains: make(map[storage.Key]*plan.Chain)}}
}

// Node adds a standing node.
func (b *Builder) Node(kind tasks.Kind, p Params, needs ...plan.Ref) plan.Ref {
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

// ChainOptions are the options of a training. Keep, Every and KeepLast are as in plan.Chain; the last
// step is always kept. If Gather is set, a node reads the checkpoints of each group of Gather steps.
type ChainOptions struct {
	Salt            string
	Width, Steps    int
	Keep            []int
	Every, KeepLast int
	Big             bool
	Gather          int
	FailParts       bool
	SecretKey       string
	Class           tasks.Class
}

// Chain adds a training from origin. Its parts also read the shared nodes.
func (b *Builder) Chain(o ChainOptions, origin plan.Ref, shared ...plan.Ref) *plan.Chain {
	template := func(kind tasks.Kind, fail bool, needs []plan.Ref) plan.Template {
		raw, err := json.Marshal(Params{Salt: o.Salt, Big: o.Big, Fail: fail})
		if err != nil {
			panic(err)
		}
		t := plan.Template{Kind: kind, Params: raw, Needs: needs, SecretKey: o.SecretKey, Class: o.Class}
		for i, need := range needs {
			t.Inputs = append(t.Inputs, tasks.Input{Name: fmt.Sprintf("shared-%d", i), Key: need.Key})
		}
		return t
	}
	c := &plan.Chain{
		Origin: origin, Steps: o.Steps, StepRounds: 1, Width: o.Width,
		Part: template(Part, o.FailParts, shared), Join: template(Join, false, nil),
		Keep: o.Keep, Every: o.Every, KeepLast: o.KeepLast,
	}
	if !slices.Contains(c.Keep, c.Steps) {
		c.Keep = append(c.Keep, c.Steps)
	}
	slices.Sort(c.Keep)
	c.Recipe = plan.Recipe(origin.Key, o.Width, 1, c.Part, c.Join)
	b.Chains[c.Recipe] = c
	return c
}

func (b *Builder) Cell(report, model plan.Ref) {
	c := plan.Cell{Index: len(b.Cells), Name: fmt.Sprintf("c%02d", len(b.Cells)+1), Report: report, Model: model, Chain: model.Chain, Unit: plan.Round}
	c.Label = "cell " + c.Name
	b.Cells = append(b.Cells, c)
}

// Done checks the plan and returns it.
func (b *Builder) Done(t testing.TB) *plan.Plan {
	t.Helper()
	must.Do(t, b.Check())
	return &b.Plan
}

// InParts yields a plan by groups of cells, as the plan of a large grid is made. It yields an invalid plan whole.
func InParts(p *plan.Plan, cells int) plan.Parts {
	if p.Check() != nil {
		return plan.SinglePart(p)
	}
	left := p.Cells
	return func() (*plan.Plan, error) {
		if len(left) == 0 {
			return nil, io.EOF
		}
		n := min(cells, len(left))
		part := partOf(p, left[:n])
		if len(left) == len(p.Cells) {
			part.Sources = p.Sources
		}
		left = left[n:]
		return part, nil
	}
}

// partOf returns the plan of some cells of a plan.
func partOf(p *plan.Plan, cells []plan.Cell) *plan.Plan {
	var targets []plan.Ref
	for _, c := range cells {
		targets = append(targets, c.Report, c.Model)
	}
	part := &plan.Plan{Cells: cells, Nodes: make(map[storage.Key]*plan.Node), Chains: make(map[storage.Key]*plan.Chain)}
	nodes, chains := p.Needed(targets...)
	for _, n := range nodes {
		part.Nodes[n.Key] = n
	}
	for _, ch := range chains {
		part.Chains[ch.Recipe] = ch
	}
	return part
}

// Federated returns a plan in the form of a federated experiment: data, a chain, an audit at each kept
// step, and a report on the audits.
func Federated(t testing.TB, o ChainOptions) *plan.Plan {
	b := NewBuilder()
	data := b.Node(Standing, Params{Salt: "data", Big: true})
	origin := b.Node(Standing, Params{Salt: "origin", Big: true}, data)
	c := b.Chain(o, origin, data)
	var audits []plan.Ref
	for _, step := range c.Keep {
		audits = append(audits, b.Node(Standing, Params{Salt: fmt.Sprintf("audit %d", step)}, c.At(step), data))
	}
	audits = append(audits, b.gathers(c, o.Gather)...)
	b.Cell(b.Node(Report, Params{Salt: "report"}, audits...), c.At(c.Steps))
	return b.Done(t)
}

// gathers adds a node for each group of size steps of a chain, or none if size is 0.
func (b *Builder) gathers(c *plan.Chain, size int) (nodes []plan.Ref) {
	for first := 1; size > 0 && first <= c.Steps; first += size {
		var steps []plan.Ref
		for step := first; step < first+size && step <= c.Steps; step++ {
			steps = append(steps, c.At(step))
		}
		nodes = append(nodes, b.Node(Standing, Params{Salt: fmt.Sprint("gather ", first), Big: true}, steps...))
	}
	return nodes
}

// Random draws a plan: a layered DAG of standing nodes, some of which read checkpoints, with chains and cells.
func Random(t testing.TB, r *rand.Rand) *plan.Plan {
	b := NewBuilder()
	var pool []plan.Ref
	pick := func(most int) []plan.Ref {
		var refs []plan.Ref
		for _, i := range r.Perm(len(pool))[:min(len(pool), r.IntN(most+1))] {
			refs = append(refs, pool[i])
		}
		return refs
	}
	node := func() {
		p := Params{Salt: fmt.Sprint(len(pool), "-", r.IntN(3)), Big: r.IntN(2) == 0}
		pool = append(pool, b.Node(Standing, p, pick(3)...))
	}
	for range 2 + r.IntN(4) {
		node()
	}
	standing := slices.Clone(pool)
	var chains []*plan.Chain
	gathers := map[*plan.Chain][]plan.Ref{}
	for i := range 1 + r.IntN(2) {
		o := ChainOptions{Salt: fmt.Sprint("chain", i), Width: r.IntN(4), Steps: 1 + r.IntN(25), Big: r.IntN(3) > 0, Every: r.IntN(6), KeepLast: r.IntN(3)}
		if r.IntN(4) == 0 {
			o.Steps += 90
		}
		for range r.IntN(4) {
			o.Keep = append(o.Keep, 1+r.IntN(o.Steps))
		}
		slices.Sort(o.Keep)
		o.Keep = slices.Compact(o.Keep)
		c := b.Chain(o, standing[r.IntN(len(standing))], standing[r.IntN(len(standing))])
		chains = append(chains, c)
		for _, step := range c.Keep {
			pool = append(pool, b.Node(Standing, Params{Salt: fmt.Sprint("audit", i, step)}, c.At(step)))
		}
		if r.IntN(3) == 0 {
			gathers[c] = b.gathers(c, 1+r.IntN(40))
		}
	}
	for range r.IntN(4) {
		node()
	}
	for i := range 1 + r.IntN(3) {
		c := chains[r.IntN(len(chains))]
		needs := append(append(pick(4), pool[len(pool)-1]), gathers[c]...)
		b.Cell(b.Node(Report, Params{Salt: fmt.Sprint("report", i)}, needs...), c.At(c.Steps))
	}
	return b.Done(t)
}
