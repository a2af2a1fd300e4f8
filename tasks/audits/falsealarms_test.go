package audits

import (
	"math"
	"testing"
)

// The numbers were computed from the sum of the binomial distribution, 1 - sum over j <= k
// of C(n,j) p^j (1-p)^(n-j), in rational arithmetic.
func TestTheTailOfABinomialDistributionKeepsItsDigitsWhereItIsSmall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n    int
		p, want float64
	}{
		{0, 8, 0x1p-15, 0.00024411454955946578},
		{2, 8, 1.0 / 200_001, 6.9997637547249274e-15},
		{0, 8, 1.0 / 16e12, 4.999999999998906e-13},
		{3, 90, 1.0 / 2_000_001, 1.5969356205416546e-19},
		{5, 1000, 1e-3, 0.0005880701017629784},
		{0, 768, 0x1p-20, 0.0007321540685606262},
		{9, 10, 1.0 / 3, 1.6935087808430286e-05},
		{0, 0, 0.5, 0}, {3, 3, 0.5, 0}, {0, 5, 1, 1},
	} {
		if got := BinomialTail(c.k, c.n, c.p); math.Abs(got-c.want) > 1e-11*c.want {
			t.Errorf("more than %d of %d with probability %g: %v, want %v", c.k, c.n, c.p, got, c.want)
		}
	}
}

func TestFalseAlarmsOfFactorsAreHalfOfWhatIntervalsLeaveForEachNumber(t *testing.T) {
	t.Parallel()
	for numbers, want := range map[int]float64{1: 0.025, 4: 0.1, 100: 1} {
		alarms := FactorAlarms("matching", 1.5, numbers, "scores", 0, 0.5)
		if len(alarms) != 1 || math.Abs(alarms[0].Probability-want) > 1e-12 || alarms[0].Allowed != 1.5 || alarms[0].Trials != numbers {
			t.Errorf("%d numbers: %+v, want the probability %g", numbers, alarms, want)
		}
	}
}

// Python: the lower end of Clopper and Pearson for n of n is 0.025^(1/n); 0.025^(1/7) = 0.590 and
// 0.025^(1/8) = 0.631, 0.025^(1/12) = 0.735 and 0.025^(1/13) = 0.753.
func TestALimitOfTooFewUsersFailsByDesign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allowed, chance float64
		users           int
		few             bool
	}{{0.6, 1, 7, true}, {0.6, 1, 8, false}, {0.6, 1, 0, false}, {1.5, 0.5, 12, true}, {1.5, 0.5, 13, false}, {2, 0.5, 3, false}} {
		if alarms := FactorAlarms("limit", c.allowed, 1, "numbers", c.users, c.chance); alarms[0].TooFew() != c.few {
			t.Errorf("%+v: %+v", c, alarms[0])
		}
	}
}
