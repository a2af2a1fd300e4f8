package ranking

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The examples of scikit-learn's documentation and tests (sklearn.metrics.average_precision_score,
// precision_recall_curve; sklearn/metrics/tests/test_ranking.py).
func TestAveragePrecisionMatchesScikitLearn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scores   []float32
		relevant []bool
		want     float64
	}{
		{[]float32{0.1, 0.4, 0.35, 0.8}, []bool{false, false, true, true}, 0.8333333333333333},
		{[]float32{0, 1}, []bool{false, true}, 1},
		{[]float32{0, 1}, []bool{true, false}, 0.5},
		{[]float32{1, 1}, []bool{true, false}, 0.5},
		{[]float32{1, 0}, []bool{true, false}, 1},
		{[]float32{0.5, 0.5}, []bool{false, true}, 0.5},
		// test_average_precision_constant_values: 0.25 of 100 items, all tied.
		{make([]float32, 100), slices.Concat(make([]bool, 75), slices.Repeat([]bool{true}, 25)), 0.25},
		// test_average_precision_score_tied_values.
		{[]float32{0.5, 0.5, 0.6}, []bool{false, true, true}, 0.8333333333333333},
	} {
		got := must.Get(AveragePrecision(c.scores, c.relevant))(t)
		near(t, "AP", got, c.want, 1e-12)
	}
	curve, err := Curve([]float32{0.1, 0.4, 0.35, 0.8}, []bool{false, false, true, true})
	want := []Point{{0.8, 1, 0.5}, {0.4, 0.5, 0.5}, {0.35, 2.0 / 3, 1}, {0.1, 0.5, 1}}
	if err != nil || !slices.Equal(curve, want) {
		t.Errorf("curve %v, want %v; error %v", curve, want, err)
	}
}

// random is a ranking with many ties.
func random(rng *rand.Rand) (scores []float32, relevant []bool) {
	n := 2 + rng.IntN(30)
	for range n {
		scores = append(scores, float32(rng.IntN(8)))
		relevant = append(relevant, rng.IntN(3) == 0)
	}
	relevant[rng.IntN(n)] = true
	return scores, relevant
}

// bruteForce is the definition: over every threshold, from the highest.
func bruteForce(scores []float32, relevant []bool) float64 {
	thresholds := slices.Compact(slices.Sorted(slices.Values(scores)))
	slices.Reverse(thresholds)
	area, before := 0.0, 0.0
	for _, threshold := range thresholds {
		above, found, all := 0, 0, 0
		for i, s := range scores {
			if relevant[i] {
				all++
			}
			if s >= threshold {
				above++
				if relevant[i] {
					found++
				}
			}
		}
		recall := float64(found) / float64(all)
		area += (recall - before) * float64(found) / float64(above)
		before = recall
	}
	return area
}

func TestAveragePrecisionMatchesDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for range 500 {
		scores, relevant := random(rng)
		got := must.Get(AveragePrecision(scores, relevant))(t)
		near(t, "AP", got, bruteForce(scores, relevant), 1e-12)
	}
}

func TestOwnedMatchesAveragePrecision(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 0))
	const owners = 5
	for range 200 {
		scores, _ := random(rng)
		of := make([][]int, len(scores))
		for i := range of {
			of[i] = rng.Perm(owners)[:rng.IntN(3)]
		}
		got := must.Get(Owned(scores, of, owners))(t)
		for o := range owners {
			relevant := make([]bool, len(scores))
			for i := range of {
				relevant[i] = slices.Contains(of[i], o)
			}
			want, err := AveragePrecision(scores, relevant)
			if err != nil {
				if !math.IsNaN(got[o]) {
					t.Errorf("owner of nothing has the AP %v", got[o])
				}
				continue
			}
			near(t, "AP of an owner", got[o], want, 1e-12)
		}
	}
}

// permutations calls do with all orders of n items.
func permutations(n int, do func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var visit func(int)
	visit = func(k int) {
		if k == n {
			do(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			visit(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	visit(0)
}

func TestShuffledIsTheMeanOverAllOrders(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 7; n++ {
		for positives := 1; positives <= n; positives++ {
			sum, orders := 0.0, 0.0
			permutations(n, func(order []int) {
				scores, relevant := make([]float32, n), make([]bool, n)
				for i, at := range order {
					scores[i], relevant[i] = float32(at), i < positives
				}
				ap := must.Get(AveragePrecision(scores, relevant))(t)
				sum += ap
				orders++
			})
			near(t, "mean AP", Shuffled(positives, n), sum/orders, 1e-12)
		}
	}
}

func TestTheFirstAreFoundAndChanceIsCounted(t *testing.T) {
	t.Parallel()
	const classes = 6
	for relevant := 1; relevant <= 3; relevant++ {
		for k := 1; k <= classes; k++ {
			hits, orders := 0.0, 0.0
			permutations(classes, func(order []int) {
				scores, of := make([]float32, classes), []int{}
				for class, at := range order {
					scores[class] = float32(at)
				}
				for class := range relevant {
					of = append(of, class)
				}
				if InTopK(scores, k, of) {
					hits++
				}
				orders++
			})
			near(t, "share of orders", hits/orders, InTopKByChance(k, relevant, classes), 1e-12)
		}
	}
	if tied := make([]float32, 4); !InTopK(tied, 2, []int{1}) || InTopK(tied, 2, []int{2}) || InTopK(tied, 4, nil) {
		t.Error("of equal scores those of the lower classes do not count as higher")
	}
}

// If every value is 0 or 1, the interval is that of Clopper and Pearson, here by SciPy:
// beta.ppf(.025, k, n-k+1) and beta.ppf(.975, k+1, n-k). With 40,000 resamples an end has
// a standard error below 0.0025; an error above five of them has a probability of 6e-7
// each.
func TestIntervalsOfSharesMatchClopperPearson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ones, of  int
		low, high float64
	}{
		{0, 1, 0, 0.975},
		{1, 1, 0.025, 1},
		{1, 2, 0.012578911709342, 0.987421088290658},
		{3, 3, 0.292401773821287, 1},
		{2, 5, 0.052744950638934, 0.853367199550439},
		{7, 10, 0.347547109396545, 0.933260490090093},
		{29, 30, 0.828230537000022, 0.999156430837236},
	} {
		values := make([]float64, c.of)
		for i := range c.ones {
			values[i] = 1
		}
		r := Resampling{Stream: rand.New(rand.NewPCG(4, 0)), Groups: []int{c.of}, Resamples: 40_000}
		got := r.Interval(0.95, OfMean(values, 0, 1))
		near(t, "lower end", got.Low, c.low, 0.0125)
		near(t, "upper end", got.High, c.high, 0.0125)
	}
}

// A ratio of equal numbers is 1 but for the unseen user, and a mean between other ends is the
// same, shifted and stretched.
func TestStatisticsKnowTheirEnds(t *testing.T) {
	t.Parallel()
	weights := [][]float64{{0.25, 0.25, 0.5}}
	if low, high := OfMean([]float64{1, -1}, -1, 1)(weights); low != -0.5 || high != 0.5 {
		t.Errorf("mean from %v to %v", low, high)
	}
	// 0.25 (2 + 2) + 0.5 mean = 2 below; 1 above without the unseen user, who adds 0.5 times 6.
	if low, high := OfRatio([]float64{2, 2}, []float64{2, 2}, 0, 6, 2)(weights); low != 0.5 || high != 2 {
		t.Errorf("ratio from %v to %v", low, high)
	}
	calls, r := 0, Resampling{Stream: rand.New(rand.NewPCG(1, 2)), Groups: []int{1}, Resamples: 5}
	lows, highs := r.Ends(func([][]float64) (low, high float64) {
		calls++
		return []float64{3, math.NaN(), 2, 1, 0}[calls-1], []float64{3, 0, math.NaN(), 1, 0}[calls-1]
	})
	if want := []float64{0, 1, 3}; !slices.Equal(lows, want) || !slices.Equal(highs, want) {
		t.Errorf("ends %v and %v; want those without NaN, ascending", lows, highs)
	}
	if got := Quantile([]float64{1, 2, 3, 4}, 0.25); got != 1.75 {
		t.Errorf("the first quartile of 1 to 4 is %v, NumPy has 1.75", got)
	}
}

func TestRankingRejectsBadInput(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		scores   []float32
		relevant []bool
	}{
		"nothing relevant": {[]float32{1}, []bool{false}},
		"lengths":          {[]float32{1}, []bool{true, false}},
		"not a number":     {[]float32{1, nan}, []bool{true, false}},
	} {
		if _, err := AveragePrecision(c.scores, c.relevant); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Owned([]float32{nan}, [][]int{{0}}, 1); err == nil {
		t.Error("a score that is no number was ranked")
	}
	if _, err := Owned([]float32{1}, nil, 1); err == nil {
		t.Error("scores without items were ranked")
	}
}
