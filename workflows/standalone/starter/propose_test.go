package starter

import (
	"strconv"
	"testing"

	"coalmine/internal/must"
)

// A delta of 1/n or more is no privacy: the mechanism that publishes one of n records has it.
func TestDeltaIsBelowOneByTheNumberOfExamples(t *testing.T) {
	t.Parallel()
	for _, examples := range []int{0, 1, 9, 99_999, 100_000, 100_001, 999_999, 1_000_000} {
		var p Proposal
		p.facts.Balance.Balanced.Examples = examples
		delta := must.Get(strconv.ParseFloat(p.delta(), 64))(t)
		if delta <= 0 || delta > 1e-5 || delta*float64(examples) >= 1 {
			t.Errorf("%d examples: delta %v", examples, delta)
		}
	}
}
