package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"unique"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// AddRun adds a run, which has no plan yet.
func (g *Graph) AddRun(id string) *Run {
	r := &Run{ID: id}
	r.alone = []*Run{r}
	i, _ := slices.BinarySearchFunc(g.runs, id, func(r *Run, id string) int { return cmp.Compare(r.ID, id) })
	g.runs = slices.Insert(g.runs, i, r)
	return r
}

// RemoveRun removes a run and releases its plan.
func (g *Graph) RemoveRun(r *Run) {
	g.Release(r)
	g.runs = slices.DeleteFunc(g.runs, func(x *Run) bool { return x == r })
}

// SetState replaces the state of a run.
func (g *Graph) SetState(r *Run, state runs.State) {
	before := r.State
	r.State = state
	if state.Phase != before.Phase || state.Priority != before.Priority {
		g.dirty, g.requests.Changed = true, true
	}
	g.markFailedCells(r)
}

func (g *Graph) markFailedCells(r *Run) {
	if !r.Live() {
		return
	}
	failed := r.State.FailedCells()
	for _, c := range r.Cells {
		if c.Failed != failed[c.Plan.Name] {
			c.Failed = failed[c.Plan.Name]
			g.dirty = true
		}
	}
}

// AddPart adds a part of a run's plan, which then belongs to the graph. Its nodes are
// merged into the graph's and are not wanted before Begin.
func (g *Graph) AddPart(r *Run, part *plan.Plan) {
	if r.Plan == nil {
		r.Plan, r.held = new(plan.Plan), make(map[*Node]struct{})
	}
	r.Plan.Add(part)
	added := g.addNodes(r, part)
	recipes := plan.SortedKeys(part.Chains)
	for _, recipe := range recipes {
		g.adoptChain(r, r.Plan.Chains[recipe])
	}
	for _, n := range added {
		g.linkNode(n, part.Nodes[n.Key].Needs)
	}
	for _, recipe := range recipes {
		g.linkChain(g.chains[recipe])
	}
}

// addNodes adds the standing nodes of a part, and returns the new ones.
func (g *Graph) addNodes(r *Run, part *plan.Plan) (added []*Node) {
	for _, key := range plan.SortedKeys(part.Nodes) {
		n := g.nodes.get(key)
		if n == nil {
			n = newNode(part.Nodes[key])
			g.nodes.add(n)
			added = append(added, n)
		} else if spec := &part.Nodes[key].Spec; !n.asks(spec.Class, spec.Terms) && g.isNewest(r, func(other *Run) bool { return slices.Contains(other.Nodes, n) }) {
			g.restate(&n.Task, newTraits(n.Label(), spec))
		}
		if _, held := r.held[n]; !held {
			r.held[n] = struct{}{}
			n.plans++
			r.Nodes = append(r.Nodes, n)
		}
	}
	return added
}

// isNewest reports whether r was submitted last among the runs for which holds is true.
func (g *Graph) isNewest(r *Run, holds func(*Run) bool) bool {
	return !slices.ContainsFunc(g.runs, func(other *Run) bool {
		return other.State.Submitted.After(r.State.Submitted) && holds(other)
	})
}

// asks reports whether a task has this class and these terms, which are not part of its key.
func (x *Task) asks(class tasks.Class, terms json.RawMessage) bool {
	f := x.traits.Value()
	return f.class == class && f.terms == string(terms)
}

// restate gives a task the class and the terms of a newer plan.
func (g *Graph) restate(x *Task, traits unique.Handle[traits]) {
	x.traits = traits
	g.Unpark(x)
}

// Begin makes a run live, with its cells. All parts of its plan must have been added.
func (g *Graph) Begin(r *Run) {
	r.live, r.held = true, nil
	for recipe := range r.Plan.Chains {
		// A longer plan may have a further frontier, and wants checkpoints that the last survey did not look for.
		g.chains[recipe].Surveyed = false
	}
	g.addCells(r)
	for key := range r.State.Troubles {
		if n := g.nodes.get(key); n != nil {
			n.inheritTroubles([]*Run{r})
		}
	}
	g.markFailedCells(r)
	g.dirty = true
}

func newNode(p *plan.Node) *Node {
	n := &Node{params: p.Params}
	n.Task = Task{Key: p.Key, Node: n, traits: newTraits(p.Label, &p.Spec), Rank: math.MaxInt32}
	return n
}

func (g *Graph) adoptChain(r *Run, p *plan.Chain) {
	ch := g.chains[p.Recipe]
	if ch == nil {
		ch = &Chain{Recipe: p.Recipe, Shape: p, At: -1, Durations: make(map[string]*Samples)}
		g.chains[p.Recipe] = ch
	}
	if !slices.Contains(ch.Runs, r) {
		ch.Runs = append(ch.Runs, r)
	}
	if !sameTerms(ch.Shape, p) && g.isNewest(r, func(other *Run) bool { return slices.Contains(ch.Runs, other) }) {
		ch.Shape = p
		g.restateStep(ch)
	}
}

func sameTerms(a, b *plan.Chain) bool {
	same := func(a, b *plan.Template) bool { return a.Class == b.Class && bytes.Equal(a.Terms, b.Terms) }
	return same(&a.Part, &b.Part) && same(&a.Join, &b.Join)
}

// restateStep restates the tasks of a chain's current step.
func (g *Graph) restateStep(ch *Chain) {
	if ch.Current == nil {
		return
	}
	for _, x := range ch.Current.Parts {
		g.restate(x, traitsOf(x.Label(), &ch.Shape.Part))
	}
	g.restate(ch.Current.Join, traitsOf(ch.Current.Join.Label(), &ch.Shape.Join))
}

// linkNode connects a new node with its needs.
func (g *Graph) linkNode(n *Node, needs []plan.Ref) {
	n.Needs = make([]Dependency, len(needs))
	for i, ref := range needs {
		n.Needs[i] = g.resolve(ref)
		n.Needs[i].dependents().addNode(n)
	}
}

// linkChain connects a new chain with the inputs of its tasks, once.
func (g *Graph) linkChain(ch *Chain) {
	if ch.linked {
		return
	}
	ch.linked = true
	for _, ref := range ch.Shape.StepNeeds() {
		ch.inputs = append(ch.inputs, g.dependOn(ch, ref))
	}
	ch.origin = g.dependOn(ch, ch.Shape.Origin)
}

// dependOn makes the chain a dependent of one of its inputs.
func (g *Graph) dependOn(ch *Chain, ref plan.Ref) Dependency {
	d := g.resolve(ref)
	d.dependents().addChain(ch)
	return d
}

func (g *Graph) resolve(ref plan.Ref) Dependency {
	if ref.Chain == nil {
		return Dependency{Node: g.nodes.get(ref.Key)}
	}
	return Dependency{Checkpoint: g.chains[ref.Chain.Recipe].checkpointAt(ref.Step)}
}

// checkpointAt adds the needed checkpoint of a step, unless it exists.
func (ch *Chain) checkpointAt(step int) *Checkpoint {
	i, ok := ch.search(step)
	if !ok {
		ch.Checkpoints = slices.Insert(ch.Checkpoints, i, &Checkpoint{Chain: ch, Step: step, rank: math.MaxInt32})
	}
	return ch.Checkpoints[i]
}

// addCells adds the cells of a run's plan.
func (g *Graph) addCells(r *Run) {
	r.Cells = make([]*Cell, len(r.Plan.Cells))
	for i := range r.Plan.Cells {
		r.Cells[i] = g.newCell(r, &r.Plan.Cells[i])
	}
}

func (g *Graph) newCell(r *Run, p *plan.Cell) *Cell {
	c := &Cell{Run: r, Plan: p, Targets: []Dependency{g.resolve(p.Report), g.resolve(p.Model)}}
	if r.State.Restoring {
		c.Targets = madeFrom(c.Targets)
	}
	for _, d := range c.Targets {
		d.dependents().addCell(c)
	}
	return c
}

// madeFrom returns the outputs and, recursively, those of their inputs that a run keeps: standing nodes,
// and the checkpoints that they read.
func madeFrom(outputs []Dependency) []Dependency {
	seen := make(map[any]bool)
	var all []Dependency
	var visit func([]Dependency)
	visit = func(outputs []Dependency) {
		for _, d := range outputs {
			if seen[d] {
				continue
			}
			seen[d] = true
			all = append(all, d)
			if d.Checkpoint == nil {
				visit(d.Node.Needs)
				continue
			}
			if ch := d.Checkpoint.Chain; !seen[ch] {
				seen[ch] = true
				visit(append(slices.Clone(ch.inputs), ch.origin))
			}
		}
	}
	visit(outputs)
	return all
}

// Release releases a run's plan, or the parts added so far. It removes from memory the nodes that no other
// live run holds; their commits stay in storage.
func (g *Graph) Release(r *Run) {
	if r.Plan == nil {
		return
	}
	p, nodes := r.Plan, r.Nodes
	r.Plan, r.Nodes, r.Cells, r.live, r.held = nil, nil, nil, false, nil
	gone := make(map[*Node]bool)
	for _, n := range nodes {
		if n.plans--; n.plans == 0 {
			gone[n] = true
			g.nodes.remove(n)
		}
		n.forgetRun(r)
	}
	for _, recipe := range plan.SortedKeys(p.Chains) {
		g.releaseChain(g.chains[recipe], r, gone)
	}
	for n := range gone {
		for _, d := range n.Needs {
			d.dependents().forgetNodes(gone)
		}
		n.Wants, n.Presence = nil, Unknown
	}
	g.dirty = true
}

func (g *Graph) releaseChain(ch *Chain, r *Run, gone map[*Node]bool) {
	ch.Runs = slices.DeleteFunc(ch.Runs, func(x *Run) bool { return x == r })
	for _, cp := range ch.Checkpoints {
		cp.forgetNodes(gone)
		cp.forgetRun(r)
	}
	if len(ch.Runs) > 0 {
		return
	}
	g.leave(ch)
	delete(g.chains, ch.Recipe)
	for _, d := range append(ch.inputs, ch.origin) {
		d.dependents().forgetChain(ch)
	}
}

// Outcomes returns the phases of a live run's cells, Done or Failed, by name, or nil while some cell has not ended.
func (r *Run) Outcomes() map[string]runs.Phase {
	if slices.ContainsFunc(r.Cells, func(c *Cell) bool { return !c.Failed && !c.Done() }) {
		return nil
	}
	outcomes := make(map[string]runs.Phase, len(r.Cells))
	for _, c := range r.Cells {
		outcomes[c.Plan.Name] = runs.Done
		if c.Failed {
			outcomes[c.Plan.Name] = runs.Failed
		}
	}
	return outcomes
}

// Targets returns the targets of the open cells of a live run, by key.
func (r *Run) Targets() map[storage.Key]Dependency {
	targets := make(map[storage.Key]Dependency)
	for _, c := range r.Cells {
		for _, d := range c.Targets {
			if !c.Failed {
				targets[d.Key()] = d
			}
		}
	}
	return targets
}
