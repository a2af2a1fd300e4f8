package main

import (
	"math"
	"testing"
)

// Of each quantity 25 intervals for each of three effects and two numbers of users, 150 in all,
// hold the truth in 95% or more: fewer than 88% do so with a probability below 3e-4, of one of
// all quantities below 0.5%. The seed is fixed.
func TestIntervalsOverFewUsersCover(t *testing.T) {
	t.Parallel()
	covered, of := map[string]float64{}, map[string]float64{}
	for _, r := range RunFew(25, 3, []int{2, 5}, quantities()) {
		covered[r.Quantity] += r.Covered
		of[r.Quantity]++
	}
	if len(covered) != len(quantities()) {
		t.Errorf("%d quantities", len(covered))
	}
	for quantity, sum := range covered {
		if share := sum / of[quantity]; share < 0.88 {
			t.Errorf("%s: %.1f%% of the intervals hold the truth", quantity, 100*share)
		}
	}
}

// If an interval contains the truth with 95%, fewer than 51 of 60 (20 for each effect) do with a probability below 8e-4.
func TestPairIntervalsContainTruthIfFewUsersHaveOwnPairs(t *testing.T) {
	t.Parallel()
	held := 0.0
	for _, r := range RunFew(20, 3, []int{3}, sparse()[:1]) {
		held += r.Covered * float64(r.Draws)
	}
	if math.Round(held) < 51 {
		t.Errorf("%v of 60 intervals hold the truth", held)
	}
}

func TestAQuantityIsNotMeasuredOverFewerUsersThanItNeeds(t *testing.T) {
	t.Parallel()
	alone := map[string]bool{}
	for _, r := range RunFew(1, 3, []int{1}, quantities()) {
		alone[r.Quantity] = true
	}
	for _, q := range quantities() {
		if alone[q.name] != (q.fewest == 1) {
			t.Errorf("%s needs %d users; measured with one: %t", q.name, q.fewest, alone[q.name])
		}
	}
}

// The area of normal scores 2 apart is SciPy's norm.cdf(2/sqrt(2)), the average precision its
// quad of the precision over the recall.
func TestTheTruthOfPairsIsTheIntegral(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ of similarity }{{similarity{0, 1, 1}}, {similarity{2, 1, 1}}} {
		if got := c.of.area(); math.Abs(got-map[float64]float64{0: 0.5, 2: 0.921350}[c.of.same]) > 1e-6 {
			t.Errorf("%+v: area %v", c.of, got)
		}
		if got := c.of.averagePrecision(); math.Abs(got-map[float64]float64{0: 0.5, 2: 0.921768}[c.of.same]) > 1e-4 {
			t.Errorf("%+v: average precision %v", c.of, got)
		}
	}
}
