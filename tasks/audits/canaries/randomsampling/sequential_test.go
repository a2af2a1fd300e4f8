package randomsampling

import "testing"

// A reference that costs as much as the canary stands before it. Where scores are known to
// a margin, one that costs up to twice that more may stand before the canary, and one that costs
// up to twice that less behind it.
func TestRanksKnowOfTiesAndMargins(t *testing.T) {
	t.Parallel()
	// The canary costs 10, the margin is 0.5.
	costs := []float64{8.9, 9, 9.01, 10, 10.99, 11, 11.01}
	tally := newTally(10, 0.5)
	tally.add(costs)
	rank, interval := tally.rank(len(costs))
	if rank.Rank != 1+4 || interval != (Interval{1 + 2, 1 + 6}) {
		t.Errorf("rank %d in %+v, want 5 in 3 to 7", rank.Rank, interval)
	}
}
