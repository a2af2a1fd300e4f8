package randomsampling

import (
	"math/rand/v2"
	"testing"

	"coalmine/tasks/audits"
)

// Scores of canaries and references that are drawn alike: at least m canaries are ahead of
// all references if the first m of all are canaries, which has the probability
// n/(n+r) (n-1)/(n+r-1) ... The bound is above that, the binomial tail below.
func TestUnmemorizedCanariesAreFirstTogetherMoreOftenThanIndependentOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ m, n, r int }{{1, 8, 1000}, {2, 6, 20}, {3, 8, 200_000}, {4, 90, 50}} {
		exact := 1.0
		for i := range c.m {
			exact *= float64(c.n-i) / float64(c.n+c.r-i)
		}
		bound, independent := firstByChance(c.m, c.n, c.r), audits.BinomialTail(c.m-1, c.n, 1/float64(c.r+1))
		if bound < exact || c.m > 1 && independent >= exact {
			t.Errorf("%+v: the bound %g and the binomial tail %g, want above and below %g", c, bound, independent, exact)
		}
	}
	if p := firstByChance(5, 4, 10); p != 0 {
		t.Errorf("5 of 4 canaries are first with probability %g", p)
	}
}

// Of 20,000 draws of 6 canaries and 20 references, about 923 (6/26 x 5/25) have two canaries
// or more in front, with a standard deviation of 30; the test fails by chance with 1e-9.
func TestSimulatedCanariesAreFirstAsOftenAsIsSaid(t *testing.T) {
	t.Parallel()
	rng, hits := rand.New(rand.NewPCG(1, 2)), 0
	for range 20_000 {
		best, ahead := 1.0, 0
		for range 20 {
			best = min(best, rng.Float64())
		}
		for range 6 {
			if rng.Float64() < best {
				ahead++
			}
		}
		if ahead >= 2 {
			hits++
		}
	}
	if share := float64(hits) / 20_000; share < 923.0/20_000-0.009 || share > firstByChance(2, 6, 20) {
		t.Errorf("%d of 20000 have two canaries in front; want about 923, and at most a share of %g", hits, firstByChance(2, 6, 20))
	}
}
