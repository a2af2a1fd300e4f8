package membership

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
)

// The power is that of audits of drawn scores, by the intervals that judge real ones: within three standard
// errors, which a right power misses in one of 370 cases, and of areas three points of the normal
// approximation.
func TestPowerMatchesSimulatedAudits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		area             float64
		members, heldOut int
		rate             bool
	}{{0.6, 60, 60, false}, {0.6, 200, 40, false}, {0.75, 30, 30, false}, {0.8, 40, 1000, true}, {0.6, 400, 1000, true}} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			trials, beside, want := 200, 0.03, areaPower(c.area, c.members, c.heldOut, 0.5)
			if c.rate {
				trials, beside = 2000, 0
				want = ratePower(c.area, c.members, c.heldOut, 0.01, 0.01)
			}
			rng, found := rand.New(rand.NewPCG(1, 2)), 0
			for range trials {
				r := newRanking(drawn(rng, c.members, math.Sqrt2*mathext.NormalQuantile(c.area)), drawn(rng, c.heldOut, 0))
				low, limit := 0.0, 0.01
				if c.rate {
					low, _ = r.rateInterval(0.01)
				} else {
					low, limit = r.auc(rng).Low, 0.5
				}
				if low > limit {
					found++
				}
			}
			got := float64(found) / float64(trials)
			if within := 3*math.Sqrt(want*(1-want)/float64(trials)) + beside; math.Abs(got-want) > within {
				t.Errorf("%+v: power %.3f, and %.3f of %d audits find it; want within %.3f", c, want, got, trials, within)
			}
			t.Logf("%+v: power %.3f, audits %.3f", c, want, got)
		})
	}
}

func drawn(rng *rand.Rand, n int, mean float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = mean + rng.NormFloat64()
	}
	return x
}

// Users that the statement calls too few have an interval that begins below chance though all are told apart, and
// others do not.
func TestTooFewUsersMatchesRealIntervals(t *testing.T) {
	t.Parallel()
	few := 0
	for n := 2; n <= 12; n++ {
		members, heldOut := make([]float64, n), make([]float64, n)
		for i := range members {
			members[i] = 1
		}
		g := must.Get(CompareGroups(members, heldOut, 1))(t)
		list := power(nil, &audits.Setting{Data: &audits.Data{Users: n, HeldOutUsers: n}}, nil)
		if len(list) != 1 || (list[0].None != "") != (g.AUC.Low <= 0.5) {
			t.Errorf("%d users: too few %q, an interval from %g", n, list[0].None, g.AUC.Low)
		}
		if list[0].None != "" {
			few++
		}
	}
	if few == 0 || few == 11 {
		t.Errorf("of 11 numbers %d are too few", few)
	}
}
