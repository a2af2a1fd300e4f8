package graph

import (
	"slices"
)

// recount recounts the wants.
func (g *Graph) recount() {
	g.dirty, g.withdrawn, g.requests.Changed, g.requests.Recounted = false, true, true, true
	g.clearWants()
	for _, r := range g.runs {
		if r.Active() {
			g.wantTargets(r)
			g.CheckEnd(r)
		}
	}
	for _, ch := range g.Chains() {
		g.schedule(ch)
	}
}

func (g *Graph) clearWants() {
	for n := range g.nodes.all {
		n.Wants = nil
	}
	for _, ch := range g.chains {
		for _, cp := range ch.Checkpoints {
			cp.wants = nil
		}
		if ch.Current != nil {
			for _, x := range ch.Current.Tasks() {
				x.Wants = nil // advance sets them again, and offers the task
			}
		}
	}
}

// wantTargets makes a run want the targets of its open cells, in the order of the grid.
func (g *Graph) wantTargets(r *Run) {
	for i, c := range r.Cells {
		if c.Failed {
			continue
		}
		for _, d := range c.Targets {
			g.want(d, r, int32(i))
		}
	}
}

// want makes a run want an output and its missing inputs. rank orders the work of a run.
func (g *Graph) want(d Dependency, r *Run, rank int32) {
	switch {
	case d.Available():
	case d.Checkpoint != nil:
		g.wantCheckpoint(d.Checkpoint, r, rank)
	default:
		g.wantNode(d.Node, r, rank)
	}
}

func (g *Graph) wantCheckpoint(cp *Checkpoint, r *Run, rank int32) {
	if addWant(&cp.wants, r) {
		cp.rank = min(cp.rank, rank)
		g.schedule(cp.Chain)
	}
}

func (g *Graph) wantNode(n *Node, r *Run, rank int32) {
	if !addWant(&n.Wants, r) {
		return
	}
	n.Rank = min(n.Rank, rank)
	switch n.Presence {
	case Unknown:
		n.Presence = Checking
		g.requests.LookUp = append(g.requests.LookUp, n)
	case Absent:
		g.wantNeeds(n, r, rank)
		if n.state == Ready {
			g.offer(&n.Task)
		}
		g.readyIfPossible(n)
	case Checking, Available: // its state is known soon, or it needs nothing
	}
}

func (g *Graph) wantNeeds(n *Node, r *Run, rank int32) {
	for _, d := range n.Needs {
		g.want(d, r, rank)
	}
}

func addWant(wants *[]*Run, r *Run) bool {
	switch {
	case len(*wants) == 0:
		*wants = r.alone
	case slices.Contains(*wants, r):
		return false
	default:
		*wants = append(*wants, r)
	}
	return true
}

// Found records whether storage holds the outputs of a node that was looked up.
func (g *Graph) Found(n *Node, available bool) {
	if n.Presence != Checking {
		return // it was run or released meanwhile
	}
	if available {
		g.arrived(n)
		return
	}
	n.Presence = Absent
	for _, r := range slices.Clone(n.Wants) {
		g.wantNeeds(n, r, n.Rank)
	}
	g.readyIfPossible(n)
}
