package plan

import (
	"maps"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
)

// StandingNeeds returns the nodes that the chain's tasks read at every step,
// and the origin, which the first step reads.
func (c *Chain) StandingNeeds() []Ref { return append(c.StepNeeds(), c.Origin) }

// StepNeeds returns the nodes that the chain's tasks read at every step.
func (c *Chain) StepNeeds() []Ref {
	needs := slices.Clone(c.Join.Needs)
	if c.Width > 0 {
		needs = append(needs, c.Part.Needs...)
	}
	return needs
}

// SortedKeys returns the keys of a map in order, for walks that must not depend on the order of maps.
func SortedKeys[V any](m map[storage.Key]V) []storage.Key {
	keys := slices.AppendSeq(make([]storage.Key, 0, len(m)), maps.Keys(m))
	slices.SortFunc(keys, storage.Key.Compare)
	return keys
}

// Needed returns the given nodes, and the standing nodes and trainings from which they are made, each once
// and after its inputs.
func (p *Plan) Needed(refs ...Ref) ([]*Node, []*Chain) {
	w := walk{plan: p, seen: map[storage.Key]bool{}}
	for _, r := range refs {
		w.visit(r)
	}
	return w.nodes, w.chains
}

// walk collects the results of Needed. Chains are identified by their recipe.
type walk struct {
	plan   *Plan
	seen   map[storage.Key]bool
	nodes  []*Node
	chains []*Chain
}

func (w *walk) visit(r Ref) {
	self := r.Key
	if r.Chain != nil {
		self = r.Chain.Recipe
	}
	if w.seen[self] {
		return
	}
	w.seen[self] = true
	if r.Chain != nil {
		w.visitAll(r.Chain.StandingNeeds())
		w.chains = append(w.chains, r.Chain)
		return
	}
	n := w.plan.Nodes[r.Key]
	w.visitAll(n.Needs)
	w.nodes = append(w.nodes, n)
}

func (w *walk) visitAll(refs []Ref) {
	for _, r := range refs {
		w.visit(r)
	}
}

// Kept returns the nodes with outputs that stay with a finished run: standing nodes and the kept steps of trainings.
func (p *Plan) Kept() []storage.Key {
	keys := SortedKeys(p.Nodes)
	for _, recipe := range SortedKeys(p.Chains) {
		for _, step := range p.Chains[recipe].Keep {
			keys = append(keys, p.Chains[recipe].Key(step))
		}
	}
	return keys
}

// LastingSteps returns the steps with records that may outlive the training, ascending: the kept ones, the ends of
// segments, the checkpoints of the rolling retention, and the steps of the last segment if it is open.
func (c *Chain) LastingSteps() []int {
	steps := slices.Clone(c.Keep)
	for step := tasks.SegmentSteps; step <= c.Steps; step += tasks.SegmentSteps {
		steps = append(steps, step)
	}
	for step := c.Every; c.Every > 0 && step <= c.Steps; step += c.Every {
		steps = append(steps, step)
	}
	for step := Segment(c.Steps)*tasks.SegmentSteps + 1; step <= c.Steps; step++ {
		steps = append(steps, step)
	}
	return slices.Compact(slices.Sorted(slices.Values(steps)))
}
