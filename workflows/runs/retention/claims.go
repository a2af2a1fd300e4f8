package retention

import (
	"cmp"
	"slices"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Claim holds the checkpoints of a chain that a run keeps while it exists,
// finished or not.
type Claim struct {
	keep            []int // ascending
	every, keepLast int
	steps           int
}

// ClaimOf returns the claim of a run without pins on a chain of its plan.
func ClaimOf(p *plan.Chain) Claim {
	return Claim{keep: p.Keep, every: p.Every, keepLast: p.KeepLast, steps: p.Steps}
}

// pinned returns the claim with every checkpoint of the rolling retention, of
// any age.
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

// window returns the oldest and the newest step of the rolling window at a
// frontier, 1 and 0 if there is none.
func (c Claim) window(frontier int) (first, last int) {
	if c.every <= 0 || c.keepLast <= 0 {
		return 1, 0
	}
	last = min(frontier, c.steps) / c.every * c.every
	return max(last-(c.keepLast-1)*c.every, c.every), last
}

// Keeps reports whether the checkpoint of a step stays while the chain is at
// frontier.
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

// Limit is the last step that some run wants, 0 if there are no claims.
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

// Enter records the claims of a run, by recipe. They replace its earlier claims
// on the same chains.
func (l *Ledger) Enter(run string, claims map[storage.Key]Claim) {
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

// Strike forgets the claims of a run that has been removed.
func (l *Ledger) Strike(run string) {
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
