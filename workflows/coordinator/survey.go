package coordinator

import (
	"context"
	"slices"
	"sort"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// survey is what storage holds of a chain.
type survey struct {
	// frontier is the highest step that is committed as far as was asked, 0 if none.
	frontier int
	// have are steps whose checkpoints are available, ascending: those asked
	// for, and the nearest ones below those that aren't.
	have []int
}

// surveyor finds out where a chain stands without listing anything.
//
// The records of a chain's steps are there for every boundary up to the
// frontier, and for every step of the open segment up to the frontier; both are
// rows without holes, so they can be bisected. A replay leaves the same trace
// in the segment it is in. Whatever has been deleted beyond that is only work:
// the steps found are available, even if better ones were overlooked.
type surveyor struct {
	ctx    context.Context
	lookUp func(context.Context, storage.Key) (found, error)
	has    func(context.Context, storage.Key) (bool, error)
	chain  *plan.Chain
	// claims say which checkpoints are kept, and so are likely to be found.
	claims claims

	candidates []int         // steps at which to look first, ascending
	seen       map[int]found // by step
	near       map[int]int   // results of nearest, by step
	err        error
}

// survey looks for the frontier up to the end of the segment of step limit, and
// for the nearest available checkpoint at or below each of the goals.
func (s *surveyor) survey(limit int, goals []int) (survey, error) {
	s.seen, s.near = make(map[int]found), make(map[int]int)
	out := survey{frontier: s.frontier(limit)}
	wanted := []int{out.frontier}
	for _, goal := range goals {
		wanted = append(wanted, min(goal, out.frontier))
	}
	wanted = ascending(wanted)
	s.candidates = wanted
	for _, c := range s.claims {
		s.candidates = append(s.candidates, c.stepsKept(out.frontier)...)
	}
	s.candidates = ascending(s.candidates)
	for _, step := range wanted {
		s.near[step] = s.nearest(step)
		if s.near[step] > 0 {
			out.have = append(out.have, s.near[step])
		}
	}
	out.have = ascending(out.have)
	return out, s.err
}

// ascending returns the distinct steps in order.
func ascending(steps []int) []int {
	return slices.Compact(slices.Sorted(slices.Values(steps)))
}

// frontier bisects the boundaries, then the segment above the last of them. The
// boundary that ends limit's own segment counts: where a longer run has closed
// it, the records before are gone.
func (s *surveyor) frontier(limit int) int {
	closed := s.bisect(plan.Segment(plan.SegmentEnd(limit)), func(segment int) int { return segment * tasks.SegmentSteps })
	boundary := closed * tasks.SegmentSteps
	return s.lastOf(boundary, min(boundary+tasks.SegmentSteps-1, limit))
}

// lastOf returns the last of the steps from+1..to that follow one another
// without a hole, from if there are none.
func (s *surveyor) lastOf(from, to int) int {
	return from + s.bisect(to-from, func(i int) int { return from + i })
}

// bisect returns the highest i of 1..n for which step(i) has a record, 0 if
// none has, given that all below it have one too.
func (s *surveyor) bisect(n int, step func(i int) int) int {
	return sort.Search(max(n, 0), func(i int) bool { return !s.committed(step(i + 1)) })
}

func (s *surveyor) committed(step int) bool {
	if s.err != nil {
		return false
	}
	there, err := s.has(s.ctx, s.chain.Key(step))
	s.err = err
	return there
}

func (s *surveyor) available(step int) bool {
	if s.err != nil {
		return false
	}
	f, ok := s.seen[step]
	if !ok {
		f, s.err = s.lookUp(s.ctx, s.chain.Key(step))
		s.seen[step] = f
	}
	return f.available()
}

// nearest returns the highest step up to t with an available checkpoint as far
// as it can be found, 0 for the origin: t itself, or the last step of a row of
// records (a forward training or a replay that was interrupted), or a candidate,
// or a boundary. A row ends below the next candidate or boundary, which may
// have a record of its own from an earlier pass.
func (s *surveyor) nearest(t int) int {
	if t < 1 || s.available(t) {
		return max(t, 0)
	}
	for top := t; top > 0 && s.err == nil; {
		for _, start := range s.startsBelow(top) {
			// A replay within the open segment finds all records there already:
			// then only the checkpoints tell how far it had come.
			for step := s.lastOf(start, top-1); step > start; step-- {
				if s.available(step) {
					return step
				}
			}
			if near, known := s.near[start]; known {
				return near
			}
			if start > 0 && s.available(start) {
				return start
			}
			top = start
		}
	}
	return 0
}

// startsBelow are the steps of top's segment from which a row of records may
// begin: candidates below top, and the boundary, descending.
func (s *surveyor) startsBelow(top int) []int {
	boundary := plan.Segment(top-1) * tasks.SegmentSteps
	var starts []int
	for _, c := range slices.Backward(s.candidates) {
		if boundary < c && c < top {
			starts = append(starts, c)
		}
	}
	return append(starts, boundary)
}
