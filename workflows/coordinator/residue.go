package coordinator

import (
	"context"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/availability"
	"coalmine/workflows/plan"
)

// residueState says whether what former terms have left has been looked for.
type residueState int

const (
	residueUnknown residueState = iota
	residueSought
	residueKnown // and pending, or gone
)

// sweepResidue retires what earlier terms have left of the newest steps, once.
func (t *term) sweepResidue(ch *chain) {
	if ch.retention.residue != residueUnknown || !ch.surveyed || !t.claimsKnown() {
		return
	}
	ch.retention.residue = residueSought
	cs, _ := t.claimsOn(ch.recipe)
	shape, frontier, have := ch.shape, ch.frontier, slices.Clone(ch.have)
	t.persist(reading, "looking for old rounds", func() bool { return true }, func(ctx context.Context) (func(), error) {
		x := residue{ctx: ctx, archive: t.archive, chain: shape, claims: cs, frontier: frontier, have: have}
		left, err := x.find()
		return func() {
			ch.retention.residue = residueKnown
			for _, r := range left {
				t.retire(ch, r.what, r.step)
			}
			t.tidied(ch)
		}, err
	})
}

// residue finds what deletions that were cut short have left.
type residue struct {
	ctx      context.Context
	archive  *storage.Archive
	chain    *plan.Chain
	claims   claims
	frontier int
	have     []int // steps with checkpoints; one is perhaps where a replay was
	err      error
}

// find looks back from every step that work may have stopped at, and from
// every claimed step, in each case until nothing is left over.
func (x *residue) find() ([]retirement, error) {
	var left []retirement
	tops := slices.Clone(x.have)
	for _, stopped := range append([]int{x.frontier}, x.have...) {
		left = append(left, x.stepsBelow(stopped)...)
		tops = append(tops, plan.Segment(stopped)*tasks.SegmentSteps)
	}
	closed := plan.Segment(x.frontier) * tasks.SegmentSteps
	for _, c := range x.claims {
		left = append(left, x.rolledOut(c)...)
		tops = append(tops, c.stepsKept(closed)...)
	}
	for _, top := range slices.Compact(slices.Sorted(slices.Values(tops))) {
		if x.claims.keep(top, x.frontier) || plan.Boundary(top) {
			left = append(left, x.recordsBelow(top, closed)...)
		}
	}
	return left, x.err
}

// recordsBelow looks for the records of closed segments that should have gone
// when the step top was joined, and of the segments before.
func (x *residue) recordsBelow(top, closed int) []retirement {
	var left []retirement
	for top > 0 && top <= closed && x.hasRecordBelow(top) {
		left = append(left, retirement{what: retiredRecords, step: top})
		top = plan.Segment(top-1) * tasks.SegmentSteps
	}
	return left
}

// stepsBelow looks for parts and checkpoints from a step downwards. They go in
// the order of steps, so nothing is left below the first step without any.
func (x *residue) stepsBelow(step int) []retirement {
	var left []retirement
	for r := step; r > 0; r-- {
		parts, kept := x.hasParts(r), x.claims.keep(r-1, x.frontier)
		switch {
		case parts || !kept && x.hasBlobs(r-1):
			left = append(left, retirement{what: retiredBlobs, step: r - 1}, retirement{what: retiredParts, step: r})
		case x.chain.Width > 0 || !kept:
			return left
		}
	}
	return left
}

// rolledOut looks for checkpoints below a rolling window.
func (x *residue) rolledOut(c claim) []retirement {
	var left []retirement
	first, last := c.window(x.frontier)
	for step := first - c.every; last > 0 && step > 0; step -= c.every {
		switch {
		case x.hasBlobs(step) || x.hasStrayRecord(step):
			left = append(left, retirement{what: retiredStep, step: step})
		case plan.Boundary(step) && c.every%tasks.SegmentSteps != 0:
			// A boundary's record stays, so it doesn't tell what is below.
		default:
			return left
		}
	}
	return left
}

// hasStrayRecord reports whether a step of a closed segment has a record.
func (x *residue) hasStrayRecord(step int) bool {
	return plan.SegmentEnd(step) <= x.frontier && !plan.Boundary(step) && x.has(x.chain.Key(step))
}

func (x *residue) hasParts(r int) bool {
	for j := range x.chain.Width {
		if x.has(x.chain.PartKey(r, j)) {
			return true
		}
	}
	return false
}

// hasBlobs reports whether a step has blobs that can be evicted.
func (x *residue) hasBlobs(step int) bool {
	if x.err != nil || step < 1 {
		return false
	}
	f, err := availability.LookUp(x.ctx, x.archive, x.chain.Key(step))
	x.err = err
	return f.Available() && slices.ContainsFunc(f.Commit.Blobs, func(b storage.Blob) bool {
		return !b.IsInline() && b.Name != tasks.SegmentBlob
	})
}

// hasRecordBelow reports whether the last step below top, in its segment, that
// nobody claims has a record.
func (x *residue) hasRecordBelow(top int) bool {
	for step := top - 1; step > 0 && !plan.Boundary(step); step-- {
		if !x.claims.keep(step, x.frontier) {
			return x.has(x.chain.Key(step))
		}
	}
	return false
}

func (x *residue) has(key storage.Key) bool {
	if x.err != nil {
		return false
	}
	there, err := x.archive.HasCommit(x.ctx, key)
	x.err = err
	return there
}
