// Package plan describes the wants of a run: a DAG of nodes. It is pure and does no I/O, except for the
// records of plans in the store (Record), and for the available outputs there: of a node (LookUp), and of a
// training of any length (Surveyor). A node is available if it is committed and its blobs can be read. An
// unavailable node is only work (invariant 6): it is recomputed from the nearest available outputs.
//
// Most nodes are standing nodes (import the source, insert the canaries, audit a checkpoint). A training
// is a Chain of steps, each made of parallel parts and a join. It is unrolled lazily, so a plan of a
// million rounds is as small as a plan of ten. The coordinator decides which nodes must run: it walks
// back from the cells' targets to the stored outputs.
package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"coalmine/storage"
	"coalmine/tasks"
)

// Plan holds the wants of one run.
type Plan struct {
	Cells []Cell
	// Nodes are the standing nodes of all cells, each once.
	Nodes map[storage.Key]*Node
	// Chains are the training chains of all cells by recipe, each once. Cells that differ only in their
	// audits share a chain. It keeps the checkpoints that any of them needs.
	Chains map[storage.Key]*Chain
	// Sources are the files from which the data of the cells are imported, each once. In a plan of several
	// parts, the first part has all sources.
	Sources []storage.Digest
}

// Cell is one point of the grid.
type Cell struct {
	Index int
	// Name is short and unique within the run, such as "c03".
	Name string
	// Label is for display, such as "by-user, fedavg".
	Label string
	// Axes and Row are its place in the grid, in the JSON of the experiment.
	Axes, Row json.RawMessage
	// Report is the node with the cell's part of the results, in its blob "cell".
	Report Ref
	// Model is the final checkpoint. Report and Model are the targets of the cell.
	Model Ref
	// Final is the model that is measured and exported: Model, or a model derived from it that the report needs.
	Final Ref
	// Initial is the model before training.
	Initial Ref
	// Prepared is the classifier of the prepare block, or zero.
	Prepared Ref
	// Vocabulary is the node with the words of the model's tokens, in its blob "vocabulary".
	Vocabulary Ref
	// Population is the node that assigns training data to users; Shards is the node with their text.
	Population, Shards Ref
	// Devices is the node that names the owner of each user's device, or zero if users are not divided.
	Devices Ref
	// Recorded lists the standing nodes with the recorded updates, in the order of rounds.
	Recorded []storage.Key
	// Chain has the whole steps of the cell's training; it is nil if there are none.
	Chain *Chain
	// Tail is the part of the training after its chain.
	Tail Tail
	// Unit is the unit of the training's length.
	Unit Unit
	// Target names the unit that training counts, such as token; empty in a plan that is read from storage.
	Target string
}

// Ref refers to a standing node or to a step of a chain.
type Ref struct {
	Key   storage.Key
	Chain *Chain // nil for a standing node
	Step  int    // 1..Chain.Steps; 0 for a standing node
}

// Node is a standing node.
type Node struct {
	tasks.Spec
	// Label is for display and not part of the key, such as "random sampling 3 of 9 at round 400".
	Label string
	// Needs are the inputs of the spec, in the same order.
	Needs []Ref
}

// Input returns the key of the node's input of a name, or zero.
func (n *Node) Input(name string) storage.Key {
	for _, in := range n.Inputs {
		if in.Name == name {
			return in.Key
		}
	}
	return storage.Key{}
}

// ParamsOf decodes the parameters of a node.
func ParamsOf[P any](n *Node) (*P, error) {
	params := new(P)
	if err := json.Unmarshal(n.Params, params); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", n.Kind, err)
	}
	return params, nil
}

// Template holds the fields common to the tasks of a chain.
type Template struct {
	Kind   tasks.Kind
	Params json.RawMessage
	// Inputs are standing nodes, the same at every step.
	Inputs []tasks.Input
	Needs  []Ref
	// SecretKey, Class and Terms are as in tasks.Spec.
	SecretKey string
	Class     tasks.Class
	Terms     json.RawMessage
}

// Chain is a training: Origin -> step 1 -> ... -> step Steps. Step r is done
// when its join has committed; the join's blob tasks.ModelBlob is checkpoint r.
type Chain struct {
	// Recipe identifies the training: all that determines its bytes except the number of steps, audits and
	// retention, so that more steps extend the chain.
	Recipe storage.Key
	// Origin is the standing node with the initial model: checkpoint 0.
	Origin Ref
	// Steps is the last step that the run wants.
	Steps int
	// StepRounds is the number of rounds (fedavg: 1) or SGD steps of one chain step.
	StepRounds int
	// Width is the number of parallel parts, 0 if a step is only the join.
	Width int
	Part  Template
	Join  Template
	// Keep lists, ascending, the steps with checkpoints that stay while the run exists: the audited ones and the last.
	Keep []int
	// Every and KeepLast are the rolling retention: of the checkpoints at multiples of Every, the newest
	// KeepLast stay. If Every is 0, none stay.
	Every, KeepLast int

	memo keyMemo
}

// keyMemo caches keys, so that Key walks the hash chain no further than a segment. It holds the keys of all
// boundaries so far and of the two latest requested steps, because each part of a step asks for the step and the one
// before.
type keyMemo struct {
	mu         sync.Mutex
	boundaries []storage.Key // boundaries[i] is the key of step i*tasks.SegmentSteps
	recent     [2]stepKey
}

// stepKey is the key of a step. The zero value holds no key.
type stepKey struct {
	step int
	key  storage.Key
}

// Key returns the key of step r, r >= 0. The keys are a bare hash chain, K[r] = H(recipe, r, K[r-1]), with K[0] =
// H(recipe). Steps beyond Steps have keys too, because a run that wants more steps extends the chain.
func (c *Chain) Key(r int) storage.Key {
	m := &c.memo
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.boundaries) == 0 {
		h := tasks.NewHasher("chain")
		h.Key(c.Recipe)
		m.boundaries = append(m.boundaries, h.Sum())
	}
	m.boundaries = slices.Grow(m.boundaries, max(0, Segment(r)+1-len(m.boundaries)))
	for len(m.boundaries) <= Segment(r) {
		last := len(m.boundaries) - 1
		m.boundaries = append(m.boundaries, c.walk(m.boundaries[last], last*tasks.SegmentSteps, (last+1)*tasks.SegmentSteps))
	}
	return c.within(Segment(r), r)
}

// within returns the key of step r, at or after the boundary of its segment.
func (c *Chain) within(segment, r int) storage.Key {
	m, from := &c.memo, stepKey{segment * tasks.SegmentSteps, c.memo.boundaries[segment]}
	for _, known := range m.recent {
		if from.step < known.step && known.step <= r {
			from = known
		}
	}
	if from.step == r {
		return from.key
	}
	key := c.walk(from.key, from.step, r)
	m.recent = [2]stepKey{{r, key}, m.recent[0]}
	return key
}

// Segment returns the number of segments that are complete at step r, which is also the index of the
// segment of step r+1.
func Segment(r int) int { return r / tasks.SegmentSteps }

// Boundary reports whether step r ends a segment, so that its record lasts.
func Boundary(r int) bool { return r > 0 && r%tasks.SegmentSteps == 0 }

// SegmentEnd returns the boundary that closes the segment of step r, r >= 1.
func SegmentEnd(r int) int {
	return (r + tasks.SegmentSteps - 1) / tasks.SegmentSteps * tasks.SegmentSteps
}

func (c *Chain) walk(k storage.Key, from, to int) storage.Key {
	h := tasks.NewStepHasher(c.Recipe)
	for r := from + 1; r <= to; r++ {
		k = h.Next(r, k)
	}
	return k
}

// PartKey returns the key of part j of step r.
func (c *Chain) PartKey(r, j int) storage.Key {
	h := tasks.NewHasher("part")
	h.Key(c.Key(r))
	h.Uint(uint64(j))
	return h.Sum()
}

// At returns a reference to step r. Step 0 is the origin.
func (c *Chain) At(r int) Ref {
	if r == 0 {
		return c.Origin
	}
	return Ref{Key: c.Key(r), Chain: c, Step: r}
}

// PartSpec returns the task of part j of step r.
func (c *Chain) PartSpec(r, j int) tasks.Spec {
	s := c.Part.spec(c.At(r-1), r)
	s.Key, s.Part = c.PartKey(r, j), j
	return s
}

// JoinSpec returns the task that ends step r.
func (c *Chain) JoinSpec(r int) tasks.Spec {
	s := c.Join.spec(c.At(r-1), r)
	s.Key = c.Key(r)
	for j := range c.Width {
		s.Inputs = append(s.Inputs, tasks.Input{Name: tasks.PartInput(j), Key: c.PartKey(r, j)})
	}
	return s
}

func (t *Template) spec(previous Ref, step int) tasks.Spec {
	inputs := append([]tasks.Input{{Name: tasks.PreviousInput, Key: previous.Key}}, t.Inputs...)
	return tasks.Spec{
		Kind: t.Kind.Name, Version: t.Kind.Version, Params: t.Params, Inputs: inputs, Step: step, SecretKey: t.SecretKey,
		Class: t.Class, Terms: t.Terms,
	}
}

// Recipe derives the identity of a chain from its origin and its templates.
func Recipe(origin storage.Key, width, stepRounds int, templates ...Template) storage.Key {
	h := tasks.NewHasher("recipe")
	h.Key(origin)
	h.Uint(uint64(width))
	h.Uint(uint64(stepRounds))
	for _, t := range templates {
		h.String(t.Kind.Name)
		h.Uint(uint64(t.Kind.Version))
		h.String(string(t.Params))
		for _, in := range t.Inputs {
			h.String(in.Name)
			h.Key(in.Key)
		}
	}
	return h.Sum()
}

// Unit is the unit of the length of a training, as in the experiment file's training.rounds.
type Unit string

// The units.
const (
	Round Unit = "round" // of federated averaging
	Step  Unit = "step"  // of central SGD, not of a chain
)

// Tail is the rest of a central training after its last whole chain step.
type Tail struct {
	After  int // chain steps of a cell if its Model is not a step of its chain
	Rounds int // length in SGD steps; 0 if there is no tail
	Node   Ref // standing node that runs these steps
}

// ChainSteps returns the number of steps that the cell wants of its chain. The chain may be longer for other cells.
func (c *Cell) ChainSteps() int {
	if c.Tail != (Tail{}) {
		return c.Tail.After
	}
	return c.Model.Step
}

// Rounds returns the length of the cell's training in its Unit, including the tail.
func (c *Cell) Rounds() int { return c.roundsAt(c.ChainSteps()) + c.Tail.Rounds }

// RoundsDone returns the finished part of Rounds. step is the step that the chain has reached; trained
// reports whether the model is available.
func (c *Cell) RoundsDone(step int, trained bool) int {
	if trained {
		return c.Rounds()
	}
	return c.roundsAt(min(max(step, 0), c.ChainSteps()))
}

func (c *Cell) roundsAt(step int) int {
	if c.Chain == nil {
		return 0
	}
	return step * c.Chain.StepRounds
}

// Limits of a plan. A plan within them takes seconds to make and, together with the coordinator's state for
// it, about 1 GB of memory.
const (
	// MaxNodes is the maximum sum of the cells' standing nodes; a shared node counts for each cell.
	MaxNodes = 1_000_000
	// MaxSteps is the maximum sum of the chains' steps. It is bounded because the key of a step is a hash
	// of the key before it.
	MaxSteps = 20_000_000
)

// Parts yields a plan in parts, and io.EOF after the last. Each part is the complete plan of some cells; nodes common
// to several parts are in each of them. So a reader of the parts never holds all of a large plan.
type Parts func() (*Plan, error)

// SinglePart yields a plan as a single part.
func SinglePart(p *Plan) Parts {
	return func() (part *Plan, err error) {
		part, p = p, nil
		if part == nil {
			err = io.EOF
		}
		return part, err
	}
}

// Add adds the cells and the chains of another part of the same plan, without its standing nodes.
func (p *Plan) Add(part *Plan) {
	if p.Chains == nil {
		p.Chains = make(map[storage.Key]*Chain, len(part.Chains))
	}
	for recipe, ch := range part.Chains {
		if known := p.Chains[recipe]; known != nil {
			known.Extend(ch)
		} else {
			p.Chains[recipe] = ch
		}
	}
	p.Sources = append(p.Sources, part.Sources...)
	for _, cell := range part.Cells {
		cell.moveTo(p.Chains)
		p.Cells = append(p.Cells, cell)
	}
}

// moveTo makes the cell refer to the chains of another plan, which must contain its training.
func (c *Cell) moveTo(chains map[storage.Key]*Chain) {
	if c.Chain != nil {
		c.Chain = chains[c.Chain.Recipe]
	}
	for _, ref := range []*Ref{&c.Report, &c.Model, &c.Final, &c.Initial, &c.Prepared, &c.Vocabulary, &c.Population, &c.Shards, &c.Devices} {
		if ref.Chain != nil {
			ref.Chain = chains[ref.Chain.Recipe]
		}
	}
}

// Extend merges another cell's chain of the same recipe: it takes the longer of the two, with the
// checkpoints that either keeps.
func (c *Chain) Extend(other *Chain) {
	if other.Steps > c.Steps {
		c.Steps, c.Every, c.KeepLast = other.Steps, other.Every, other.KeepLast
	}
	c.Keep = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Keep, other.Keep))))
}
