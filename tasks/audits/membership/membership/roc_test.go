package membership

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/lists"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
)

// tied are scores with many ties.
func tied(rng *rand.Rand, n int) []float64 {
	scores := make([]float64, n)
	for i := range scores {
		scores[i] = float64(rng.IntN(6))
	}
	return scores
}

// The area is the share of pairs in the right order, each with the product of its weights. An
// unseen member and an unseen held-out user are the worst that they can be at one end, and the
// best at the other.
func TestAreaIsWeightedShareOfPairs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for range 200 {
		members, heldOut := tied(rng, 1+rng.IntN(9)), tied(rng, 1+rng.IntN(9))
		weights := [][]float64{make([]float64, len(members)+1), make([]float64, len(heldOut)+1)}
		for _, w := range weights {
			for i := range w {
				w[i] = rng.Float64()
			}
			total := mean(w) * float64(len(w))
			for i := range w {
				w[i] /= total
			}
		}
		low, high := newRanking(members, heldOut).area()(weights)
		slices.Sort(members)
		slices.Sort(heldOut)
		area, wantLow, wantHigh := 0.0, 0.0, 0.0
		for i, x := range append(slices.Clone(members), 0) {
			for j, y := range append(slices.Clone(heldOut), 0) {
				w := weights[0][i] * weights[1][j]
				if i == len(members) || j == len(heldOut) {
					wantHigh += w
					continue
				}
				area += kernel(x, y) / float64(len(members)*len(heldOut))
				wantLow, wantHigh = wantLow+w*kernel(x, y), wantHigh+w*kernel(x, y)
			}
		}
		got := newRanking(members, heldOut).auc(rng)
		for _, pair := range [][2]float64{{got.Value, area}, {low, wantLow}, {high, wantHigh}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Fatalf("%v and %v: %+v and %v to %v, want %v and %v to %v", members, heldOut, got, low, high, area, wantLow, wantHigh)
			}
		}
		if !(0 <= got.Low && got.Low <= got.Value+1e-12 && got.Value <= got.High+1e-12 && got.High <= 1+1e-12) {
			t.Fatalf("%+v", got)
		}
	}
}

func kernel(x, y float64) float64 {
	switch {
	case x > y:
		return 1
	case x == y:
		return 0.5
	}
	return 0
}

// A perfect separation leaves room for the chance of so few users: the weights of all but the
// unseen have the distribution functions x^4 and x^3, and their product 4x³ - 3x⁴. Of 1,000
// resamples the quantile of 2.5% lies between those of 0.6% and 5.5% but for 1 of 10,000; the
// stream is fixed.
func TestAPerfectSeparationHasAnInterval(t *testing.T) {
	t.Parallel()
	a := newRanking([]float64{5, 6, 7, 8}, []float64{1, 2, 3}).auc(rand.New(rand.NewPCG(1, 1)))
	cube := a.Low * a.Low * a.Low
	p := 4*cube - 3*a.Low*cube
	if a.Value != 1 || math.Abs(a.High-1) > 1e-12 || p < 0.006 || p > 0.055 {
		t.Errorf("%+v, at a tail of %v", a, p)
	}
}

// The threshold of a rate is drawn, too. Of 1,000 held-out users, those above the score that 1% of
// all exceed are from 4 to 18 but for 1.25% at either end (SciPy: binom.cdf(3) = 0.010,
// binom.cdf(4) = 0.029, binom.sf(17) = 0.0137, binom.sf(18) = 0.0068), and Clopper and Pearson's
// ends leave out as much again.
func TestRateIntervalCoversDrawnThreshold(t *testing.T) {
	t.Parallel()
	heldOut, members := make([]float64, 1000), make([]float64, 1000)
	for i := range heldOut {
		heldOut[i], members[i] = float64(i), float64(i)+0.5
	}
	got := newRanking(members, heldOut).rate(0.01).TruePositives
	// 4, 11 and 19 members are above the fifth, the eleventh and the nineteenth of the held-out.
	low, _ := audits.ClopperPearson(4, 1000, 0.0125)
	_, high := audits.ClopperPearson(19, 1000, 0.0125)
	if got.Count != 11 || got.Low != low || got.High != high {
		t.Errorf("%+v, want 11 (%v to %v)", got, low, high)
	}
}

// Found are the members above every threshold that lets no more held-out users pass: the best of
// all thresholds, tried one by one.
func TestFoundIsTheBestOfAllThresholds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 0))
	for range 300 {
		members, heldOut := tied(rng, 1+rng.IntN(12)), tied(rng, 1+rng.IntN(12))
		share := float64(rng.IntN(101)) / 100
		best := 0
		for threshold := -1.0; threshold <= 6; threshold++ {
			above := func(scores []float64) int {
				return len(slices.DeleteFunc(slices.Clone(scores), func(s float64) bool { return s < threshold }))
			}
			if float64(above(heldOut)) <= share*float64(len(heldOut))+1e-9 {
				best = max(best, above(members))
			}
		}
		r := newRanking(members, heldOut)
		if got := r.found(r.allowed(share)); got != best {
			t.Fatalf("%v and %v at %v: %d found, want %d", members, heldOut, share, got, best)
		}
	}
}

func TestRatesNeedTenFalsePositives(t *testing.T) {
	t.Parallel()
	scores := make([]float64, 1000)
	for i := range scores {
		scores[i] = float64(i)
	}
	members := []float64{2000, 988.5, 990.5, -1}
	for n, want := range map[int]bool{999: false, 1000: true} {
		r := newRanking(members, scores[1000-n:])
		if got := r.rate(0.01); (got.TruePositives != nil) != want || got.Needed != 1000 {
			t.Errorf("with %d held-out users: %+v", n, got)
		}
	}
	r := newRanking(members, scores)
	// Ten of a thousand may pass: those from 990 on.
	if got := r.rate(0.01).TruePositives; got.Count != 2 || got.Of != 4 {
		t.Errorf("%+v", got)
	}
	if got := r.rate(0.001); got.TruePositives != nil || got.Needed != 10_000 {
		t.Errorf("%+v", got)
	}
}

func TestTheCurveRisesToAll(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 0))
	curve := rocCurve(tied(rng, 50), tied(rng, 70))
	if len(curve) != 101 || !slices.IsSorted(curve) || curve[100] != 1 {
		t.Errorf("%v", curve)
	}
}

func mean(values []float64) float64 { return ranking.Mean(values) }

// The interval is that of DeLong et al. by its formula: the mean difference of the pairs' order over the members gives a
// term for each held-out user, and the other way round.
func TestAreaDifferenceHasTheIntervalOfItsPlacements(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 0))
	const m, n = 11, 40
	membersA, heldOutA, membersB, heldOutB := tied(rng, m), tied(rng, n), tied(rng, m), tied(rng, n)
	order := func(a, b float64) float64 {
		return map[bool]float64{true: 1}[a > b] + map[bool]float64{true: 0.5}[a == b]
	}
	pair := func(i, j int) float64 { return order(membersA[i], heldOutA[j]) - order(membersB[i], heldOutB[j]) }
	mean := func(count int, value func(int) float64) (sum float64) {
		for i := range count {
			sum += value(i) / float64(count)
		}
		return sum
	}
	squaredError := func(values []float64) float64 {
		k := float64(len(values))
		center := mean(len(values), func(i int) float64 { return values[i] })
		return mean(len(values), func(i int) float64 { return (values[i] - center) * (values[i] - center) }) / (k - 1)
	}
	ofMembers := lists.Make(m, func(i int) float64 { return mean(n, func(j int) float64 { return pair(i, j) }) })
	ofHeldOut := lists.Make(n, func(j int) float64 { return mean(m, func(i int) float64 { return pair(i, j) }) })
	value := mean(m, func(i int) float64 { return ofMembers[i] })
	half := distuv.StudentsT{Sigma: 1, Nu: m - 1}.Quantile(0.975) * math.Sqrt(squaredError(ofMembers)+squaredError(ofHeldOut))
	got := areaDifference(membersA, heldOutA, membersB, heldOutB)
	if math.Abs(got.Value-value) > 1e-12 || math.Abs(got.Low-(value-half)) > 1e-12 || math.Abs(got.High-(value+half)) > 1e-12 {
		t.Errorf("%+v, want %v +- %v", got, value, half)
	}
}
