package audits

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mannWhitney is the test of numbers, of which none is NaN.
func mannWhitney(x, y []float64) float64 {
	p, err := MannWhitney(x, y)
	if err != nil {
		panic(err)
	}
	return p
}

// A value without a rank ends the test at once.
func TestMannWhitneyNamesWhatHasNoRank(t *testing.T) {
	t.Parallel()
	nan := []float64{1, math.NaN()}
	for _, c := range [][2][]float64{{nan, {1}}, {{1}, nan}} {
		if _, err := MannWhitney(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "value 1 is NaN") {
			t.Errorf("error %v", err)
		}
	}
	if p := mannWhitney([]float64{1, math.Inf(1)}, []float64{0, -1}); p != 1.0/3 {
		t.Errorf("p %v, want 1/3: infinities have ranks", p)
	}
}

// bruteForce counts all ways to divide the values, and compares how often a value of the
// first sample is above one of the second: Mann and Whitney's U.
func bruteForce(x, y []float64) float64 {
	pooled := slices.Concat(x, y)
	apart := func(chosen uint) float64 {
		u := 0.0
		for i, a := range pooled {
			for j, b := range pooled {
				if chosen>>i&1 == 0 || chosen>>j&1 == 1 {
					continue
				}
				if a > b {
					u++
				} else if a == b {
					u += 0.5
				}
			}
		}
		return math.Abs(u - float64(len(x)*len(y))/2)
	}
	far, all := 0, 0
	for chosen := range uint(1) << len(pooled) {
		if bits.OnesCount(chosen) != len(x) {
			continue
		}
		all++
		if apart(chosen) >= apart(1<<len(x)-1) {
			far++
		}
	}
	return float64(far) / float64(all)
}

func TestMannWhitneyCountsAllWaysToDivideFewValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.Map(rapid.IntRange(0, 6), func(i int) float64 { return float64(i) / 2 })
		x := rapid.SliceOfN(values, 1, 5).Draw(rt, "x")
		y := rapid.SliceOfN(values, 1, 5).Draw(rt, "y")
		got, want := mannWhitney(x, y), bruteForce(x, y)
		if math.Abs(got-want) > 1e-12 {
			rt.Fatalf("p %v, want %v", got, want)
		}
		if other := mannWhitney(y, x); math.Abs(got-other) > 1e-12 {
			rt.Fatalf("p %v, and %v the other way round", got, other)
		}
	})
}

// The first is the example in the documentation of scipy.stats.mannwhitneyu, the second a
// case of its own tests (test_stats.py); the others are what SciPy 1.10 gives with
// method="asymptotic", use_continuity=False, and one with method="exact".
func TestMannWhitneyGivesTheValuesOfSciPy(t *testing.T) {
	t.Parallel()
	// 15 values above 17 of the others, and 9 above 18.
	fewer := sequence(24, func(i int) float64 { return 16.5 + float64(i/15) + float64(i)/100 })
	for _, c := range []struct {
		name string
		x, y []float64
		want float64
	}{
		{"documentation", []float64{19, 22, 16, 29, 24}, []float64{20, 11, 17, 12}, 0.1111111111111111},
		{"own test", []float64{210.052110, 110.190630, 307.918612}, []float64{
			436.08811482466416, 416.37397329768191, 179.96975939463582, 197.8118754228619, 34.038757281225756, 138.54220550921517, 128.7769351470246,
			265.92721427951852, 275.6617533155341, 592.34083395416258, 448.73177590617018, 300.61495185038905, 187.97508449019588,
		}, 0.7035714285714286},
		{"one of many", []float64{-1}, sequence(60, func(i int) float64 { return float64(i) }), 2.0 / 61},
		{"many ties", sequence(60, func(i int) float64 { return float64(7 * i * i % 31) }), sequence(70, func(i int) float64 { return float64((5*i*i+3*i)%37 + 2) }), 9.438887767801351e-05},
		{"exact where SciPy's default approximates", fewer, sequence(36, func(i int) float64 { return float64(i) }), 0.828149272819864},
		{"no tie", sequence(60, func(i int) float64 { return 0.7 * float64(i) }), sequence(80, func(i int) float64 { return 0.5*float64(i) + 0.1 }), 0.7125431826827274},
		{"unequal sizes", sequence(53, func(i int) float64 { return float64(i * i % 17) }), sequence(214, func(i int) float64 { return float64(i * i % 13) }), 0.09350527238262869},
	} {
		if got := mannWhitney(c.x, c.y); math.Abs(got/c.want-1) > 1e-12 {
			t.Errorf("%s: p %v, want %v", c.name, got, c.want)
		}
	}
}

func sequence(n int, f func(i int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func TestMannWhitneyOfNothingToTellIsOne(t *testing.T) {
	t.Parallel()
	same := make([]float64, 50)
	for _, c := range [][2][]float64{{nil, {1}}, {{1}, nil}, {{1}, {1}}, {same, same}, {{1}, {2}}} {
		if p := mannWhitney(c[0], c[1]); p != 1 {
			t.Errorf("%d values against %d: p %v, want 1", len(c[0]), len(c[1]), p)
		}
	}
}
