package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The truth is the mean over many studies. Of 2,000 of one seed, the share of memorized
// canaries has a standard deviation below 0.003 around it: the seed is fixed.
func TestTheTruthIsTheMeanOfManyStudies(t *testing.T) {
	t.Parallel()
	for _, s := range []Study{thakkar(1, -0.8), thakkar(1, -3), alike(1)} {
		rng, first, second, n := rand.New(rand.NewPCG(3, 1)), 0.0, 0.0, 0
		for range 2000 {
			o := s.draw(rng)
			first, second, n = first+sum(o.first[0]), second+sum(o.second[0]), n+len(o.first[0])
		}
		for row, share := range map[float64]float64{s.Row + s.Level: first / float64(n), s.Level: second / float64(n)} {
			if p := s.probability(row); math.Abs(p-share) > 0.01 {
				t.Errorf("%+v: %.4f of the canaries of row %v, want %.4f", s, share, row, p)
			}
		}
	}
}

// Of 400 intervals with a goal, less than 90% cover with a probability below 1e-4 where 95%
// do. The seed is fixed.
func TestIntervalsCover(t *testing.T) {
	t.Parallel()
	rows := RunCoverage(400, 5)
	for _, r := range rows {
		if r.Goal != "" && r.Covered < 0.9 {
			t.Errorf("%+v", r)
		}
	}
	if last := RunCoverage(400, 5); last[0] != rows[0] || len(rows) < 10 {
		t.Errorf("%d rows; again the first is %+v, was %+v", len(rows), last[0], rows[0])
	}
}
