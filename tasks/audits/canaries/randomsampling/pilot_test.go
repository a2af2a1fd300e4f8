package randomsampling

import (
	"math"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
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

	var list []datasets.Placement
	var hits, ranks []int
	for _, at := range []int{0, enough / 2, enough - 4, enough - 3, enough - 2, enough - 1, enough, enough + 1, 10 * enough, pilot - 1} {
		limit := ascending[at]
		words := drawn.row(slices.Index(costs, limit))
		list = append(list, datasets.Placement{Canary: datasets.Canary{Tokens: slices.Concat(prefix, words)}})
		hits, ranks = append(hits, atMost(ascending, limit)), append(ranks, 1+atMost(costs, limit))
	}
	if !slices.Contains(hits, enough) || !slices.ContainsFunc(hits, func(n int) bool { return n == enough-1 || n == enough-2 }) {
		t.Fatalf("the canaries have %v hits: none is just below %d, or none has as many", hits, enough)
	}
	sampling := newSampling(&Params{References: all, Prefix: len(prefix)}, list, scorer.Tabulate(), drawn.nested())
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
	})
	for hits, want := range map[int64]int{0: 2, 9: 2, 10: 1, 19: 1} {
		if got := s.after(0, hits); got != want {
			t.Errorf("after %d hits in the first pilot set %d is walked, want %d", hits, got, want)
		}
	}
	if got := s.after(1, 150); got != 2 {
		t.Errorf("after the second pilot set %d is walked, want all references", got)
	}
}

func TestASortedSetKnowsTheDrawsOfItsSequences(t *testing.T) {
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
