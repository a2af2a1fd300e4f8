package graph

import "slices"

// schedule lets Settle check whether a chain can advance.
func (g *Graph) schedule(ch *Chain) {
	if !ch.scheduled {
		ch.scheduled = true
		g.scheduled = append(g.scheduled, ch)
	}
}

// CheckEnd asks the owner of the graph to check whether all cells of a run have ended.
func (g *Graph) CheckEnd(r *Run) {
	if !r.ending {
		r.ending = true
		g.requests.Ending = append(g.requests.Ending, r)
	}
}

// offer offers a ready task to the runs that want it.
func (g *Graph) offer(x *Task) {
	if !x.offered {
		x.offered = true
		g.requests.Offer = append(g.requests.Offer, x)
	}
}

// readyIfIdle makes an idle task ready. It must be wanted and have its inputs.
func (g *Graph) readyIfIdle(x *Task) {
	if x.state != Idle {
		return
	}
	g.move(x, becomeReady)
	g.readySeq++
	x.Seq = g.readySeq
	g.offer(x)
}

// readyIfPossible makes a node ready if it is wanted, absent, and has its inputs.
func (g *Graph) readyIfPossible(n *Node) {
	if n.Presence == Absent && len(n.Wants) > 0 && allAvailable(n.Needs) {
		g.readyIfIdle(&n.Task)
	}
}

// notify makes all dependents check their inputs again.
func (g *Graph) notify(ds *dependents) {
	for n := range ds.nodes() {
		g.readyIfPossible(n)
	}
	others := ds.others()
	for _, ch := range others.chains {
		g.schedule(ch)
	}
	for _, c := range others.cells {
		g.CheckEnd(c.Run)
	}
}

// arrived records that the output of a standing node is available.
func (g *Graph) arrived(n *Node) {
	n.Presence = Available
	g.end(&n.Task)
	n.Wants = nil
	if !allAvailable(n.Needs) {
		g.dirty = true // its needs are no longer wanted on its behalf
	}
	g.finishReading(n)
	g.notify(&n.dependents)
	g.requests.Changed = true
}

// finishReading requests a check of the checkpoints read by a node, and by its needs that are no longer wanted.
func (g *Graph) finishReading(n *Node) {
	if n.readsCheckpoints() {
		g.requests.Read = append(g.requests.Read, n)
	}
	for _, d := range n.Needs {
		if need := d.Node; need != nil && need.Presence == Unknown && need.readsCheckpoints() && !need.pending() {
			g.requests.Read = append(g.requests.Read, need)
		}
	}
}

func (n *Node) readsCheckpoints() bool {
	return slices.ContainsFunc(n.Needs, func(d Dependency) bool { return d.Checkpoint != nil })
}

// setAvailable records whether a checkpoint is available.
func (g *Graph) setAvailable(cp *Checkpoint, available bool) {
	if cp.Available == available {
		return
	}
	cp.Available = available
	g.requests.Changed = true
	if !available {
		g.dirty = true
		return
	}
	cp.wants = nil
	g.notify(&cp.dependents)
}

// Recheck looks up an available output again that turned out to be missing. If it is not in storage, it is
// recomputed.
func (g *Graph) Recheck(d Dependency) {
	g.dirty = true
	if d.Node != nil {
		g.loseNode(d.Node)
	} else {
		g.loseStep(d.Checkpoint.Chain, d.Checkpoint.Step)
	}
}

func (g *Graph) loseNode(n *Node) {
	if n.Presence == Available {
		n.Presence = Unknown
		g.move(&n.Task, lose)
	}
}

// loseStep forgets a missing checkpoint and surveys the chain again.
func (g *Graph) loseStep(ch *Chain, step int) {
	ch.Forget(step)
	if cp := ch.checkpoint(step); cp != nil {
		g.setAvailable(cp, false)
	}
	if ch.At == step {
		g.dropStep(ch)
		ch.At = -1
	}
	ch.Surveyed = false
	g.schedule(ch)
}

// Forget records that the checkpoint of a step is gone.
func (ch *Chain) Forget(step int) {
	ch.Have = slices.DeleteFunc(ch.Have, func(s int) bool { return s == step })
}

// dropStep gives up the current step; the commits of its parts stay.
func (g *Graph) dropStep(ch *Chain) {
	if ch.Current == nil {
		return
	}
	for _, x := range ch.Current.Tasks() {
		g.end(x)
	}
	g.requests.Dropped = append(g.requests.Dropped, ch.Current)
	ch.Current = nil
}
