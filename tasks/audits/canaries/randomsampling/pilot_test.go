package randomsampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/must"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// A rank is estimated if, and only if, at least 200 of the first 20,000 references
// are at or below the canary, and from these alone.
func TestAnEstimateRestsOnTheHitsOfAFixedPilot(t *testing.T) {
	t.Parallel()
	const all, pilot, enough = 50_000, 20_000, 200
	scorer := testScorer(t, 40, 6)
	drawn := drawnFrom(canaries.Space{Words: 3}, 4, all, 40-text.FirstWord, nil)
	prefix := []int32{text.FirstWord}
	costs := bruteForceCosts(t, scorer, prefix, drawn)
	ascending := slices.Sorted(slices.Values(costs[:pilot]))

	var list []population.Placement
	var hits, ranks []int
	for _, at := range []int{0, enough / 2, enough - 4, enough - 3, enough - 2, enough - 1, enough, enough + 1, 10 * enough, pilot - 1} {
		limit := ascending[at]
		words := drawn.row(slices.Index(costs, limit))
		list = append(list, population.Placement{Canary: population.Canary{Tokens: slices.Concat(prefix, words)}})
		hits, ranks = append(hits, atMost(ascending, limit)), append(ranks, 1+atMost(costs, limit))
	}
	if !slices.Contains(hits, enough) || !slices.ContainsFunc(hits, func(n int) bool { return n == enough-1 || n == enough-2 }) {
		t.Fatalf("the canaries have %v hits: none is just below %d, or none has as many", hits, enough)
	}
	sampling := newSampling(&Params{References: all, Prefix: len(prefix)}, list, scorer.Tabulate(), drawn.nested(), nil)
	for i, n := range hits {
		want := Rank{Rank: int64(ranks[i]), Exact: true}
		if n >= enough {
			want = Rank{Rank: int64(1 + math.Round(float64(n)*all/pilot)), ExposureError: 1 / (math.Ln2 * math.Sqrt(float64(n)))}
		}
		got := must.Get(sampling.Rank(t.Context(), i))(t)
		want.LogPerplexity = got.LogPerplexity
		if got != want {
			t.Errorf("%d hits in the pilot: %+v, want %+v", n, got, want)
		}
	}
}

// atMost counts the costs of at most limit.
func atMost(costs []float64, limit float64) int {
	n := 0
	for _, c := range costs {
		if c <= limit {
			n++
		}
	}
	return n
}

// A set is passed over where it is unlikely to have enough hits; its hits show in
// the larger one that is walked instead.
func TestPilotsThatAreUnlikelyToDecideAreNotWalked(t *testing.T) {
	t.Parallel()
	s := newSampling(&Params{}, nil, testScorer(t, 40, 6).Tabulate(), []*References{
		{length: 1, tokens: make([]int32, 20)}, {length: 1, tokens: make([]int32, 200)}, {length: 1, tokens: make([]int32, 2000)},
	}, nil)
	for hits, want := range map[int64]int{0: 2, 9: 2, 10: 1, 19: 1} {
		if got := s.after(0, hits); got != want {
			t.Errorf("after %d hits in the first pilot set %d is walked, want %d", hits, got, want)
		}
	}
	if got := s.after(1, 150); got != 2 {
		t.Errorf("after the second pilot set %d is walked, want all references", got)
	}
}

func TestSortedSetKeepsDraws(t *testing.T) {
	t.Parallel()
	drawn := drawnFrom(canaries.Space{Words: 2}, 4, 500, 12, nil)
	for _, n := range []int{1, 77, 500} {
		sorted := drawn.first(n)
		seen := map[int32]bool{}
		for i, draw := range sorted.drawn {
			seen[draw] = true
			if int(draw) >= n || !slices.Equal(sorted.row(i), drawn.row(int(draw))) {
				t.Fatalf("row %d of the first %d is %v by draw %d, which is %v", i, n, sorted.row(i), draw, drawn.row(int(draw)))
			}
		}
		if len(seen) != n || !slices.IsSortedFunc(slices.Collect(slices.Chunk(sorted.tokens, 2)), slices.Compare[[]int32]) {
			t.Errorf("the first %d are not sorted, or not all there", n)
		}
	}
}

// Choosing a pilot by its hits favours pilots with more hits than expected. With
// X hits, Poisson with mean m, the bias relative to the rank is
// E[(X-m) 1(X >= k)] / m = P(X = k-1), which is largest, 1/sqrt(2 pi (k-1)) =
// 0.0283, where m = k-1. The simulation draws 40,000 audits there and on both
// sides; the mean of the relative error then has a standard deviation below
// 0.0005, and a right program leaves the bound by six of them with probability
// 1e-9 each.
func TestPilotChoiceBiasIsBelowStandardError(t *testing.T) {
	t.Parallel()
	const audits, all, bound, deviation = 40_000, 2_000_000, 0.0283, 0.0005
	for _, share := range []float64{0.02, 0.0105, 199.0 / 20_000, 0.009, 199.0 / 200_000, 0.0005} {
		source := rand.NewPCG(7, math.Float64bits(share))
		bias := 0.0
		for range audits {
			bias += (simulatedRank(share, all, source) - share*all - 1) / (share * all) / audits
		}
		if math.Abs(bias) > bound+6*deviation {
			t.Errorf("a canary above %v of the references: its rank is off by %.4f of itself on average; want at most %.4f", share, bias, bound)
		}
	}
}

// simulatedRank is the rank that the ladder of pilots gives a canary, where the
// references at or below it are a Poisson process of the given share.
func simulatedRank(share float64, all int, source rand.Source) float64 {
	hits, drawn := 0.0, 0
	for _, pilot := range pilotSizes {
		hits += distuv.Poisson{Lambda: share * float64(pilot-drawn), Src: source}.Rand()
		drawn = pilot
		if hits >= minPilotHits {
			rank, _ := estimate(int64(hits), pilot, all)
			return float64(rank)
		}
	}
	return 1 + hits + distuv.Poisson{Lambda: share * float64(all-drawn), Src: source}.Rand()
}
