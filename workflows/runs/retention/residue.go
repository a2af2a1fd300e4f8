package retention

import (
	"context"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/availability"
)

// Residue finds the nodes of a chain that interrupted deletions have left. The
// number of requests is bounded.
type Residue struct {
	// LookUp looks up a node in storage, Has only its record.
	LookUp func(context.Context, storage.Key) (availability.Node, error)
	Has    func(context.Context, storage.Key) (bool, error)
	Chain  *plan.Chain
	Claims Claims
	// Needed lists the steps, ascending, that a node has yet to read, claimed or
	// not.
	Needed []int
	// Frontier is the highest committed step.
	Frontier int
	// Checkpoints lists the steps at which a survey found checkpoints; one may
	// be the position of a replay.
	Checkpoints []int
}

// NewResidue returns the search for the residue of a chain in an archive. found is
// the result of a survey of the chain.
func NewResidue(archive *storage.Archive, chain *plan.Chain, claims Claims, found availability.Chain) Residue {
	return Residue{
		LookUp: func(ctx context.Context, key storage.Key) (availability.Node, error) {
			return availability.LookUp(ctx, archive, key)
		},
		Has: archive.HasCommit, Chain: chain, Claims: claims, Frontier: found.Frontier, Checkpoints: found.Checkpoints,
	}
}

// Find searches backwards from every step at which work may have stopped, and
// from every claimed step, until a step without residue.
func (x Residue) Find(ctx context.Context) ([]Retirement, error) {
	s := &residueSearch{Residue: x, ctx: ctx}
	var left []Retirement
	tops := slices.Clone(x.Checkpoints)
	for _, stopped := range append([]int{x.Frontier}, x.Checkpoints...) {
		left = append(left, s.stepsBelow(stopped)...)
		tops = append(tops, plan.Segment(stopped)*tasks.SegmentSteps)
	}
	closed := plan.Segment(x.Frontier) * tasks.SegmentSteps
	for _, c := range x.Claims {
		left = append(left, s.rolledOut(c)...)
		tops = append(tops, c.StepsKept(closed)...)
	}
	for _, top := range slices.Compact(slices.Sorted(slices.Values(tops))) {
		if x.Claims.Keep(top, x.Frontier) || plan.Boundary(top) {
			left = append(left, s.recordsBelow(top, closed)...)
		}
	}
	return possible(x.Chain, left), s.err
}

// residueSearch is one search. It makes no requests after an error of storage.
type residueSearch struct {
	Residue
	ctx context.Context
	err error
}

// keeps reports whether the checkpoint of a step stays.
func (x *residueSearch) keeps(step int) bool {
	_, needed := slices.BinarySearch(x.Needed, step)
	return needed || x.Claims.Keep(step, x.Frontier)
}

// recordsBelow looks for records that should have been deleted when step top
// was joined: those of its segment and of earlier ones.
func (x *residueSearch) recordsBelow(top, closed int) []Retirement {
	var left []Retirement
	for top > 0 && top <= closed && x.hasRecordBelow(top) {
		left = append(left, Retirement{What: Records, Step: top})
		top = plan.Segment(top-1) * tasks.SegmentSteps
	}
	return left
}

// stepsBelow looks for parts and checkpoints from a step downwards. They are
// deleted in the order of steps, so there are none below the first step without
// any.
func (x *residueSearch) stepsBelow(step int) []Retirement {
	var left []Retirement
	for r := step; r > 0; r-- {
		parts, kept := x.hasParts(r), x.keeps(r-1)
		switch {
		case parts || !kept && x.hasBlobs(r-1):
			left = append(left, Retirement{What: Blobs, Step: r - 1}, Retirement{What: Parts, Step: r})
		case x.Chain.Width > 0 || !kept:
			return left
		}
	}
	return left
}

// rolledOut looks for checkpoints below a rolling window.
func (x *residueSearch) rolledOut(c Claim) []Retirement {
	var left []Retirement
	first, last := c.window(x.Frontier)
	for step := first - c.every; last > 0 && step > 0; step -= c.every {
		switch {
		case x.hasBlobs(step) || x.hasStrayRecord(step):
			left = append(left, Retirement{What: WholeStep, Step: step})
		case plan.Boundary(step) && c.every%tasks.SegmentSteps != 0:
			// A boundary's record stays, so it does not prove deletions below.
		default:
			return left
		}
	}
	return left
}

// hasStrayRecord reports whether a step of a closed segment has a record.
func (x *residueSearch) hasStrayRecord(step int) bool {
	return plan.SegmentEnd(step) <= x.Frontier && !plan.Boundary(step) && x.has(x.Chain.Key(step))
}

func (x *residueSearch) hasParts(r int) bool {
	for j := range x.Chain.Width {
		if x.has(x.Chain.PartKey(r, j)) {
			return true
		}
	}
	return false
}

// hasEvictable reports whether a node has blobs that can be evicted.
func hasEvictable(c *storage.Commit) bool { return slices.ContainsFunc(c.Blobs, evictable) }

// hasBlobs reports whether a step has blobs that can be evicted.
func (x *residueSearch) hasBlobs(step int) bool {
	if x.err != nil || step < 1 {
		return false
	}
	n, err := x.LookUp(x.ctx, x.Chain.Key(step))
	x.err = err
	return n.Available() && hasEvictable(n.Commit)
}

// hasRecordBelow reports whether the last unclaimed step below top, in its
// segment, has a record.
func (x *residueSearch) hasRecordBelow(top int) bool {
	for step := top - 1; step > 0 && !plan.Boundary(step); step-- {
		if !x.keeps(step) {
			return x.has(x.Chain.Key(step))
		}
	}
	return false
}

func (x *residueSearch) has(key storage.Key) bool {
	if x.err != nil {
		return false
	}
	there, err := x.Has(x.ctx, key)
	x.err = err
	return there
}
