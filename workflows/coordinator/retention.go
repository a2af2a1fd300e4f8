package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// What stays of a chain, so that a training of any length takes bounded work
// and a hundredth of an object a step:
//
//   - When a step has been joined, its parts go, commits and blobs, and so does
//     the checkpoint of the step before.
//   - When the boundary of a segment has been joined, the records of the other
//     steps of the segment go; the boundary holds their metric rows.
//   - A replay leaves the same traces and they go in the same way.
//   - Claimed checkpoints stay whole, and so do the frontier and the step that
//     the chain is at.
//
// Deletions run behind the training, in order, so that what a leader has not
// come to is the newest few steps; its successor finds them (residue.go).
// Whether something is to be kept is decided when its turn comes. Each is
// harmless to repeat, and one too many costs a replay.

// retention is a chain's list of what is to be deleted.
type retention struct {
	pending []retirement
	running bool
	// residue is what is known of what former terms have left.
	residue residueState
	// recent are the keys retired with the last two steps, newest first: an
	// attempt that was overtaken may still commit them again.
	recent [2]map[storage.Key]retirement
}

// busy reports whether something is still to be deleted.
func (p *retention) busy() bool {
	return p.running || len(p.pending) > 0 || p.residue != residueKnown
}

// retirement is something that goes unless it is kept.
type retirement struct {
	what retired
	step int
	// objects are those of the step's parts as far as they are known, which saves
	// reading the records.
	objects map[storage.Key][]storage.Blob
}

type retired int

const (
	retiredParts   retired = iota // the parts of a step, without a trace
	retiredBlobs                  // the checkpoint of a step; its record stays
	retiredRecords                // the records of the segment's steps below a step
	retiredStep                   // checkpoint, and record if its segment is closed
)

// maxPending bounds the list when deleting fails for long. What is dropped from
// it is left to garbage collection.
const maxPending = 512

func (t *term) retire(ch *chain, what retired, step int) {
	t.retireKnown(ch, retirement{what: what, step: step})
}

func (t *term) retireKnown(ch *chain, r retirement) {
	if r.step < 1 || r.what == retiredParts && ch.shape.Width == 0 {
		return
	}
	p := &ch.retention.pending
	*p = append(*p, r)
	if len(*p) > maxPending {
		t.log.Warn("deleting old rounds lags behind; some are left to garbage collection", "chain", ch.recipe.Short())
		*p = slices.Delete(*p, 0, maxPending/2)
	}
	t.sweep(ch)
}

// retireAfter retires what a step that has just been joined makes superfluous.
// ended says that the pass has reached its last checkpoint.
func (t *term) retireAfter(ch *chain, s *step, ended bool) {
	r := s.r
	t.retire(ch, retiredBlobs, r-1)
	t.retireKnown(ch, retirement{retiredParts, r, s.objects})
	if plan.Boundary(r) || ended && ch.closed(r) {
		t.retire(ch, retiredRecords, r)
	}
	if r == ch.frontier {
		cs, _ := t.claimsOn(ch.recipe)
		for _, c := range cs {
			if first, last := c.window(r); last == r {
				t.retire(ch, retiredStep, first-c.every)
			}
		}
	}
	ch.remember(r)
}

// remember notes what has just been retired with step r, for retireLate.
func (ch *chain) remember(r int) {
	recent := make(map[storage.Key]retirement)
	if r > 1 {
		recent[ch.shape.Key(r-1)] = retirement{what: retiredStep, step: r - 1}
	}
	for j := range ch.shape.Width {
		recent[ch.shape.PartKey(r, j)] = retirement{what: retiredParts, step: r}
	}
	ch.retention.recent = [2]map[storage.Key]retirement{recent, ch.retention.recent[0]}
}

// retireLate retires again what an attempt that was overtaken may have stored
// once more.
func (t *term) retireLate(ch *chain, key storage.Key) {
	for _, recent := range ch.retention.recent {
		if again, ok := recent[key]; ok {
			t.retire(ch, again.what, again.step)
		}
	}
}

// leave retires the position of a pass that is given up before its end.
func (t *term) leave(ch *chain) {
	if ch.current != nil {
		t.dropStep(ch)
		t.retire(ch, retiredParts, ch.at+1)
	}
	if ch.at > 0 && ch.at != ch.frontier {
		at := ch.at
		ch.at = -1
		t.retire(ch, retiredStep, at)
		if ch.closed(at) {
			t.retire(ch, retiredRecords, at)
		}
	}
}

// closed reports whether the step's segment has its boundary.
func (ch *chain) closed(step int) bool { return plan.SegmentEnd(step) <= ch.frontier }

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
	cs, _ := t.claimsOn(ch.recipe)
	return cs.keep(step, ch.frontier)
}

// needed reports whether something that reads the checkpoint has yet to run.
func (cp *checkpoint) needed() bool {
	return slices.ContainsFunc(cp.parents, func(n *node) bool { return n.status != available })
}

// sweepBatch is how many retirements one job carries out.
const sweepBatch = 8

// sweep carries out the next retirements, if none are under way.
func (t *term) sweep(ch *chain) {
	p := &ch.retention
	if p.running || len(p.pending) == 0 || !t.claimsKnown() {
		return
	}
	n := min(len(p.pending), sweepBatch)
	var deletions []deletion
	for _, r := range p.pending[:n] {
		deletions = append(deletions, t.deletionsFor(ch, r)...)
	}
	p.pending = slices.Delete(p.pending, 0, n)
	p.running = true
	t.persist(deleting, "deleting old rounds", func() bool { return true }, func(ctx context.Context) (func(), error) {
		err := t.deleteAll(ctx, deletions)
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

// deletion is a node to be deleted, or its blobs.
type deletion struct {
	key     storage.Key
	whole   bool           // the record too
	objects []storage.Blob // nil if the record has to be read
}

// deletionsFor decides what of a retirement is really to go.
func (t *term) deletionsFor(ch *chain, r retirement) []deletion {
	var out []deletion
	switch r.what {
	case retiredParts:
		if ch.current != nil && ch.current.r == r.step {
			return nil // it is being run again
		}
		for j := range ch.shape.Width {
			key := ch.shape.PartKey(r.step, j)
			out = append(out, deletion{key, true, r.objects[key]})
		}
	case retiredBlobs, retiredStep:
		if !t.keeps(ch, r.step) {
			ch.have = slices.DeleteFunc(ch.have, func(s int) bool { return s == r.step })
			whole := r.what == retiredStep && ch.closed(r.step) && !plan.Boundary(r.step)
			out = append(out, deletion{key: ch.shape.Key(r.step), whole: whole})
		}
	case retiredRecords:
		for step := plan.Segment(r.step-1)*tasks.SegmentSteps + 1; step < r.step; step++ {
			if !t.keeps(ch, step) {
				out = append(out, deletion{key: ch.shape.Key(step), whole: true})
			}
		}
	}
	return out
}

// deletionsAtOnce is how many nodes of a batch are deleted at the same time.
const deletionsAtOnce = 8

func (t *term) deleteAll(ctx context.Context, deletions []deletion) error {
	if len(deletions) == 0 {
		return nil
	}
	if err := t.token.Check(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletionsAtOnce)
	for _, d := range deletions {
		group.Go(func() error { return t.delete(ctx, d) })
	}
	return group.Wait()
}

// delete removes blobs before the record that names them, so that a deletion
// cut short leaves a record from which it can be repeated.
func (t *term) delete(ctx context.Context, d deletion) (err error) {
	c := &storage.Commit{Key: d.key, Blobs: d.objects}
	if d.objects == nil {
		c, err = t.archive.Committed(ctx, d.key)
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case errors.Is(err, storage.ErrCorrupt) && d.whole:
		return t.archive.DeleteTrace(ctx, d.key)
	case errors.Is(err, storage.ErrCorrupt):
		return nil
	case err != nil:
		return err
	case d.whole:
		return t.archive.DeleteNode(ctx, c)
	}
	return t.evict(ctx, c)
}

// evict deletes the blobs of a checkpoint; the metric rows of a segment stay with
// the record of its boundary.
func (t *term) evict(ctx context.Context, c *storage.Commit) error {
	var names []string
	for _, b := range c.Blobs {
		if !b.IsInline() && b.Name != tasks.SegmentBlob {
			names = append(names, b.Name)
		}
	}
	if len(names) == 0 {
		return nil // no names would mean all
	}
	return t.archive.DeleteBlobs(ctx, c, names...)
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
		busy = busy || ch.surveyed && ch.retention.busy()
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
