package audits

import (
	"math"
	"slices"
	"testing"
)

// With 9 of 9 users Clopper and Pearson's lower end is 0.025^(1/9) = 0.664, with 8 of 8 it is 0.631.
func TestTooFewUsersDecideNoGate(t *testing.T) {
	t.Parallel()
	if low := NewShare(9, 9).Low; MinAbove(low-1e-9) != 9 || MinAbove(low+1e-9) != 10 || MinAbove(0.5) != 6 {
		t.Errorf("it takes %d, %d and %d users", MinAbove(low-1e-9), MinAbove(low+1e-9), MinAbove(0.5))
	}
	limit := 0.65
	judge := func(users ...int) []string {
		g := Gate{Name: "share", Limit: limit}
		for _, n := range users {
			g.Number("it", n, Interval{1, NewShare(n, n).Low, 1})
		}
		return g.Breaches()
	}
	few := "it is 1, of too few users: 8, where it takes 9 for a lower bound above the limit of 0.65; the upper bound is above the limit"
	for _, c := range []struct {
		users []int
		want  []string
	}{
		{nil, []string{"share has no value, because the audit has measured none; so nothing shows that it is within the limit"}},
		{[]int{8}, []string{few}},
		{[]int{9}, []string{"it is 1; at least it is 0.6637, above the limit of 0.65"}},
		{[]int{8, 9}, []string{"it is 1; at least it is 0.6637, above the limit of 0.65"}},
	} {
		if got := judge(c.users...); !slices.Equal(got, c.want) {
			t.Errorf("%d users: %q, want %q", c.users, got, c.want)
		}
	}
	g := Gate{Limit: limit}
	if g.Number("it", 8, Interval{0.3, 0.1, 0.65}); len(g.Breaches()) > 0 || MinAbove(1) != 0 {
		t.Errorf("a value with an upper bound below the limit does not pass: %q", g.Breaches())
	}
	if TooFewToTell(6, 0.5) != "" || TooFewToTell(5, 0.5) != ", too few users to tell it from chance: 5 of at least 6" {
		t.Errorf("%q", TooFewToTell(5, 0.5))
	}
}

// The numbers were computed from the sum of the binomial distribution, 1 - sum over j <= k
// of C(n,j) p^j (1-p)^(n-j), in rational arithmetic.
func TestBinomialTailIsAccurateWhereSmall(t *testing.T) {
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

func TestFactorAlarmsSumHalfOfIntervalErrors(t *testing.T) {
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
