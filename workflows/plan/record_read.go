package plan

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"coalmine/storage"
	"coalmine/tasks"
)

// ReadNewestRecord returns the newest undamaged recorded plan of a run. The error wraps storage.ErrNotFound
// if there is none, or storage.ErrNewer if a newer build recorded it.
func ReadNewestRecord(ctx context.Context, archive *storage.Archive, run string) (*Plan, error) {
	numbers, err := archive.Plans(ctx, run)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("run %s has no recorded plan: %w", run, storage.ErrNotFound)
	for i := len(numbers) - 1; i >= 0; i-- {
		p, damage := read(ctx, archive, run, numbers[i], true)
		if damage == nil || !errors.Is(damage, storage.ErrCorrupt) {
			return p, damage
		}
		err = errors.Join(err, damage)
	}
	return nil, err
}

// ReadRecords calls do with each undamaged recorded plan of a run, the newest last, and reports whether the
// newest record is among them.
func ReadRecords(ctx context.Context, archive *storage.Archive, run string, do func(*Plan)) (known bool, err error) {
	return readAll(ctx, archive, run, true, do)
}

// ReadOutlines is like ReadRecords but omits the standing nodes; references to them are zero.
func ReadOutlines(ctx context.Context, archive *storage.Archive, run string, do func(*Plan)) (known bool, err error) {
	return readAll(ctx, archive, run, false, do)
}

func readAll(ctx context.Context, archive *storage.Archive, run string, whole bool, do func(*Plan)) (known bool, err error) {
	numbers, err := archive.Plans(ctx, run)
	if err != nil {
		return false, err
	}
	for _, n := range numbers {
		p, err := read(ctx, archive, run, n, whole)
		if known = err == nil; known {
			do(p)
		} else if !errors.Is(err, storage.ErrCorrupt) {
			return false, err
		}
	}
	return known, nil
}

// read reads a recorded plan, whole or only its outline. The error wraps storage.ErrCorrupt if the record
// is damaged or a part of it is missing.
func read(ctx context.Context, archive *storage.Archive, run string, n int, whole bool) (*Plan, error) {
	var h head
	if err := archive.Plan(ctx, run, n, &h); err != nil {
		return nil, err
	}
	d := &decoder{whole: whole}
	if err := d.readOutline(ctx, archive, run, h); err != nil {
		return nil, err
	}
	if whole {
		if h.Count < 0 || h.Count > MaxNodes {
			return nil, fmt.Errorf("plan %d of run %s: %w: it has %d nodes, expected at most %d", n, run, storage.ErrCorrupt, h.Count, MaxNodes)
		}
		if err := d.readNodes(ctx, archive, run, h); err != nil {
			return nil, err
		}
	}
	p, err := d.plan()
	if err != nil {
		return nil, fmt.Errorf("plan %d of run %s: %w: %w", n, run, storage.ErrCorrupt, err)
	}
	return p, nil
}

// decoder decodes a plan from its record.
type decoder struct {
	outline outline
	// nodes are in the order of their numbers, and needs are those of their blocks. Both are empty if only
	// the outline was read.
	nodes []*Node
	needs []needs
	texts map[string]text // one copy of each
	whole bool

	chains []*Chain
	err    error // the first
}

func (d *decoder) readOutline(ctx context.Context, archive *storage.Archive, run string, h head) error {
	return readLines(ctx, archive, run, h.Outline, func(lines *json.Decoder) error {
		d.outline = outline{}
		return lines.Decode(&d.outline)
	})
}

func (d *decoder) readNodes(ctx context.Context, archive *storage.Archive, run string, h head) error {
	return readLines(ctx, archive, run, h.Nodes, func(lines *json.Decoder) error {
		d.nodes, d.needs, d.texts, d.err = make([]*Node, 0, h.Count), nil, make(map[string]text), nil
		for {
			var b block
			if err := lines.Decode(&b); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			if d.addBlock(&b); d.err != nil || len(d.nodes) > h.Count {
				break
			}
		}
		if d.err == nil && len(d.nodes) != h.Count {
			d.fail("its record announces %d nodes", h.Count)
		}
		return d.err
	})
}

// text is a text of a record in both forms in which a plan uses it.
type text struct {
	string
	raw json.RawMessage // nil for the empty text
}

// column reads a column of a block: numbers of texts. The column may be missing if all are empty.
func (d *decoder) column(b *block, column []int, n int) []text {
	if len(column) == 0 {
		return make([]text, n)
	}
	if len(column) != n {
		d.fail("%d items for %d nodes", len(column), n)
		return make([]text, n)
	}
	texts := make([]text, n)
	for i, number := range column {
		switch {
		case number < 0 || number > len(b.Texts):
			d.fail("text %d of %d", number, len(b.Texts))
		case number > 0:
			texts[i] = d.text(b.Texts[number-1])
		}
	}
	return texts
}

// text returns the forms of s. Equal texts share one copy.
func (d *decoder) text(s string) text {
	known, there := d.texts[s]
	if !there {
		known = text{s, json.RawMessage(s)}
		d.texts[s] = known
	}
	return known
}

func (d *decoder) addBlock(b *block) {
	n, inputs := len(b.Kinds), 0
	for _, k := range b.Inputs {
		inputs += max(k, 0)
	}
	if len(b.Keys) != n*len(storage.Key{}.Digest) || len(b.Versions) != n || len(b.Inputs) != n || len(b.Needs) != inputs {
		d.fail("a block with columns of different lengths")
		return
	}
	kinds, params, labels := d.column(b, b.Kinds, n), d.column(b, b.Params, n), d.column(b, b.Labels, n)
	secretKeys, classes, terms := d.column(b, b.SecretKeys, n), d.column(b, b.Classes, n), d.column(b, b.Terms, n)
	names, nodes := d.column(b, b.Names, inputs), make([]Node, n)
	for i := range nodes {
		x := &nodes[i]
		*x = Node{Label: labels[i].string, Spec: tasks.Spec{
			Kind: kinds[i].string, Version: b.Versions[i], Params: params[i].raw,
			SecretKey: secretKeys[i].string, Class: tasks.Class(classes[i].string), Terms: terms[i].raw,
		}}
		copy(x.Key.Digest[:], b.Keys[i*len(x.Key.Digest):])
		for k := range max(b.Inputs[i], 0) {
			x.Inputs = append(x.Inputs, tasks.Input{Name: names[k].string})
		}
		names = names[len(x.Inputs):]
		d.nodes = append(d.nodes, x)
	}
	d.needs = append(d.needs, needs{n, b.Needs, b.Steps})
}

// needs holds the undecoded needs of a block's nodes; see block.
type needs struct {
	nodes   int
	numbers []int
	steps   []ref
}

func (d *decoder) linkNodes() {
	left := d.nodes
	for _, x := range d.needs {
		steps := make([]Ref, len(x.steps))
		for i, r := range x.steps {
			steps[i] = d.ref(r)
		}
		for _, n := range left[:x.nodes] {
			for i := range n.Inputs {
				need := d.need(x.numbers[i], steps)
				n.Inputs[i].Key, n.Needs = need.Key, append(n.Needs, need)
			}
			x.numbers = x.numbers[len(n.Inputs):]
		}
		left = left[x.nodes:]
	}
}

func (d *decoder) need(n int, steps []Ref) Ref {
	switch {
	case n < 0 && -1-n < len(steps):
		return steps[-1-n]
	case n < 0 || n >= len(d.nodes):
		d.fail("a reference to node %d of %d", n, len(d.nodes))
		return Ref{}
	}
	return Ref{Key: d.nodes[n].Key}
}

// raw returns JSON that was recorded as text, or nil for the empty text.
func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func (d *decoder) plan() (*Plan, error) {
	p := &Plan{Nodes: make(map[storage.Key]*Node, len(d.nodes)), Chains: make(map[storage.Key]*Chain), Sources: d.outline.Sources}
	for i := range d.outline.Chains {
		d.addChain(&d.outline.Chains[i])
	}
	for i := range d.outline.Chains {
		d.linkChain(d.chains[i], &d.outline.Chains[i])
		p.Chains[d.chains[i].Recipe] = d.chains[i]
	}
	d.linkNodes()
	for _, n := range d.nodes {
		p.Nodes[n.Key] = n
	}
	for i := range d.outline.Cells {
		p.Cells = append(p.Cells, d.cell(&d.outline.Cells[i]))
	}
	return p, d.err
}

func (d *decoder) addChain(x *chain) {
	if x.Steps < 1 || x.Steps > MaxSteps {
		d.fail("a chain of %d steps", x.Steps)
	}
	c := &Chain{
		Recipe: x.Recipe, Steps: x.Steps, StepRounds: x.StepRounds, Width: x.Width,
		Keep: x.Keep, Every: x.Every, KeepLast: x.KeepLast,
	}
	d.chains = append(d.chains, c)
}

func (d *decoder) linkChain(c *Chain, x *chain) {
	c.Origin, c.Join = d.ref(x.Origin), d.template(&x.Join)
	if x.Part != nil {
		c.Part = d.template(x.Part)
	}
}

func (d *decoder) template(x *template) Template {
	t := Template{
		Kind: tasks.Kind{Name: x.Kind, Version: x.Version}, Params: raw(x.Params),
		SecretKey: x.SecretKey, Class: x.Class, Terms: raw(x.Terms),
	}
	for _, in := range x.Inputs {
		need := d.ref(in.Of)
		t.Inputs, t.Needs = append(t.Inputs, tasks.Input{Name: in.Name, Key: need.Key}), append(t.Needs, need)
	}
	return t
}

func (d *decoder) cell(x *cell) Cell {
	c := Cell{
		Index: x.Index, Name: x.Name, Label: x.Label, Axes: x.Axes, Row: x.Row, Unit: x.Unit,
		Report: d.ref(x.Report), Model: d.ref(x.Model), Final: d.ref(x.Final), Initial: d.ref(x.Initial), Prepared: d.ref(x.Prepared),
		Vocabulary: d.ref(x.Vocabulary), Population: d.ref(x.Population), Shards: d.ref(x.Shards), Devices: d.ref(x.Devices),
		Tail: Tail{After: x.After, Rounds: x.Rounds, Node: d.ref(x.Tail)},
	}
	for _, r := range x.Recorded {
		c.Recorded = append(c.Recorded, d.ref(r).Key)
	}
	if x.Chain != nil {
		c.Chain = d.chainOf(*x.Chain)
	}
	return c
}

func (d *decoder) chainOf(n int) *Chain {
	if n < 0 || n >= len(d.chains) {
		d.fail("a reference to chain %d of %d", n, len(d.chains))
		return nil
	}
	return d.chains[n]
}

// ref resolves a reference. References to standing nodes are zero if the nodes were not read.
func (d *decoder) ref(r ref) Ref {
	if r == "" {
		return Ref{}
	}
	first, second, step := strings.Cut(string(r), "@")
	n, err := strconv.Atoi(first)
	switch {
	case err == nil && step:
		return d.step(n, second)
	case err == nil && !d.whole:
		return Ref{}
	case err != nil || n < 0 || n >= len(d.nodes):
		d.fail("a reference to node %.40q of %d", string(r), len(d.nodes))
		return Ref{}
	}
	return Ref{Key: d.nodes[n].Key}
}

func (d *decoder) step(step int, chain string) Ref {
	n, err := strconv.Atoi(chain)
	if err != nil {
		n = -1
	}
	c := d.chainOf(n)
	if c == nil || step < 1 || step > min(c.Steps, MaxSteps) {
		d.fail("a reference to step %d of chain %.40q", step, chain)
		return Ref{}
	}
	return c.At(step)
}

// readLines passes all lines of a part of a plan to read, and compares their digest. Lines that cannot be
// decoded and a missing part count as damage.
func readLines(ctx context.Context, archive *storage.Archive, run string, digest storage.Digest, read func(*json.Decoder) error) error {
	err := archive.ReadPlanned(ctx, run, digest, func(r io.Reader) error {
		source := &source{r: r}
		err := unpack(source, digest, read)
		if err == nil || source.err != nil {
			return source.err // the store failed; the part may be intact
		}
		return fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
	})
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
	}
	return err
}

func unpack(r io.Reader, digest storage.Digest, read func(*json.Decoder) error) error {
	unzip, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return err
	}
	sum := sha256.New()
	text := io.TeeReader(unzip, sum)
	if err := read(json.NewDecoder(text)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, text); err != nil {
		return err
	}
	if got := storage.Digest(sum.Sum(nil)); got != digest {
		return fmt.Errorf("its bytes have the digest %s", got.Short())
	}
	return nil
}

// source keeps an error of the store apart from errors of decoding.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
