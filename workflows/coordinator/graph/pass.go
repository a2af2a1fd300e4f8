package graph

import (
	"math"
	"slices"

	"coalmine/workflows/plan"
)

// A pass computes missing checkpoints of a chain from the nearest available checkpoint
// below them. It begins at its base, a step; 0 is the origin.

// Wanted reports whether a missing checkpoint of the chain is wanted.
func (ch *Chain) Wanted() bool {
	return slices.ContainsFunc(ch.Checkpoints, func(cp *Checkpoint) bool { return !cp.Available && len(cp.wants) > 0 })
}

// base returns the nearest available step below a missing one.
func (ch *Chain) base(step int) int {
	i, _ := slices.BinarySearch(ch.Have, step)
	if i == 0 {
		return 0
	}
	return ch.Have[i-1]
}

func (ch *Chain) gain(step int) {
	if i, ok := slices.BinarySearch(ch.Have, step); !ok {
		ch.Have = slices.Insert(ch.Have, i, step)
	}
}

// passWants returns the runs that want a checkpoint of a pass from step.
func (ch *Chain) passWants(step int) []*Run {
	var wants []*Run
	for _, cp := range ch.Checkpoints {
		if cp.Available || ch.base(cp.Step) != step {
			continue
		}
		for _, r := range cp.wants {
			addWant(&wants, r)
		}
	}
	return wants
}

// passRank returns the least rank of the checkpoints wanted from a pass.
func (ch *Chain) passRank(step int) int32 {
	rank := int32(math.MaxInt32)
	for _, cp := range ch.Checkpoints {
		if !cp.Available && len(cp.wants) > 0 && ch.base(cp.Step) == step {
			rank = min(rank, cp.rank)
		}
	}
	return rank
}

func (g *Graph) survey(ch *Chain) {
	if !ch.surveying {
		ch.surveying = true
		g.requests.Survey = append(g.requests.Survey, ch)
	}
}

// Goals returns the steps with checkpoints that a survey should look for.
func (ch *Chain) Goals() []int {
	var goals []int
	for _, cp := range ch.Checkpoints {
		goals = append(goals, cp.Step)
	}
	return goals
}

// Surveyed sets the state of a chain in storage, as found by a survey of goals. It reports whether a live
// run still holds the chain.
func (g *Graph) Surveyed(ch *Chain, goals []int, found plan.StoredChain) bool {
	ch.surveying = false
	if g.chains[ch.Recipe] != ch {
		return false
	}
	ch.Surveyed, ch.Frontier, ch.Have = true, max(found.Frontier, ch.At), found.Checkpoints
	if ch.At > 0 {
		ch.gain(ch.At) // the current pass is newer than the survey
	}
	for _, cp := range ch.Checkpoints {
		if slices.Contains(goals, cp.Step) {
			g.setAvailable(cp, slices.Contains(ch.Have, cp.Step))
		} else {
			ch.Surveyed = false // wanted since the survey began
		}
	}
	g.schedule(ch)
	return true
}

// choose picks the pass to work on and sets At to its beginning. A replay is
// carried to its end while it is wanted, because leaving it loses its progress.
func (g *Graph) choose(ch *Chain) bool {
	if ch.At > 0 && ch.At != ch.Frontier && len(ch.passWants(ch.At)) > 0 {
		return true
	}
	best, bestPriority := -1, math.MinInt
	for _, cp := range ch.Checkpoints {
		if cp.Available {
			continue
		}
		for _, r := range cp.wants {
			if r.State.Priority > bestPriority {
				best, bestPriority = ch.base(cp.Step), r.State.Priority
			}
		}
	}
	if best < 0 {
		return false
	}
	if best != ch.At {
		g.leave(ch)
		ch.At = best
	}
	return true
}

// leave ends a pass, before its end or because no further checkpoint is wanted.
func (g *Graph) leave(ch *Chain) {
	g.requests.Left = append(g.requests.Left, Left{Chain: ch, Step: ch.At, Begun: ch.Current != nil})
	g.dropStep(ch)
	if ch.At != ch.Frontier {
		ch.At = -1
	}
}

// Keeps reports whether the checkpoint of a step is needed: the chain is at the
// step or continues from it, or a reader of the checkpoint has yet to run.
func (ch *Chain) Keeps(step int) bool {
	if step == ch.Frontier || step == ch.At {
		return true
	}
	cp := ch.checkpoint(step)
	return cp != nil && cp.needed()
}

// Needed returns the steps with checkpoints that are yet to be read, ascending.
func (ch *Chain) Needed() []int {
	var steps []int
	for _, cp := range ch.Checkpoints {
		if cp.needed() {
			steps = append(steps, cp.Step)
		}
	}
	return steps
}

// needed reports whether a reader of the checkpoint has yet to run.
func (cp *Checkpoint) needed() bool {
	for n := range cp.nodes() {
		if n.pending() {
			return true
		}
	}
	return false
}

// pending reports whether the node may still have to run, perhaps after a pause: it is not known to be
// available, and a cell or a reader that may have to run needs it.
func (n *Node) pending() bool {
	if n.Presence == Available {
		return false
	}
	if others := n.others(); len(others.cells)+len(others.chains) > 0 {
		return true
	}
	for reader := range n.nodes() {
		if reader.pending() {
			return true
		}
	}
	return false
}

// missing visits the checkpoints that are not available.
func (ch *Chain) missing(visit func(Dependency)) {
	for _, cp := range ch.Checkpoints {
		if !cp.Available {
			visit(Dependency{Checkpoint: cp})
		}
	}
}

// missingAbove visits the missing checkpoints above a step that a pass from there would reach.
func (ch *Chain) missingAbove(step int, visit func(Dependency)) {
	ch.missing(func(d Dependency) {
		if s := d.Checkpoint.Step; s > step && ch.base(s) <= step {
			visit(d)
		}
	})
}

// Has reports whether the needed checkpoint of a step is available.
func (ch *Chain) Has(step int) bool {
	cp := ch.checkpoint(step)
	return cp != nil && cp.Available
}
