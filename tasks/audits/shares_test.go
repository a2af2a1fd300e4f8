package audits

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/population"
)

// Values of scipy.stats.beta.ppf.
func TestIntervalsMatchClopperPearson(t *testing.T) {
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

func TestShareOfZeroTrialsIsZeroToOne(t *testing.T) {
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
func TestRatioOfSingleItemsMatchesShare(t *testing.T) {
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
func TestRatioCountsEqualGroupMembersOnce(t *testing.T) {
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
func TestRatioIntervalIsWideForFewGroups(t *testing.T) {
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
func TestShareOfCanariesWithEqualCountsMatchesIndependent(t *testing.T) {
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
	var few Ratio // two trainings count as two canaries, though their factor is (3.18 / 12.7)^2 of 4
	few.Add(2, 2)
	few.Add(2, 2)
	if s := few.ShareOfCanaries(); math.Abs(s.Low-math.Sqrt(0.025)) > 1e-9 || s.High != 1 {
		t.Errorf("4 of 4 in two trainings: %v to %v", s.Low, s.High)
	}
}

// All divisions of up to 24 of 5 x 37 canaries among five trainings: of those of one number, the more unequal one never
// has the narrower interval.
func TestUnequalCountsNeverNarrowInterval(t *testing.T) {
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

// mannWhitney is the test of numbers, of which none is NaN.
func mannWhitney(x, y []float64) float64 {
	p, err := MannWhitney(x, y)
	if err != nil {
		panic(err)
	}
	return p
}

// A value without a rank ends the test at once.
func TestMannWhitneyRejectsNaN(t *testing.T) {
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
// case of its own tests (test_stats.py); the others are values of SciPy 1.10 with
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

func TestMannWhitneyIsOneWithoutInformation(t *testing.T) {
	t.Parallel()
	same := make([]float64, 50)
	for _, c := range [][2][]float64{{nil, {1}}, {{1}, nil}, {{1}, {1}}, {same, same}, {{1}, {2}}} {
		if p := mannWhitney(c[0], c[1]); p != 1 {
			t.Errorf("%d values against %d: p %v, want 1", len(c[0]), len(c[1]), p)
		}
	}
}

func TestLowestIsByFrequencyThenUsers(t *testing.T) {
	t.Parallel()
	place := func(pu, pe string) population.Placement {
		return population.Placement{Canary: population.Canary{UserProbability: pu, ExampleProbability: pe}, Insertions: 1}
	}
	placed := []population.Placement{
		place("1/5000", "1/100"),  // 2e-6
		place("1/50000", "1/10"),  // 2e-6 too, fewer users
		place("1/50000", "1/100"), // lower, but not memorized
		place("3/50000", "1"),
		{Canary: population.Canary{HeldBack: true}},
		{Canary: population.Canary{UserProbability: "1/1000000", ExampleProbability: "1/100"}}, // never inserted
	}
	m := must.Get(Count(placed, func(canary int) bool { return canary != 2 }))(t)
	if want := (Configuration{UserProbability: 2e-5, ExampleProbability: 0.1}); m.Memorized != 3 || m.Of != 4 || *m.Lowest != want {
		t.Errorf("%d of %d memorized, lowest %+v; want 3 of 4 and %+v", m.Memorized, m.Of, m.Lowest, want)
	}
	if m, err := Count(placed, func(int) bool { return false }); err != nil || m.Lowest.String() != "-" {
		t.Errorf("lowest %s of none (%v)", m.Lowest, err)
	}
}

func TestConfigurationsArePrintedAsInThePapers(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Configuration{
		"4 times":         {InsertedTimes: 4},
		"1/5000, 10%":     {UserProbability: 2e-4, ExampleProbability: 0.1},
		"3/50000, 100%":   {UserProbability: 6e-5, ExampleProbability: 1},
		"1/300, 1/8":      {UserProbability: 1.0 / 300, ExampleProbability: 0.125},
		"7/9, 1/3":        {UserProbability: 7.0 / 9, ExampleProbability: 1.0 / 3},
		"0.123, 1.23e-09": {UserProbability: 0.1234567891234, ExampleProbability: 1.2345678912345e-9},
	} {
		if got := c.String(); got != want {
			t.Errorf("%v is %q, want %q", c, got, want)
		}
	}
}
