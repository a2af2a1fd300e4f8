package coordinator

import (
	"context"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/workflows/availability"
	"coalmine/workflows/retention"
)

// retirements is a chain's list of what is to be deleted; see package retention.
type retirements struct {
	pending []retention.Retirement
	running bool
	// residue is what is known of what former terms have left.
	residue residueState
	recent  retention.Recent
}

// busy reports whether something is still to be deleted.
func (p *retirements) busy() bool {
	return p.running || len(p.pending) > 0 || p.residue != residueKnown
}

// maxPending bounds the list when deleting fails for long. What is dropped from
// it is left to garbage collection.
const maxPending = 512

// retire lists what is to go, and begins to delete.
func (t *term) retire(ch *chain, all ...retention.Retirement) {
	p := &ch.retirements.pending
	for _, r := range all {
		*p = append(*p, r)
		if len(*p) > maxPending {
			t.log.Warn("deleting old rounds lags behind; some are left to garbage collection", "chain", ch.recipe.Short())
			*p = slices.Delete(*p, 0, maxPending/2)
		}
		t.sweep(ch)
	}
}

// retained is the chain as retention sees it now.
func (t *term) retained(ch *chain) *retention.Chain {
	c := &retention.Chain{Shape: ch.shape, Frontier: ch.frontier, Keeps: func(step int) bool { return t.keeps(ch, step) }}
	if ch.current != nil {
		c.Running = ch.current.r
	}
	return c
}

// retireAfter retires what a step that has just been joined makes superfluous.
// ended says that the pass has reached its last checkpoint.
func (t *term) retireAfter(ch *chain, s *step, ended bool) {
	t.retire(ch, t.retained(ch).AfterStep(s.r, s.objects, ended, t.claims.On(ch.recipe))...)
	ch.retirements.recent.Remember(ch.shape, s.r)
}

// retireLate retires again what an attempt that was overtaken may have stored
// once more.
func (t *term) retireLate(ch *chain, key storage.Key) {
	t.retire(ch, ch.retirements.recent.Late(key)...)
}

// leave retires the position of a pass that is given up before its end.
func (t *term) leave(ch *chain) {
	begun, at := ch.current != nil, ch.at
	t.dropStep(ch)
	if at != ch.frontier {
		ch.at = -1
	}
	t.retire(ch, t.retained(ch).AfterPass(at, begun)...)
}

// keeps reports whether a checkpoint must stay.
func (t *term) keeps(ch *chain, step int) bool {
	if step == ch.frontier || step == ch.at {
		return true
	}
	for _, cp := range ch.checkpoints {
		if cp.step == step && cp.needed() {
			return true
		}
	}
	return t.claims.On(ch.recipe).Keep(step, ch.frontier)
}

// needed reports whether something that reads the checkpoint has yet to run.
func (cp *checkpoint) needed() bool {
	return slices.ContainsFunc(cp.nodes, func(n *node) bool { return n.presence != available })
}

// sweepBatch is how many retirements one job carries out.
const sweepBatch = 8

// sweep carries out the next retirements, if none are under way.
func (t *term) sweep(ch *chain) {
	p := &ch.retirements
	if p.running || len(p.pending) == 0 || !t.claimsKnown() {
		return
	}
	n := min(len(p.pending), sweepBatch)
	var deletions []retention.Deletion
	for _, r := range p.pending[:n] {
		deletions = append(deletions, t.retained(ch).Deletions(r)...)
	}
	for _, d := range deletions {
		ch.forget(d.Step)
	}
	p.pending = slices.Delete(p.pending, 0, n)
	p.running = true
	t.persist(deleting, "deleting old rounds", func() bool { return true }, func(ctx context.Context) (func(), error) {
		err := retention.Delete(ctx, t.archive, t.token, deletions)
		return func() {
			p.running = false
			t.tidied(ch)
			t.sweep(ch)
		}, err
	})
}

// sweepAll goes on after the claims of all runs have become known.
func (t *term) sweepAll() {
	for _, ch := range t.chainsInOrder() {
		t.sweepResidue(ch)
		t.sweep(ch)
	}
}

// residueState says whether what former terms have left has been looked for.
type residueState int

const (
	residueUnknown residueState = iota
	residueSought
	residueKnown // and pending, or gone
)

// sweepResidue retires what earlier terms have left of the newest steps, once.
func (t *term) sweepResidue(ch *chain) {
	if ch.retirements.residue != residueUnknown || !ch.surveyed || !t.claimsKnown() {
		return
	}
	ch.retirements.residue = residueSought
	residue := retention.NewResidue(t.archive, ch.shape, t.claims.On(ch.recipe),
		availability.Chain{Frontier: ch.frontier, Checkpoints: slices.Clone(ch.have)})
	t.persist(reading, "looking for old rounds", func() bool { return true }, func(ctx context.Context) (func(), error) {
		left, err := residue.Find(ctx)
		return func() {
			ch.retirements.residue = residueKnown
			t.retire(ch, left...)
			t.tidied(ch)
		}, err
	})
}

// claimsKnown reports whether the claims of all runs that exist are known, so
// that deleting is safe.
func (t *term) claimsKnown() bool {
	return t.discovered && !slices.ContainsFunc(t.order, func(r *run) bool { return !r.claimed })
}

// tidied lets the runs of a chain end that have waited for its deletions.
func (t *term) tidied(ch *chain) {
	for _, r := range t.order {
		if ch.plans[r] != nil {
			t.checkEnd(r)
		}
	}
}

// tidyPatience is how long the end of a run waits for its chains' deletions.
const tidyPatience = 10 * time.Second

// tidying reports whether a run whose cells have ended should wait for what is
// still to be deleted, so that a process that ends with its run leaves nothing.
func (t *term) tidying(r *run) bool {
	busy := false
	for recipe := range r.plan.Chains {
		ch := t.chains[recipe]
		busy = busy || ch.surveyed && ch.retirements.busy()
	}
	if !busy {
		return false
	}
	if r.tidying.IsZero() {
		r.tidying = t.now()
		t.after(tidyPatience, func() { t.checkEnd(r) })
	}
	return t.now().Sub(r.tidying) < tidyPatience
}
