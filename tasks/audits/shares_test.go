package audits

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Values of scipy.stats.beta.ppf.
func TestIntervalsAreThoseOfClopperAndPearson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count, of int
		low, high float64
	}{
		{0, 10, 0, 0.308497107818761},
		{10, 10, 0.691502892181239, 1},
		{1, 20, 0.0012650894979498, 0.248732762772028},
		{12, 20, 0.36054258730749, 0.808809939274693},
		{652, 10000, 0.0604384399001207, 0.0702166438886733},
		{13105, 100000, 0.128964191944472, 0.133157232507305},
		{1, 1000000, 2.53178076637942e-08, 5.57163065516694e-06},
		{999999, 1000000, 0.999994428369345, 0.999999974682192},
		{3000000, 10000000, 0.299715982165395, 0.300284133633842},
	} {
		s := NewShare(c.count, c.of)
		if s.Share != float64(c.count)/float64(c.of) || math.Abs(s.Low-c.low) > 1e-9*c.low || math.Abs(s.High-c.high) > 1e-9*c.high {
			t.Errorf("%d of %d: %v to %v, want %v to %v", c.count, c.of, s.Low, s.High, c.low, c.high)
		}
	}
}

// By the definition: pairs of counts with the same sum, each weighted by the ways to it.
func TestSharesDifferByFishersTest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 3))
	for range 300 {
		n, m := 1+rng.IntN(40), 1+rng.IntN(40)
		a, b := NewShare(rng.IntN(n+1), n), NewShare(rng.IntN(m+1), m)
		var below, above, total float64
		for k := max(0, a.Count+b.Count-m); k <= min(n, a.Count+b.Count); k++ {
			ways := choose(n, k) * choose(m, a.Count+b.Count-k)
			total += ways
			if k <= a.Count {
				below += ways
			}
			if k >= a.Count {
				above += ways
			}
		}
		want := min(1, 2*min(below, above)/total)
		if got := Differ(a, b); math.Abs(got-want) > 1e-9*want || math.Abs(Differ(b, a)-want) > 1e-9*want {
			t.Errorf("%d of %d, %d of %d: p %v, by definition %v", a.Count, n, b.Count, m, got, want)
		}
	}
}

func choose(n, k int) float64 {
	ways := 1.0
	for i := range k {
		ways *= float64(n-i) / float64(i+1)
	}
	return math.Round(ways)
}

// Values of scipy.stats.hypergeom.
func TestSharesOfManyDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b Share
		p    float64
	}{
		{NewShare(240, 10000), NewShare(1302, 10000), 8.55560769011e-190},
		{NewShare(6520, 100000), NewShare(6700, 100000), 0.107183453358},
		{NewShare(0, 20000), NewShare(12, 20000), 0.000487476018921},
		{NewShare(2260000, 10000000), NewShare(2261000, 10000000), 0.593298554321},
		{NewShare(13, 100000), NewShare(2, 50000), 0.158693467475},
		{NewShare(5, 10), NewShare(0, 0), 1},
	} {
		if got := Differ(c.a, c.b); math.Abs(got-c.p) > 1e-7*c.p {
			t.Errorf("%+v and %+v: p %v, want %v", c.a, c.b, got, c.p)
		}
	}
}

func TestOfNothingNothingIsKnown(t *testing.T) {
	t.Parallel()
	if s := NewShare(0, 0); s.Share != 0 || s.Low != 0 || s.High != 1 {
		t.Errorf("%+v", s)
	}
	if s := new(Ratio).Share(); s.Share != 0 || s.Low != 0 || s.High != 1 {
		t.Errorf("%+v", s)
	}
	if p := NewShare(0, 0).AtLeast(0.1); p != 1 {
		t.Errorf("p %v", p)
	}
}

// The two are one where every group has one thing.
func TestARatioOfSinglesIsAShare(t *testing.T) {
	t.Parallel()
	var r Ratio
	for i := range 1000 {
		r.Add(i%7/6, 1)
	}
	got, want := r.Share(), NewShare(142, 1000)
	if got.Count != want.Count || math.Abs(got.Low-want.Low) > 2e-5 || math.Abs(got.High-want.High) > 2e-5 {
		t.Errorf("%+v, as a share %+v", got, want)
	}
}

// Where all of a group are alike, ten in a group are worth one.
func TestThingsThatAreAlikeCountOnce(t *testing.T) {
	t.Parallel()
	var r Ratio
	for i := range 1000 {
		r.Add(10*(i%5/4), 10)
	}
	got, want := r.Share(), NewShare(200, 1000)
	if got.Share != 0.2 || got.Of != 10_000 || math.Abs(got.Low-want.Low) > 1e-4 || math.Abs(got.High-want.High) > 1e-4 {
		t.Errorf("%+v, of the groups %+v", got, want)
	}
}

// Korn and Graubard 1998: p(1-p)/v, times the squared ratio of Student's quantiles with n-1 and
// with groups-1 degrees of freedom. The numbers are SciPy's: stats.t.ppf and stats.beta.ppf.
func TestFewGroupsTellLittleOfTheirVariance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		groups    [][2]int
		low, high float64
	}{
		{[][2]int{{1, 4}, {0, 3}}, 6.600693652767208e-38, 0.9999993642813697},
		{[][2]int{{1, 4}, {0, 3}, {2, 5}}, 0.007301488014130637, 0.7955602102424877},
		{[][2]int{{0, 7}, {1, 3}, {4, 4}, {2, 6}, {0, 5}}, 0.0094299674910834, 0.8290222829117447},
		{[][2]int{{3, 5}, {2, 5}, {2, 5}, {2, 5}, {2, 5}, {2, 5}, {2, 5}, {2, 5}, {2, 5}, {2, 5}}, 0.28188224112369753, 0.5679395649344342},
	} {
		var r Ratio
		for _, g := range c.groups {
			r.Add(g[0], g[1])
		}
		if s := r.Share(); math.Abs(s.Low-c.low) > 1e-9 || math.Abs(s.High-c.high) > 1e-9 {
			t.Errorf("%v: %v to %v, want %v to %v", c.groups, s.Low, s.High, c.low, c.high)
		}
	}
}

// Equal counts of 5 trainings have the interval of Clopper and Pearson for 185 x (t184 / t4)^2 = 93.42
// canaries. The numbers are SciPy's: stats.t.ppf and stats.beta.ppf.
func TestEqualCountsOfCanariesAreThoseOfIndependentOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count     int
		low, high float64
	}{{0, 0, 0.03871919113261255}, {2, 0.017907695066777394, 0.12120609519152897}, {37, 0.9612808088673874, 1}} {
		var r Ratio
		for range 5 {
			r.Add(c.count, 37)
		}
		if s := r.ShareOfCanaries(); math.Abs(s.Low-c.low) > 1e-9 || math.Abs(s.High-c.high) > 1e-9 {
			t.Errorf("%d of 37 five times: %v to %v, want %v to %v", c.count, s.Low, s.High, c.low, c.high)
		}
	}
}

// All divisions of up to 24 of 5 x 37 canaries among five trainings: of those of one number, the more unequal one never
// has the narrower interval.
func TestCountsThatDifferMoreAreNeverMoreCertain(t *testing.T) {
	t.Parallel()
	for total := 1; total <= 24; total++ {
		divisions := divided(total, 5)
		slices.SortFunc(divisions, func(a, b []int) int { return cmp.Compare(squares(a), squares(b)) })
		last := Share{Low: 1}
		for _, counts := range divisions {
			var r Ratio
			for _, count := range counts {
				r.Add(count, 37)
			}
			s := r.ShareOfCanaries()
			if s.Count != total || s.Low > last.Low+1e-12 || s.High < last.High-1e-12 {
				t.Errorf("%v of 37: %v to %v, and more equal counts have %v to %v", counts, s.Low, s.High, last.Low, last.High)
			}
			last = s
		}
	}
}

// divided lists the ways to divide a number into the given number of parts, each ascending.
func divided(total, parts int) (divisions [][]int) {
	if parts == 1 {
		return [][]int{{total}}
	}
	for last := total; last*parts >= total; last-- {
		for _, rest := range divided(total-last, parts-1) {
			if rest[parts-2] <= last {
				divisions = append(divisions, append(rest, last))
			}
		}
	}
	return divisions
}

func squares(counts []int) (sum int) {
	for _, count := range counts {
		sum += count * count
	}
	return sum
}

// Of 1000 intervals of groups of dependent things, at least 925 contain the truth: with a
// coverage of 95%, fewer do with probability 3e-4. The seed is fixed.
func TestTheIntervalOfARatioCoversTheTruth(t *testing.T) {
	t.Parallel()
	rng, covered := rand.New(rand.NewPCG(3, 3)), 0
	for range 1000 {
		var r Ratio
		for range 300 {
			p, count, size := 0.4*rng.Float64(), 0, 1+rng.IntN(9)
			for range size {
				if rng.Float64() < p {
					count++
				}
			}
			r.Add(count, size)
		}
		if s := r.Share(); s.Low <= 0.2 && 0.2 <= s.High {
			covered++
		}
	}
	if covered < 925 {
		t.Errorf("%d of 1000 intervals contain the truth", covered)
	}
}
