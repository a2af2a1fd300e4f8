package numbers

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

func TestProbabilityHasOneTextForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1/5000": "1/5000", "3/50000": "3/50000", "0.0002": "1/5000", "2e-4": "1/5000", "0.02%": "1/5000",
		"10%": "10%", "0.1": "10%", "1/10": "10%", "1": "100%", "100%": "100%", "0": "0", "0%": "0", ".5": "50%",
		"4/6": "2/3", "12.5%": "1/8", "1e-18": "1/1000000000000000000",
	} {
		p, err := ParseProbability(text)
		if err != nil || p.String() != want {
			t.Errorf("%s: got %s, %v; want %s", text, p, err, want)
		}
	}
}

func TestParseProbabilityRejectsBadText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "%", ".", "e1", "1/0", "0/0", "2", "101%", "-0.1", "-1/2", "1/-2", "1/2%", "1//2", "0x1", "nan", "inf",
		"1e-19", "1 / 2", "1/2/3", "1e99999", "99999999999999999999/99999999999999999999",
	} {
		if p, err := ParseProbability(text); err == nil {
			t.Errorf("%q is read as %s", text, p)
		}
	}
}

func TestProbabilitiesCompareExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (Probability, *big.Rat) {
			d := rapid.Int64Range(1, maxDenominator).Draw(t, name+" denominator")
			n := rapid.Int64Range(0, d).Draw(t, name+" numerator")
			p := must.Get(ParseProbability(fmt.Sprintf("%d/%d", n, d)))(t)
			return p, big.NewRat(n, d)
		}
		p, exactP := draw("p")
		q, exactQ := draw("q")
		if p.Rat().Cmp(exactP) != 0 || (p == q) != (exactP.Cmp(exactQ) == 0) {
			t.Fatalf("%s and %s", p, q)
		}
		if again, err := ParseProbability(p.String()); err != nil || again != p {
			t.Fatalf("%s is read back as %s, %v", p, again, err)
		}
		if f, _ := exactP.Float64(); p.Float64() != f {
			t.Fatalf("%s is %g, want %g", p, p.Float64(), f)
		}
	})
}

func TestShareIsCountOrPercentage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		total int
		want  int
	}{
		{"800", 8000, 800},
		{"10%", 8000, 800},
		{"10%", 7, 1},
		{"33.3%", 1000, 333},
		{"100%", 12, 12},
		{"5000", 100, 5000},
		{"29%", 100, 29}, // 0.29 x 100 is 28.999... in float64
	} {
		s, err := ParseShare(c.text)
		if err != nil || s.Of(c.total) != c.want || s.String() != c.text {
			t.Errorf("%s of %d: got %d (%s), %v; want %d", c.text, c.total, s.Of(c.total), s, err, c.want)
		}
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "1.5", "1/3", "1/3%", "10 %", "1000000001"} {
		if s, err := ParseShare(text); err == nil {
			t.Errorf("%q is read as %s", text, s)
		}
	}
	if (Share{}).Of(100) != 0 {
		t.Error("no share is some rounds")
	}
}

func TestProbabilityFloatRoundTrip(t *testing.T) {
	t.Parallel()
	for number, want := range map[float64]string{
		0: "0", 1: "100%", 0.1: "10%", 1.0 / 3: "1/3", 1.0 / 300: "1/300", 2e-5: "1/50000", 6e-5: "3/50000", 1.0 / 342_477_000: "1/342477000",
		0.00123: "123/100000", 5e-9 / 3: "1/600000000",
	} {
		if p, err := ProbabilityOf(number); err != nil || p.String() != want {
			t.Errorf("%v: got %s, %v; want %s", number, p, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		below := rapid.Uint64Range(1, 1<<26-1).Draw(t, "denominator")
		above := rapid.Uint64Range(0, below).Draw(t, "numerator")
		p := must.Get(ParseProbability(fmt.Sprintf("%d/%d", above, below)))(t)
		if again, err := ProbabilityOf(p.Float64()); err != nil || again != p {
			t.Fatalf("%s is %v, and comes back as %s, %v", p, p.Float64(), again, err)
		}
	})
}

func TestProbabilityOfRejectsOutOfRange(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{-1e-300, 1.0000000000000002, math.NaN(), math.Inf(1), math.Inf(-1), 1e-300} {
		if p, err := ProbabilityOf(x); err == nil {
			t.Errorf("%v became %s", x, p)
		}
	}
}
