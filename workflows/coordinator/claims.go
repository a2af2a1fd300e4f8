package coordinator

import (
	"maps"
	"slices"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// claim says which checkpoints of a chain a run keeps for as long as the run
// exists, finished or not.
type claim struct {
	keep            []int // ascending
	every, keepLast int
	steps           int
}

func claimOf(p *plan.Chain) claim {
	return claim{keep: p.Keep, every: p.Every, keepLast: p.KeepLast, steps: p.Steps}
}

// pinned is the claim of a run that keeps every checkpoint of its rolling
// window, however old.
func (c claim) pinned() claim {
	if c.every > 0 {
		c.keepLast = c.steps/c.every + 1
	}
	return c
}

// claimsOf are the claims of a run on the chains of its plan, by recipe.
func claimsOf(state *runs.State, p *plan.Plan) map[storage.Key]claim {
	claims := make(map[storage.Key]claim, len(p.Chains))
	for recipe, ch := range p.Chains {
		claims[recipe] = claimOf(ch)
	}
	for _, cell := range p.Cells {
		if cell.Chain != nil && state.Pins(cell.Name) {
			claims[cell.Chain.Recipe] = claims[cell.Chain.Recipe].pinned()
		}
	}
	return claims
}

// window returns the oldest and the newest step of the rolling window at a
// frontier, 1 and 0 if there is none.
func (c claim) window(frontier int) (first, last int) {
	if c.every <= 0 || c.keepLast <= 0 {
		return 1, 0
	}
	last = min(frontier, c.steps) / c.every * c.every
	return max(last-(c.keepLast-1)*c.every, c.every), last
}

// keeps reports whether the checkpoint of a step stays while the chain has
// reached frontier.
func (c claim) keeps(step, frontier int) bool {
	if _, named := slices.BinarySearch(c.keep, step); named {
		return true
	}
	first, last := c.window(frontier)
	return first <= step && step <= last && step%c.every == 0
}

// stepsKept are all steps up to frontier that the claim keeps.
func (c claim) stepsKept(frontier int) []int {
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

// claims are those of several runs.
type claims []claim

// stepsKept are all steps up to frontier that some claim keeps.
func (cs claims) stepsKept(frontier int) []int {
	var kept []int
	for _, c := range cs {
		kept = append(kept, c.stepsKept(frontier)...)
	}
	return kept
}

func (cs claims) keep(step, frontier int) bool {
	return slices.ContainsFunc(cs, func(c claim) bool { return c.keeps(step, frontier) })
}

// claim notes what a run keeps of its chains.
func (t *term) claim(r *run, p *plan.Plan) {
	r.claimed = true
	for recipe, c := range claimsOf(&r.state, p) {
		if t.claims[recipe] == nil {
			t.claims[recipe] = make(map[string]claim)
		}
		t.claims[recipe][r.id] = c
	}
}

// unclaim forgets what a run kept: it has been removed.
func (t *term) unclaim(r *run) {
	for recipe, byRun := range t.claims {
		delete(byRun, r.id)
		if len(byRun) == 0 {
			delete(t.claims, recipe)
		}
	}
}

// claimsOn returns the claims on a chain, and how many steps it may have.
func (t *term) claimsOn(recipe storage.Key) (cs claims, limit int) {
	byRun := t.claims[recipe]
	for _, run := range slices.Sorted(maps.Keys(byRun)) {
		cs = append(cs, byRun[run])
		limit = max(limit, byRun[run].steps)
	}
	return cs, limit
}

// claimsKnown reports whether the claims of all runs that exist are known, so
// that deleting is safe.
func (t *term) claimsKnown() bool {
	return t.discovered && !slices.ContainsFunc(t.order, func(r *run) bool { return !r.claimed })
}
