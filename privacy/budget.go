package privacy

import (
	"errors"
	"fmt"
	"sort"
	"sync"
)

// Budget limits the privacy cost of a training: the proved one, unless the accountant is Papers.
type Budget struct {
	Epsilon float64 `json:"epsilon"` // above 0
	Delta   float64 `json:"delta"`   // within (0, 1)
}

// Validate reports every field that is out of range.
func (b Budget) Validate() error {
	var errs []error
	if !positive(b.Epsilon) {
		errs = append(errs, fmt.Errorf("target epsilon %v: expected a positive number", b.Epsilon))
	}
	if !(b.Delta > 0 && b.Delta < 1) {
		errs = append(errs, fmt.Errorf("delta %v: expected a number above 0 and below 1", b.Delta))
	}
	return errors.Join(errs...)
}

// Allows reports whether a number of rounds stays within the budget. A training
// stops before the first round for which Allows is false.
func (b Budget) Allows(m *Meter, rounds int) bool {
	return b.allowsByRenyi(m, rounds) || m.limited(rounds, b.Delta) <= b.Epsilon
}

// allowsByRenyi reports whether divergences, which are far faster than the tightest
// accountant, already show that the rounds fit.
func (b Budget) allowsByRenyi(m *Meter, rounds int) bool {
	if m.recipe.Accountant != Tightest {
		return false
	}
	_, ofProof := m.curves(rounds)
	return byDivergence(ofProof, b.Delta, Improved).epsilon <= b.Epsilon
}

// MaxRounds is the largest result of RoundsWithin. No training has more rounds.
const MaxRounds = 1 << 40

// RoundsWithin returns the largest number of rounds that the budget allows, from 0 to MaxRounds;
// MaxRounds means at least MaxRounds. The meter caches it.
func (b Budget) RoundsWithin(m *Meter) int {
	once, _ := m.within.LoadOrStore(b, sync.OnceValue(func() int { return b.roundsWithin(m) }))
	return once.(func() int)()
}

func (b Budget) roundsWithin(m *Meter) int {
	if b.Allows(m, MaxRounds) {
		return MaxRounds
	}
	within := sort.Search(MaxRounds, func(n int) bool { return !b.allowsByRenyi(m, n+1) })
	over := within + 1
	for b.Allows(m, over) {
		within, over = over, min(MaxRounds, over*4)
	}
	// firstWithin searches upwards, so count the rounds down from over.
	excess := func(fewer int) float64 { return b.logExcess(m.limited(over-fewer, b.Delta)) }
	return over - firstWithin(0, over-within, excess)
}
