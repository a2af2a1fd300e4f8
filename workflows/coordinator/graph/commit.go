package graph

import (
	"slices"
	"time"

	"coalmine/storage"
)

// Commit ends a task with an available output. objects are its objects if they are known.
func (g *Graph) Commit(x *Task, objects []storage.Blob, now time.Time) {
	if x.state == Finished {
		return
	}
	x.trouble = nil
	for _, r := range x.Wants {
		r.Progressed = now
	}
	g.end(x)
	switch s := x.Step; {
	case s == nil:
		g.arrived(x.Node)
	case s.Chain.Current != s:
		// The step was dropped meanwhile.
	case x == s.Join:
		g.joined(s)
	default:
		g.partCommitted(s, x, objects)
	}
}

// Read lists the steps of a chain whose checkpoints a standing node reads, ascending.
type Read struct {
	Chain *Chain
	Steps []int
}

// Reads returns the checkpoints that the node reads, by chain.
func (n *Node) Reads() []Read {
	var all []Read
	for _, d := range n.Needs {
		cp := d.Checkpoint
		if cp == nil {
			continue
		}
		i := slices.IndexFunc(all, func(r Read) bool { return r.Chain == cp.Chain })
		if i < 0 {
			i, all = len(all), append(all, Read{Chain: cp.Chain})
		}
		all[i].Steps = append(all[i].Steps, cp.Step)
	}
	for _, r := range all {
		slices.Sort(r.Steps)
	}
	return all
}

// GiveUp ends a task's retries after a failure. A later want starts it afresh.
func (g *Graph) GiveUp(x *Task) {
	x.trouble = nil
	if x.state == Ready || x.state == Pausing {
		g.move(x, giveUp)
	}
	g.dirty = true
}

// Requeue runs an idle task as soon as its inputs are available.
func (g *Graph) Requeue(x *Task) {
	if x.Step != nil {
		g.schedule(x.Step.Chain)
	} else {
		g.readyIfPossible(x.Node)
	}
}

// Resume ends the pause of a task, if it still pauses.
func (g *Graph) Resume(x *Task) {
	if x.state == Pausing {
		g.move(x, resume)
		g.Requeue(x)
	}
}

// Unpark returns a parked task to idle.
func (g *Graph) Unpark(x *Task) {
	if x.state == Parked {
		g.move(x, unpark)
		g.Requeue(x)
	}
}

// Input is an input of a task.
type Input struct {
	// There reports whether the input is presumed available.
	There bool
	// Lose looks the input up again and recomputes it if it is missing.
	Lose func()
}

// Input returns one of a task's inputs, or false if it has no such input.
func (g *Graph) Input(x *Task, key storage.Key) (Input, bool) {
	if x.Step != nil {
		return g.inputOfStep(x.Step, x, key)
	}
	return g.inputAmong(x.Node.Needs, key)
}

func (g *Graph) inputAmong(all []Dependency, key storage.Key) (Input, bool) {
	for _, d := range all {
		if d.Key() == key {
			return Input{d.Available(), func() { g.Recheck(d) }}, true
		}
	}
	return Input{}, false
}

func (g *Graph) inputOfStep(s *Step, reader *Task, key storage.Key) (Input, bool) {
	ch := s.Chain
	if ch.Current != s {
		return Input{}, true // the step was dropped meanwhile
	}
	if i := slices.IndexFunc(s.Parts, func(part *Task) bool { return part.Key == key }); i >= 0 && reader == s.Join {
		return Input{s.Parts[i].state == Finished, func() { g.partLost(s, s.Parts[i]) }}, true
	}
	if in, ok := g.inputAmong(ch.inputs, key); ok {
		return in, true
	}
	switch at := ch.At; {
	case key != ch.Shape.At(at).Key:
		return Input{}, false
	case at == 0:
		return g.inputAmong([]Dependency{ch.origin}, key)
	default:
		return Input{true, func() { g.loseStep(ch, at) }}, true
	}
}

// CellsOf returns the cells of a run that need a task's output. It walks from the output up through all
// unavailable outputs.
func (g *Graph) CellsOf(x *Task, r *Run) []*Cell {
	seen := make(map[Dependency]bool)
	found := make(map[*Cell]bool)
	var up func(Dependency)
	up = func(d Dependency) {
		if seen[d] || d.Available() {
			return
		}
		seen[d] = true
		ds := d.dependents()
		others := ds.others()
		for _, c := range others.cells {
			found[c] = true
		}
		for _, ch := range others.chains {
			ch.missing(up)
		}
		for n := range ds.nodes() {
			up(Dependency{Node: n})
		}
	}
	if x.Step != nil {
		x.Step.Chain.missingAbove(x.Step.Chain.At, up)
	} else {
		up(Dependency{Node: x.Node})
	}
	return slices.DeleteFunc(slices.Clone(r.Cells), func(c *Cell) bool { return !found[c] })
}
