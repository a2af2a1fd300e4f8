// These files store the plans of a run with the run: the keys of its nodes, their inputs, and the targets
// of its cells. So a build that would give the nodes other keys, or cannot plan the run, can still show,
// export and verify a finished run, and distinguish its nodes from garbage.
//
// A leader records a plan once, before it works on the run ([Record.Keep]). The plan stays the same while the run
// continues under builds that make the same keys; a build that makes other keys records another plan. The coordinator
// computes the run by its newest plan; the nodes of older plans also stay as long as the run's record.
//
// A record has two parts, both compressed lines of JSON, stored under the digest of the uncompressed text:
// an outline with the chains and the cells, and the standing nodes in blocks. Nodes are numbered in the
// order of the blocks. "17" refers to node 17, "400@2" to step 400 of chain 2; the key of a step follows
// from the chain's recipe ([plan.Chain.Key]).

package plan

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
)

// LostReport is the message about a done cell of a run without a recorded plan, if the store lacks its
// report under the key of this build.
const LostReport = "it is done, but its report is not in the store under the key that this build computes: a build with other keys computed it without recording a plan, or the report is gone; use that build, or run the experiment again, which does not change this run"

// clocks bounds the difference between the clocks of a cluster's machines.
const clocks = 5 * time.Minute

// IsReportOf reports whether a run without a recorded plan can have finished with a report. A report that
// began later belongs to another run of the experiment; this run's report has another key.
func IsReportOf(report *storage.Commit, finished time.Time) bool {
	return finished.IsZero() || !report.Provenance.Started.After(finished.Add(clocks))
}

// HasReport reports whether the store has a report under key with which a run without a recorded plan can have
// finished at the given time. See IsReportOf.
func HasReport(ctx context.Context, archive *storage.Archive, key storage.Key, finished time.Time) (bool, error) {
	report, err := archive.Committed(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return false, nil
	}
	return err == nil && IsReportOf(report, finished), err
}

// head is the small record that names the parts of a plan.
type head struct {
	Outline storage.Digest `json:"outline"`
	Nodes   storage.Digest `json:"nodes"`
	// Count is the number of nodes.
	Count int `json:"count"`
}

// outline is a plan without its standing nodes.
type outline struct {
	Sources []storage.Digest `json:"sources,omitempty"`
	Chains  []chain          `json:"chains,omitempty"`
	Cells   []cell           `json:"cells"`
}

// ref is a reference to a node, or "" for no reference.
type ref string

// input is an input of a template.
type input struct {
	Name string `json:"name"`
	Of   ref    `json:"of"`
}

type template struct {
	Kind      string      `json:"kind"`
	Version   int         `json:"version"`
	Params    string      `json:"params"`
	Inputs    []input     `json:"inputs,omitempty"`
	SecretKey string      `json:"secret_key,omitempty"`
	Class     tasks.Class `json:"class,omitempty"`
	Terms     string      `json:"terms,omitempty"`
}

type chain struct {
	Recipe     storage.Key `json:"recipe"`
	Origin     ref         `json:"origin"`
	Steps      int         `json:"steps"`
	StepRounds int         `json:"step_rounds"`
	Width      int         `json:"width,omitempty"`
	Part       *template   `json:"part,omitempty"`
	Join       template    `json:"join"`
	Keep       []int       `json:"keep,omitempty"`
	Every      int         `json:"every,omitempty"`
	KeepLast   int         `json:"keep_last,omitempty"`
}

type cell struct {
	Index      int             `json:"index"`
	Name       string          `json:"name"`
	Label      string          `json:"label"`
	Axes       json.RawMessage `json:"axes,omitempty"`
	Row        json.RawMessage `json:"row,omitempty"`
	Unit       Unit            `json:"unit"`
	Report     ref             `json:"report"`
	Model      ref             `json:"model"`
	Final      ref             `json:"final,omitempty"`
	Initial    ref             `json:"initial,omitempty"`
	Prepared   ref             `json:"prepared,omitempty"`
	Vocabulary ref             `json:"vocabulary,omitempty"`
	Population ref             `json:"population,omitempty"`
	Shards     ref             `json:"shards,omitempty"`
	Devices    ref             `json:"devices,omitempty"`
	Recorded   []ref           `json:"recorded,omitempty"`
	Chain      *int            `json:"chain,omitempty"`
	After      int             `json:"tail_after,omitempty"`
	Rounds     int             `json:"tail_rounds,omitempty"`
	Tail       ref             `json:"tail,omitempty"`
}

// blockNodes bounds the nodes of a block.
const blockNodes = 4096

// block is one line of nodes, column by column. Its texts are numbered from 1; 0 means the empty text.
type block struct {
	Texts []string `json:"texts"`
	// Keys holds 32 bytes for each node.
	Keys []byte `json:"keys"`
	// Versions holds the versions of the kinds; the other columns up to Terms hold numbers of texts.
	// SecretKeys, Classes and Terms are missing if all are empty.
	Kinds      []int `json:"kinds"`
	Versions   []int `json:"versions"`
	Params     []int `json:"params"`
	Labels     []int `json:"labels"`
	SecretKeys []int `json:"secret_keys,omitempty"`
	Classes    []int `json:"classes,omitempty"`
	Terms      []int `json:"terms,omitempty"`
	// Inputs holds the number of inputs of each node. Names (numbers of texts) and Needs hold an entry for each input
	// of all nodes. A need is the number of a node or, below 0, refers to Steps: -1 is its first element.
	Inputs []int `json:"inputs"`
	Names  []int `json:"names"`
	Needs  []int `json:"needs"`
	Steps  []ref `json:"steps,omitempty"`
}

// RecordWriter makes the record of a plan from its parts. It copies the data that it needs, so a part may
// change afterwards. The zero value is an empty record.
type RecordWriter struct {
	outline outline
	numbers map[storage.Key]int // numbers of the standing nodes
	chains  map[storage.Key]int // numbers of the chains, by recipe
	nodes   *packer
	err     error // the first
}

// Add adds a part of the plan. The part must be complete, as Plan.Check defines it.
func (w *RecordWriter) Add(part *Plan) error {
	if w.numbers == nil {
		w.numbers, w.chains, w.nodes = make(map[storage.Key]int), make(map[storage.Key]int), newPacker()
	}
	fresh := w.number(part)
	for start := 0; start < len(fresh); start += blockNodes {
		block := w.block(part, fresh[start:min(start+blockNodes, len(fresh))])
		if err := w.nodes.add(block); err != nil {
			return err
		}
	}
	for _, recipe := range SortedKeys(part.Chains) {
		w.chain(part.Chains[recipe])
	}
	for i := range part.Cells {
		w.outline.Cells = append(w.outline.Cells, w.cell(&part.Cells[i]))
	}
	w.outline.Sources = append(w.outline.Sources, part.Sources...)
	return w.err
}

// number numbers the nodes and chains that no earlier part has, and returns the keys of these nodes.
func (w *RecordWriter) number(part *Plan) (fresh []storage.Key) {
	for _, key := range SortedKeys(part.Nodes) {
		if _, known := w.numbers[key]; !known {
			w.numbers[key] = len(w.numbers)
			fresh = append(fresh, key)
		}
	}
	for _, recipe := range SortedKeys(part.Chains) {
		if _, known := w.chains[recipe]; !known {
			w.chains[recipe] = len(w.chains)
			w.outline.Chains = append(w.outline.Chains, chain{})
		}
	}
	return fresh
}

func (w *RecordWriter) block(part *Plan, keys []storage.Key) *block {
	b, texts, steps := &block{Texts: []string{}}, numbering[string]{}, numbering[ref]{}
	text := func(s string) int {
		if s == "" {
			return 0
		}
		return texts.of(s, &b.Texts) + 1
	}
	for _, key := range keys {
		n := part.Nodes[key]
		b.Keys = append(b.Keys, key.Digest[:]...)
		b.Kinds, b.Versions = append(b.Kinds, text(n.Kind)), append(b.Versions, n.Version)
		b.Params, b.Labels = append(b.Params, text(string(n.Params))), append(b.Labels, text(n.Label))
		b.SecretKeys, b.Classes = append(b.SecretKeys, text(n.SecretKey)), append(b.Classes, text(string(n.Class)))
		b.Terms, b.Inputs = append(b.Terms, text(string(n.Terms))), append(b.Inputs, len(n.Inputs))
		for i, in := range n.Inputs {
			b.Names = append(b.Names, text(in.Name))
			if n.Needs[i].Chain != nil {
				b.Needs = append(b.Needs, -1-steps.of(w.ref(n.Needs[i]), &b.Steps))
			} else {
				b.Needs = append(b.Needs, w.node(n.Needs[i].Key))
			}
		}
	}
	for _, column := range []*[]int{&b.SecretKeys, &b.Classes, &b.Terms} {
		if !slices.ContainsFunc(*column, func(n int) bool { return n != 0 }) {
			*column = nil
		}
	}
	return b
}

// numbering numbers values from 0.
type numbering[V comparable] map[V]int

// of returns the number of a value. It numbers a new value and appends it to the list.
func (x numbering[V]) of(value V, list *[]V) int {
	n, known := x[value]
	if !known {
		n = len(x)
		x[value] = n
		*list = append(*list, value)
	}
	return n
}

// chain adds a chain or, if an earlier part has it, merges the wants of this part.
func (w *RecordWriter) chain(c *Chain) {
	x := &w.outline.Chains[w.chains[c.Recipe]]
	if !x.Recipe.IsZero() {
		shape := Chain{Steps: x.Steps, Every: x.Every, KeepLast: x.KeepLast, Keep: x.Keep}
		shape.Extend(c)
		x.Steps, x.Every, x.KeepLast, x.Keep = shape.Steps, shape.Every, shape.KeepLast, shape.Keep
		return
	}
	*x = chain{
		Recipe: c.Recipe, Origin: w.ref(c.Origin), Steps: c.Steps, StepRounds: c.StepRounds, Width: c.Width,
		Join: w.template(&c.Join), Keep: slices.Clone(c.Keep), Every: c.Every, KeepLast: c.KeepLast,
	}
	if c.Width > 0 {
		part := w.template(&c.Part)
		x.Part = &part
	}
}

func (w *RecordWriter) template(t *Template) template {
	x := template{
		Kind: t.Kind.Name, Version: t.Kind.Version, Params: string(t.Params),
		SecretKey: t.SecretKey, Class: t.Class, Terms: string(t.Terms),
	}
	for i, in := range t.Inputs {
		x.Inputs = append(x.Inputs, input{in.Name, w.ref(t.Needs[i])})
	}
	return x
}

func (w *RecordWriter) cell(c *Cell) cell {
	x := cell{
		Index: c.Index, Name: c.Name, Label: c.Label, Axes: c.Axes, Row: c.Row, Unit: c.Unit,
		Report: w.ref(c.Report), Model: w.ref(c.Model), Final: w.ref(c.Final), Initial: w.ref(c.Initial), Prepared: w.ref(c.Prepared),
		Vocabulary: w.ref(c.Vocabulary), Population: w.ref(c.Population), Shards: w.ref(c.Shards), Devices: w.ref(c.Devices),
		After: c.Tail.After, Rounds: c.Tail.Rounds, Tail: w.ref(c.Tail.Node),
	}
	for _, key := range c.Recorded {
		x.Recorded = append(x.Recorded, w.ref(Ref{Key: key}))
	}
	if c.Chain != nil {
		n := w.chains[c.Chain.Recipe]
		x.Chain = &n
	}
	return x
}

// ref refers to a node by its number, and to a step by the number of its chain.
func (w *RecordWriter) ref(r Ref) ref {
	switch {
	case r.Chain != nil:
		return ref(fmt.Sprintf("%d@%d", r.Step, w.chains[r.Chain.Recipe]))
	case r.Key.IsZero():
		return ""
	}
	return ref(strconv.Itoa(w.node(r.Key)))
}

func (w *RecordWriter) node(key storage.Key) int {
	n, known := w.numbers[key]
	if !known && w.err == nil {
		w.err = fmt.Errorf("plan cannot be recorded: it refers to node %s, which it does not contain", key.Short())
	}
	return n
}

// Record is the stored form of a plan.
type Record struct {
	head           head
	outline, nodes []byte
}

// Record returns the record of all parts together.
func (w *RecordWriter) Record() (*Record, error) {
	r, all := new(Record), newPacker()
	err := all.add(&w.outline)
	if err == nil {
		r.outline, r.head.Outline, err = all.end()
	}
	if err == nil {
		r.nodes, r.head.Nodes, err = cmp.Or(w.nodes, newPacker()).end()
	}
	r.head.Count = len(w.numbers)
	return r, err
}

// Keep records the plan of a run, unless the newest record of the run is the same. Earlier records
// stay. Only the leader calls it.
func (r *Record) Keep(ctx context.Context, archive *storage.Archive, run string) error {
	for {
		numbers, err := archive.Plans(ctx, run)
		if err != nil {
			return err
		}
		n := 0
		if len(numbers) > 0 {
			n = numbers[len(numbers)-1]
			same, err := r.stands(ctx, archive, run, n)
			if same || err != nil {
				return err
			}
		}
		if err := r.create(ctx, archive, run, n+1); !errors.Is(err, storage.ErrExists) {
			return err
		}
	}
}

// stands reports whether the n-th record of the run equals r.
func (r *Record) stands(ctx context.Context, archive *storage.Archive, run string, n int) (bool, error) {
	var found head
	err := archive.Plan(ctx, run, n, &found)
	if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrNewer) {
		return false, nil
	}
	return found == r.head, err
}

func (r *Record) create(ctx context.Context, archive *storage.Archive, run string, n int) error {
	if err := archive.PutPlanned(ctx, run, r.head.Outline, r.outline); err != nil {
		return err
	}
	if err := archive.PutPlanned(ctx, run, r.head.Nodes, r.nodes); err != nil {
		return err
	}
	return archive.CreatePlan(ctx, run, n, r.head)
}

// packer compresses JSON texts, one on each line, and computes the digest of the uncompressed lines.
type packer struct {
	data bytes.Buffer
	zip  *gzip.Writer
	sum  hash.Hash
}

func newPacker() *packer {
	p := &packer{sum: sha256.New()}
	p.zip, _ = gzip.NewWriterLevel(&p.data, gzip.BestSpeed) // most bytes are keys, which no level compresses
	return p
}

func (p *packer) add(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("plan cannot be recorded: %w", err)
	}
	text = append(text, '\n')
	p.sum.Write(text)
	_, err = p.zip.Write(text)
	return err
}

func (p *packer) end() (data []byte, digest storage.Digest, err error) {
	err = p.zip.Close()
	return p.data.Bytes(), storage.Digest(p.sum.Sum(nil)), err
}
