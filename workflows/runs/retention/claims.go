package retention

import (
	"cmp"
	"context"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Claim describes the checkpoints of a chain that a run keeps while it exists, finished or not.
type Claim struct {
	keep            []int // ascending
	every, keepLast int
	steps           int
}

// ClaimOf returns the claim of a run without pins on a chain of its plan.
func ClaimOf(p *plan.Chain) Claim {
	return Claim{keep: p.Keep, every: p.Every, keepLast: p.KeepLast, steps: p.Steps}
}

// pinned returns the claim on all checkpoints of the rolling retention, of any age.
func (c Claim) pinned() Claim {
	if c.every > 0 {
		c.keepLast = c.steps/c.every + 1
	}
	return c
}

// ClaimsOf returns the claims of a run on the chains of its plan, by recipe.
func ClaimsOf(state *runs.State, p *plan.Plan) map[storage.Key]Claim {
	claims := make(map[storage.Key]Claim, len(p.Chains))
	for recipe, ch := range p.Chains {
		claims[recipe] = ClaimOf(ch)
	}
	for _, cell := range p.Cells {
		if cell.Chain != nil && state.Pins(cell.Name) {
			claims[cell.Chain.Recipe] = claims[cell.Chain.Recipe].pinned()
		}
	}
	return claims
}

// window returns the oldest and the newest step of the rolling window at a frontier, or 1 and 0 if there is none.
func (c Claim) window(frontier int) (first, last int) {
	if c.every <= 0 || c.keepLast <= 0 {
		return 1, 0
	}
	last = min(frontier, c.steps) / c.every * c.every
	return max(last-(c.keepLast-1)*c.every, c.every), last
}

// Keeps reports whether the checkpoint of a step stays while the chain is at frontier.
func (c Claim) Keeps(step, frontier int) bool {
	if _, named := slices.BinarySearch(c.keep, step); named {
		return true
	}
	first, last := c.window(frontier)
	return first <= step && step <= last && step%c.every == 0
}

// StepsKept returns all steps up to frontier that the claim keeps.
func (c Claim) StepsKept(frontier int) []int {
	n, named := slices.BinarySearch(c.keep, frontier)
	if named {
		n++
	}
	kept := slices.Clone(c.keep[:n])
	for first, last := c.window(frontier); first <= last; first += c.every {
		kept = append(kept, first)
	}
	return kept
}

// Claims are the claims of several runs on one chain.
type Claims []Claim

// Keep reports whether some claim keeps the checkpoint of a step.
func (cs Claims) Keep(step, frontier int) bool {
	return slices.ContainsFunc(cs, func(c Claim) bool { return c.Keeps(step, frontier) })
}

// StepsKept returns all steps up to frontier that some claim keeps.
func (cs Claims) StepsKept(frontier int) []int {
	var kept []int
	for _, c := range cs {
		kept = append(kept, c.StepsKept(frontier)...)
	}
	return kept
}

// Limit returns the last step of the runs' trainings, or 0 without claims.
func (cs Claims) Limit() int {
	limit := 0
	for _, c := range cs {
		limit = max(limit, c.steps)
	}
	return limit
}

// Ledger holds the claims of runs. The zero value is empty.
type Ledger struct {
	byChain map[storage.Key][]entry // by recipe; few runs claim one chain
}

// entry is the claim of a run. The entries of a chain are ordered by run id.
type entry struct {
	run   string
	claim Claim
}

func search(entries []entry, run string) (i int, found bool) {
	return slices.BinarySearchFunc(entries, run, func(e entry, run string) int { return cmp.Compare(e.run, run) })
}

// Record records the claims of a run, by recipe. They replace its earlier claims on the same chains.
func (l *Ledger) Record(run string, claims map[storage.Key]Claim) {
	if l.byChain == nil {
		l.byChain = make(map[storage.Key][]entry)
	}
	for recipe, c := range claims {
		entries := l.byChain[recipe]
		i, found := search(entries, run)
		if !found {
			entries = slices.Insert(entries, i, entry{run: run})
			l.byChain[recipe] = entries
		}
		entries[i].claim = c
	}
}

// Remove forgets the claims of a run that has been removed.
func (l *Ledger) Remove(run string) {
	for recipe, entries := range l.byChain {
		i, found := search(entries, run)
		switch {
		case !found:
		case len(entries) == 1:
			delete(l.byChain, recipe)
		default:
			l.byChain[recipe] = slices.Delete(entries, i, i+1)
		}
	}
}

// On returns the claims on a chain, ordered by run id.
func (l *Ledger) On(recipe storage.Key) Claims {
	var cs Claims
	for _, e := range l.byChain[recipe] {
		cs = append(cs, e.claim)
	}
	return cs
}

// Chains returns the number of chains with claims.
func (l *Ledger) Chains() int { return len(l.byChain) }

// Residue finds the nodes of a chain that interrupted deletions have left, by a bounded number of requests.
type Residue struct {
	Archive *storage.Archive
	Chain   *plan.Chain
	Claims  Claims
	// Needed lists, ascending, the steps that a node has yet to read, claimed or not.
	Needed []int
	// Found is the result of a survey of the chain: the highest committed step, and the steps with
	// checkpoints, one of which may be the position of a replay.
	Found plan.StoredChain
}

// Find searches backwards from every step at which work may have stopped, and
// from every claimed step, until a step without residue.
func (x Residue) Find(ctx context.Context) ([]Retirement, error) {
	s := &residueSearch{Residue: x, ctx: ctx}
	var left []Retirement
	tops := slices.Clone(x.Found.Checkpoints)
	for _, stopped := range append([]int{x.Found.Frontier}, x.Found.Checkpoints...) {
		left = append(left, s.stepsBelow(stopped)...)
		tops = append(tops, plan.Segment(stopped)*tasks.SegmentSteps)
	}
	closed := plan.Segment(x.Found.Frontier) * tasks.SegmentSteps
	for _, c := range x.Claims {
		left = append(left, s.rolledOut(c)...)
		tops = append(tops, c.StepsKept(closed)...)
	}
	for _, top := range slices.Compact(slices.Sorted(slices.Values(tops))) {
		if x.Claims.Keep(top, x.Found.Frontier) || plan.Boundary(top) {
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
	return needed || x.Claims.Keep(step, x.Found.Frontier)
}

// recordsBelow looks for records that should have been deleted when step top was joined: those of its
// segment, and of earlier segments.
func (x *residueSearch) recordsBelow(top, closed int) []Retirement {
	var left []Retirement
	for top > 0 && top <= closed && x.hasRecordBelow(top) {
		left = append(left, Retirement{What: Records, Step: top})
		top = plan.Segment(top-1) * tasks.SegmentSteps
	}
	return left
}

// stepsBelow looks for parts and checkpoints from a step downwards. They are deleted in the order of steps,
// so the search ends at the first step without any.
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

// rolledOut looks for checkpoints below the rolling window of a claim.
func (x *residueSearch) rolledOut(c Claim) []Retirement {
	var left []Retirement
	first, last := c.window(x.Found.Frontier)
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
	return plan.SegmentEnd(step) <= x.Found.Frontier && !plan.Boundary(step) && x.has(x.Chain.Key(step))
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
	n, err := plan.LookUp(x.ctx, x.Archive, x.Chain.Key(step))
	x.err = err
	return n.Available() && hasEvictable(n.Commit)
}

// hasRecordBelow reports whether the last unclaimed step below top, in its segment, has a record.
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
	there, err := x.Archive.HasCommit(x.ctx, key)
	x.err = err
	return there
}
