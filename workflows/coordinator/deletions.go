package coordinator

import (
	"context"
	"slices"

	"coalmine/storage"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/retention"
)

// deletions deletes retired outputs, in order, for each chain.
type deletions struct {
	*jobs
	store  leaderStore
	ledger *retention.Ledger
	graph  *graph.Graph
	// allowed reports whether the claims of all existing runs are known. Nothing is deleted before.
	allowed func() bool

	lists map[*graph.Chain]*retired
	// advanced lists chains with progress in their deletions.
	advanced []*graph.Chain
}

// retired is a chain's list of outputs to delete.
type retired struct {
	pending []retention.Retirement
	running bool
	// seeking is the number of running searches of storage for leftovers of readers.
	seeking int
	residue residueState
	recent  retention.Recent
}

// residueState is the state of the search for leftovers of former terms.
type residueState int

const (
	residueUnknown residueState = iota
	residueSought
	residueKnown // the leftovers are pending or deleted
)

func (d *deletions) listOf(ch *graph.Chain) *retired {
	if d.lists[ch] == nil {
		d.lists[ch] = &retired{}
	}
	return d.lists[ch]
}

// busy reports whether a chain has pending deletions.
func (d *deletions) busy(ch *graph.Chain) bool {
	l := d.listOf(ch)
	return l.running || len(l.pending) > 0 || l.seeking > 0 || l.residue != residueKnown
}

// retained returns the present state of a chain for retention.
func (d *deletions) retained(ch *graph.Chain) *retention.Chain {
	c := &retention.Chain{Shape: ch.Shape, Frontier: ch.Frontier, Keeps: func(step int) bool {
		return ch.Keeps(step) || d.ledger.On(ch.Recipe).Keep(step, ch.Frontier)
	}}
	if ch.Current != nil {
		c.Running = ch.Current.Number
	}
	return c
}

// afterStep deletes the outputs that are superfluous after a joined step.
func (d *deletions) afterStep(j graph.Joined) {
	ch, step := j.Step.Chain, j.Step.Number
	d.retire(ch, d.retained(ch).AfterStep(step, j.Step.Objects, j.Ended, d.ledger.On(ch.Recipe))...)
	d.listOf(ch).recent.Remember(ch.Shape, step)
}

// afterPass deletes the position of a pass that was given up before its end.
func (d *deletions) afterPass(l graph.Left) {
	d.retire(l.Chain, d.retained(l.Chain).AfterPass(l.Step, l.Begun)...)
	d.forgetIfReleased(l.Chain)
}

// afterReading deletes the checkpoints that a standing node was the last to read, unless a
// former term has deleted them.
func (d *deletions) afterReading(n *graph.Node) {
	for _, r := range n.Reads() {
		chain := d.retained(r.Chain)
		if steps := slices.DeleteFunc(r.Steps, chain.Keeps); len(steps) > 0 {
			d.seekRead(r.Chain, retention.Read{LookUp: d.store.lookUp, Chain: chain, Steps: steps})
		}
	}
}

// seekRead looks for checkpoints that have been read and still exist.
func (d *deletions) seekRead(ch *graph.Chain, read retention.Read) {
	d.listOf(ch).seeking++
	d.seek(ch, "looking for rounds that all readers have read", read.Find, func(l *retired) { l.seeking-- })
}

// seek looks for outputs of a chain in storage by find, then calls sought and retires the outputs found.
func (d *deletions) seek(ch *graph.Chain, action string, find func(context.Context) ([]retention.Retirement, error), sought func(*retired)) {
	d.persist(reading, action, always, func(ctx context.Context) (func(), error) {
		left, err := find(ctx)
		return func() {
			sought(d.listOf(ch))
			d.retire(ch, left...)
			d.advanced = append(d.advanced, ch)
			d.forgetIfReleased(ch)
		}, err
	})
}

// afterSurvey searches for the leftovers of former terms of a chain, and remembers its newest step, because
// attempts of those terms may still be running.
func (d *deletions) afterSurvey(ch *graph.Chain) {
	if ch.Frontier > 0 && ch.At < 0 {
		d.listOf(ch).recent.Remember(ch.Shape, ch.Frontier)
	}
	d.seekResidue(ch)
}

// late deletes again the outputs that an overtaken attempt may have stored again.
func (d *deletions) late(ch *graph.Chain, key storage.Key) {
	d.retire(ch, d.listOf(ch).recent.Late(key)...)
}

// retire lists outputs to delete, and begins to delete.
func (d *deletions) retire(ch *graph.Chain, all ...retention.Retirement) {
	p := &d.listOf(ch).pending
	for _, r := range all {
		*p = append(*p, r)
		if len(*p) > policy.MaxRetired {
			d.log.Warn("the deletion of old rounds lags behind; garbage collection deletes some of them", "chain", ch.Recipe.Short())
			*p = slices.Delete(*p, 0, policy.MaxRetired/2)
		}
	}
	d.goOn(ch)
}

// goOn carries out the next retirements of a chain, unless some are being carried out.
func (d *deletions) goOn(ch *graph.Chain) {
	l := d.listOf(ch)
	if l.running || len(l.pending) == 0 || !d.allowed() {
		return
	}
	n := min(len(l.pending), policy.DeleteAtOnce)
	batch := d.retained(ch).Deletions(l.pending[:n]...)
	for _, x := range batch {
		ch.Forget(x.Step)
	}
	l.pending = slices.Delete(l.pending, 0, n)
	l.running = true
	d.persist(deleting, "deleting old rounds", always, func(ctx context.Context) (func(), error) {
		err := retention.Delete(ctx, d.store.archive, d.store.token, batch)
		return func() {
			l.running = false
			d.advanced = append(d.advanced, ch)
			d.goOn(ch)
			d.forgetIfReleased(ch)
		}, err
	})
}

// goOnAll continues once the claims of all runs are known.
func (d *deletions) goOnAll() {
	for _, ch := range d.graph.Chains() {
		d.seekResidue(ch)
		d.goOn(ch)
	}
}

// seekResidue retires the leftovers of earlier terms of the newest steps, once.
func (d *deletions) seekResidue(ch *graph.Chain) {
	l := d.listOf(ch)
	if l.residue != residueUnknown || !ch.Surveyed || !d.allowed() {
		return
	}
	l.residue = residueSought
	residue := retention.Residue{
		Archive: d.store.archive, Chain: ch.Shape, Claims: d.ledger.On(ch.Recipe), Needed: ch.Needed(),
		Found: plan.StoredChain{Frontier: ch.Frontier, Checkpoints: slices.Clone(ch.Have)},
	}
	d.seek(ch, "looking for old rounds", residue.Find, func(l *retired) { l.residue = residueKnown })
}

// forgetIfReleased drops the completed list of a chain that no live run holds.
func (d *deletions) forgetIfReleased(ch *graph.Chain) {
	if l := d.listOf(ch); len(ch.Runs) == 0 && !l.running && len(l.pending) == 0 && l.seeking == 0 {
		delete(d.lists, ch)
	}
}
