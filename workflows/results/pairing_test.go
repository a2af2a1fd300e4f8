package results

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/tasks/audits"
)

// By definition p is the share of all draws of signs that are at least as unequal.
func TestSignTestMatchesEnumeration(t *testing.T) {
	t.Parallel()
	for n := range 15 {
		for more := range n + 1 {
			unequal := 0
			for signs := range 1 << n {
				ones := 0
				for rest := signs; rest > 0; rest &= rest - 1 {
					ones++
				}
				if max(ones, n-ones) >= max(more, n-more) {
					unequal++
				}
			}
			if got, want := SignTest(more, n-more), float64(unequal)/float64(int(1)<<n); math.Abs(got-want) > 1e-9*want {
				t.Errorf("%d against %d: p %v, by definition %v", more, n-more, got, want)
			}
		}
	}
}

// The expected values are those of scipy.stats.binomtest.
func TestSignTestMatchesSciPy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		more, fewer int
		p           float64
	}{{1, 8, 0.0390625}, {12, 30, 0.00791589733489673}, {200, 260, 0.005883922473104}, {0, 40, 1.81898940354586e-12}} {
		for _, got := range []float64{SignTest(c.more, c.fewer), SignTest(c.fewer, c.more)} {
			if math.Abs(got-c.p) > 1e-9*c.p {
				t.Errorf("%d against %d: p %v, want %v", c.more, c.fewer, got, c.p)
			}
		}
	}
}

// Pairs are counted over all seeds, and their means are taken seed by seed.
func TestPairsAreCountedAndAveragedSeedBySeed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seeds := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(-3, 3), 0, 6), 0, 5).Draw(t, "differences by seed")
		pairs, more, fewer, means := 0, 0, 0, []float64{}
		for _, differences := range seeds {
			sum := 0.0
			for _, d := range differences {
				sum += d
				pairs++
				if d > 0 {
					more++
				}
				if d < 0 {
					fewer++
				}
			}
			if len(differences) > 0 {
				means = append(means, sum/float64(len(differences)))
			}
		}
		p := NewPairing(seeds)
		if (p == nil) != (pairs == 0) {
			t.Fatalf("%v of %d pairs", p, pairs)
		}
		if p == nil {
			return
		}
		if p.Pairs != pairs || p.More != more || p.Fewer != fewer || p.P != SignTest(more, fewer) {
			t.Errorf("%+v of %d pairs, %d greater, %d smaller", p, pairs, more, fewer)
		}
		if want := audits.NewEstimate(means); p.Difference.N != want.N || math.Abs(float64(p.Difference.Mean-want.Mean)) > 1e-12 {
			t.Errorf("difference %+v, want %+v", p.Difference, want)
		}
	})
}
