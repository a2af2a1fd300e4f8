package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// Lineage lists the cells of a run that share a node, and the node's readers.
type Lineage struct {
	// Node is the node; its Cells are all cells that need it.
	Node Node `json:"node"`
	// Readers lists at most MaxReaders of ReadersTotal readers; those of the first cells come first.
	Readers      []Reader `json:"readers"`
	ReadersTotal int      `json:"readers_total"`
}

// MaxReaders is the maximum number of listed readers of a node, and of listed cells of a reader.
const MaxReaders = 100

// Reader is a reader of a node: a standing node, or the training of a cell.
type Reader struct {
	// Key is the key of the node or, for a training, of its first reading step.
	Key   storage.Key `json:"key"`
	Kind  string      `json:"kind"`
	Label string      `json:"label"`
	// Input is the name under which it reads the node.
	Input string `json:"input"`
	// Training reports whether the reader is a training, which reads in all or some of its steps.
	Training bool `json:"training,omitempty"`
	// Cells lists the first of CellsTotal cells that need the reader.
	Cells      []string `json:"cells"`
	CellsTotal int      `json:"cells_total"`
	// Committed reports whether the node is committed, or the training has begun.
	Committed bool `json:"committed"`

	chain *plan.Chain // nil for a standing node
}

func (l *Local) Lineage(ctx context.Context, name, cell, key string) (*Lineage, error) {
	run, p, err := l.planOf(ctx, name)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(p.Cells, func(c plan.Cell) bool { return c.Name == cell })
	if at < 0 {
		return nil, noCell(run, p, cell)
	}
	x, err := l.lineageOf(ctx, p, &p.Cells[at], key)
	if err != nil {
		return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, cell, err)
	}
	for i := range p.Cells {
		x.visit(p, &p.Cells[i])
	}
	out := x.lineage()
	return out, l.lookUpLineage(ctx, out)
}

// lineage collects the cells that need a node, and its readers.
type lineage struct {
	node Node
	// chain is the training of the node, or nil for a standing node.
	chain   *plan.Chain
	readers []*Reader
	byKey   map[storage.Key]*Reader // trainings by recipe
}

// lineageOf finds a node of a cell by the beginning of its key.
func (l *Local) lineageOf(ctx context.Context, p *plan.Plan, c *plan.Cell, key string) (*lineage, error) {
	x := &lineage{byKey: make(map[storage.Key]*Reader)}
	fits := func(k storage.Key) bool { return strings.HasPrefix(k.String(), key) }
	nodes, chains := p.Needed(c.Report, c.Model)
	for _, n := range nodes {
		if fits(n.Key) {
			x.node = newNode(n.Label, &n.Spec)
			return x, nil
		}
	}
	for _, chain := range chains {
		steps, err := l.recordedSteps(ctx, c, chain, 0)
		if err != nil {
			return nil, err
		}
		for _, step := range steps {
			if x.isOf(chain, step, fits) {
				return x, nil
			}
		}
	}
	return nil, fmt.Errorf("node %.64q: %w: no known node of this cell has a key with this prefix", key, storage.ErrNotFound)
}

// isOf sets the node to a task of a step if the key fits. It reports whether it does.
func (x *lineage) isOf(chain *plan.Chain, step int, fits func(storage.Key) bool) bool {
	label, spec := stepLabel(chain, step), chain.JoinSpec(step)
	for part := 0; part < chain.Width && !fits(spec.Key); part++ {
		if fits(chain.PartKey(step, part)) {
			label, spec = partLabel(chain, step, part), chain.PartSpec(step, part)
		}
	}
	if !fits(spec.Key) {
		return false
	}
	x.chain, x.node = chain, newNode(label, &spec)
	return true
}

// visit records whether a cell needs the node, and the cell's readers of it.
func (x *lineage) visit(p *plan.Plan, c *plan.Cell) {
	nodes, chains := p.Needed(c.Report, c.Model)
	for _, n := range nodes {
		if n.Key == x.node.Key {
			x.node.Cells = append(x.node.Cells, c.Name)
		}
		if input, reads := x.input(n.Inputs); reads {
			x.reader(n.Key, Reader{Key: n.Key, Kind: n.Kind, Label: n.Label, Input: input}, c)
		}
	}
	for _, chain := range chains {
		x.visitChain(c, chain)
	}
}

func (x *lineage) visitChain(c *plan.Cell, chain *plan.Chain) {
	inChain := x.chain != nil && x.chain.Recipe == chain.Recipe
	last := chain.Steps
	if c.Chain != nil && c.Chain.Recipe == chain.Recipe {
		last = c.ChainSteps()
	}
	if inChain && x.node.Step <= last {
		x.node.Cells = append(x.node.Cells, c.Name)
	}
	reader := Reader{Kind: chain.Join.Kind.Name, Label: fmt.Sprintf("training, %s", readable.Count(chain.Steps, "step")), Training: true}
	switch input, reads := x.input(chainInputs(chain)); {
	case reads && !inChain:
		reader.Key, reader.Input, reader.chain = chain.Key(1), input, chain
	case inChain && x.node.Key != chain.Key(x.node.Step): // a part, which its join reads
		reader.Key, reader.Label, reader.Input = chain.Key(x.node.Step), stepLabel(chain, x.node.Step), tasks.PartInput(x.node.Part)
	case inChain && x.node.Step < last:
		reader.Key, reader.Label, reader.Input = chain.Key(x.node.Step+1), stepLabel(chain, x.node.Step+1), tasks.PreviousInput
	default:
		return
	}
	x.reader(chain.Recipe, reader, c)
}

// chainInputs returns the inputs of a training that are not its steps.
func chainInputs(chain *plan.Chain) []tasks.Input {
	inputs := append([]tasks.Input{{Name: tasks.PreviousInput, Key: chain.Origin.Key}}, chain.Join.Inputs...)
	if chain.Width > 0 {
		inputs = append(inputs, chain.Part.Inputs...)
	}
	return inputs
}

// input returns the name under which inputs contain the node.
func (x *lineage) input(inputs []tasks.Input) (name string, reads bool) {
	for _, in := range inputs {
		if in.Key == x.node.Key {
			return in.Name, true
		}
	}
	return "", false
}

func (x *lineage) reader(id storage.Key, r Reader, c *plan.Cell) {
	known := x.byKey[id]
	if known == nil {
		r.Cells, known = []string{}, &r
		x.byKey[id] = known
		x.readers = append(x.readers, known)
	}
	if known.CellsTotal++; known.CellsTotal <= MaxReaders {
		known.Cells = append(known.Cells, c.Name)
	}
}

func (x *lineage) lineage() *Lineage {
	readers := lists.Map(x.readers[:min(len(x.readers), MaxReaders)], func(r *Reader) Reader { return *r })
	return &Lineage{Node: x.node, Readers: readers, ReadersTotal: len(x.readers)}
}

// lookUpLineage fills in the node's outputs, and which of its readers are committed.
func (l *Local) lookUpLineage(ctx context.Context, x *Lineage) error {
	node := []Node{x.Node}
	if err := l.lookUp(ctx, node); err != nil {
		return err
	}
	x.Node = node[0]
	return goroutines.Each(ctx, len(x.Readers), lookupsAtOnce, func(ctx context.Context, i int) (err error) {
		x.Readers[i].Committed, err = l.hasBegun(ctx, &x.Readers[i])
		return err
	})
}

// hasBegun reports whether a reader has a record. The first steps of a training lose their records at the
// end of their segment, but the segment keeps one.
func (l *Local) hasBegun(ctx context.Context, r *Reader) (bool, error) {
	begun, err := l.archive.HasCommit(ctx, r.Key)
	if err != nil || begun || r.chain == nil || r.chain.Steps < tasks.SegmentSteps {
		return begun, err
	}
	return l.archive.HasCommit(ctx, r.chain.Key(tasks.SegmentSteps))
}
