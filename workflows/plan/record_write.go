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

	"coalmine/storage"
)

// RecordWriter makes the record of a plan from its parts. It copies the data that it keeps, so a part
// may change afterwards. The zero value is an empty record.
type RecordWriter struct {
	outline outline
	numbers map[storage.Key]int // numbers of the standing nodes
	chains  map[storage.Key]int // numbers of the chains, by recipe
	nodes   *packer
	err     error // the first
}

// Add adds a part of the plan, which must be complete: see plan.Plan.Check.
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

// number numbers the nodes and chains of a part that no earlier part has, and returns these nodes.
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

// of returns the number of a value. It numbers a new value and adds it to the list.
func (x numbering[V]) of(value V, list *[]V) int {
	n, known := x[value]
	if !known {
		n = len(x)
		x[value] = n
		*list = append(*list, value)
	}
	return n
}

// chain adds a chain or, if another part has it, the wants of this part.
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
		w.err = fmt.Errorf("plan cannot be recorded: it refers to node %s, which it does not hold", key.Short())
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

// stands reports whether the n-th record of the run is the same.
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
