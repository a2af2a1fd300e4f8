package audits

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/models"
	"coalmine/tasks/datasets"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// testScorer is an untrained model with weights large enough that its
// predictions are far from uniform.
func testScorer(t *testing.T, vocabulary int, seed uint64) *models.Scorer {
	t.Helper()
	m, err := models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: vocabulary, Embedding: 7, Units: 9})
	if err != nil {
		t.Fatal(err)
	}
	params := m.Init(rand.New(rand.NewPCG(seed, 1)))
	for i := range params {
		params[i] *= 4
	}
	s, err := m.NewScorer(params)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func cost(t *testing.T, s *models.Scorer, prefix, words []int32) float64 {
	t.Helper()
	state, err := prefixState(s, prefix)
	if err != nil {
		t.Fatal(err)
	}
	c, err := logPerplexity(s, state, words)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPrunedCountEqualsBruteForce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		length := 1 + int(seed)%4
		s := testScorer(t, 30, seed)
		drawn := drawReferences(seed, 700, length, 26, nil)
		r := newRanker(s, drawn.first(700))
		prefix := []int32{datasets.FirstWord + int32(seed)}
		var costs []float64
		for i := range drawn.Count() {
			costs = append(costs, cost(t, s, prefix, drawn.row(i)))
		}
		// Bounds that equal a reference's own cost test the comparison to the last bit.
		for _, bound := range []float64{costs[0], costs[1], slices.Min(costs), slices.Max(costs), 0} {
			want := int64(0)
			for _, c := range costs {
				if c <= bound {
					want++
				}
			}
			state, err := prefixState(s, prefix)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := r.count(t.Context(), state, bound); err != nil || got != want {
				t.Errorf("seed %d, length %d, bound %v: counted %d references (%v), brute force %d", seed, length, bound, got, err, want)
			}
		}
	}
}

func TestReferencesExcludeTheCanariesAndNest(t *testing.T) {
	t.Parallel()
	all := drawReferences(3, 5000, 2, 20, nil)
	excluded := [][]int32{all.row(0), all.row(77)}
	left := drawReferences(3, 5000, 2, 20, excluded)
	for i := range left.Count() {
		if contains(excluded, left.row(i)) {
			t.Fatalf("reference %d is a canary", i)
		}
	}
	small := drawReferences(3, 100, 2, 20, nil)
	if !slices.Equal(small.tokens, all.tokens[:200]) {
		t.Error("a smaller set is not the beginning of a larger one")
	}
}

func TestReferenceWordsAreUniform(t *testing.T) {
	t.Parallel()
	// Chi-squared with 9 degrees of freedom over 20,000 draws: above 35.6 with
	// probability 0.00005 if the words are uniform. The seed is fixed.
	r := drawReferences(11, 10_000, 2, 10, nil)
	var counts [10]float64
	for _, w := range r.tokens {
		counts[w-datasets.FirstWord]++
	}
	chi := 0.0
	for _, n := range counts {
		chi += (n - 2000) * (n - 2000) / 2000
	}
	if chi > 35.6 {
		t.Errorf("chi-squared %.1f of %v", chi, counts)
	}
}

func TestLargeRanksAreEstimatedWithinTheirError(t *testing.T) {
	t.Parallel()
	s := testScorer(t, 30, 5)
	p := &RandomSamplingParams{References: 60_000, Words: 4, Prefix: 1}
	drawn := drawReferences(9, p.References, 3, 26, nil)
	sets := &referenceSets{pilot: drawn.first(pilotSize), all: drawn.first(p.References)}
	exact := newSampling(&RandomSamplingParams{References: p.References, Words: 4, Prefix: 1, Exact: true}, s, sets)
	quick := newSampling(p, s, sets)
	estimated := 0
	for i := range 12 {
		words := append([]int32{datasets.FirstWord}, drawn.row(i)...)
		e, err := exact.rank(t.Context(), words)
		if err != nil {
			t.Fatal(err)
		}
		q, err := quick.rank(t.Context(), words)
		if err != nil {
			t.Fatal(err)
		}
		if q.Exact {
			if q != e {
				t.Errorf("canary %d: %+v, exactly %+v", i, q, e)
			}
			continue
		}
		estimated++
		// Five standard errors: a right program fails with probability below
		// 12 x 6e-7; the seed is fixed.
		if d := math.Abs(q.Exposure(p.References) - e.Exposure(p.References)); d > 5*q.ExposureError {
			t.Errorf("canary %d: exposure off by %.3f bits, its standard error is %.3f", i, d, q.ExposureError)
		}
	}
	if estimated == 0 {
		t.Error("no rank was large enough to be estimated: the test shows nothing")
	}
}

func TestWideBeamSearchFindsTheBestSequence(t *testing.T) {
	t.Parallel()
	const vocabulary = 14
	for seed := range uint64(5) {
		s := testScorer(t, vocabulary, seed)
		prefix := []int32{datasets.FirstWord + 2}
		best, err := beamSearch(s, prefix, 3, 100) // 10 words, 100 pairs: nothing is cut
		if err != nil {
			t.Fatal(err)
		}
		wantCost, want := math.Inf(1), []int32(nil)
		for i := range int32(1000) {
			words := []int32{4 + i/100, 4 + i/10%10, 4 + i%10}
			if c := cost(t, s, prefix, words); c < wantCost {
				wantCost, want = c, words
			}
		}
		if !slices.Equal(best.words, want) || best.cost != wantCost {
			t.Errorf("seed %d: found %v at %v, brute force %v at %v", seed, best.words, best.cost, want, wantCost)
		}
	}
}

func TestNarrowBeamIsGreedy(t *testing.T) {
	t.Parallel()
	s := testScorer(t, 14, 3)
	prefix := []int32{5}
	best, err := beamSearch(s, prefix, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	greedy := append([]int32(nil), prefix...)
	for range 3 {
		state, err := prefixState(s, greedy)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, 14)
		if err := s.LogProbRows(state, row); err != nil {
			t.Fatal(err)
		}
		word := int32(datasets.FirstWord)
		for w := word; int(w) < len(row); w++ {
			if row[w] > row[word] {
				word = w
			}
		}
		greedy = append(greedy, word)
	}
	if !slices.Equal(best.words, greedy[1:]) {
		t.Errorf("width 1 found %v, step by step the best words are %v", best.words, greedy[1:])
	}
}

func TestLowestIsByFrequencyThenUsers(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	result := func(pu, pe string, memorized *bool) CanaryResult {
		r, err := newResult(datasets.Placement{Canary: datasets.Canary{UserProbability: pu, ExampleProbability: pe}, Insertions: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.Memorized = memorized
		return r
	}
	a := Audit{Canaries: []CanaryResult{
		result("1/5000", "1/100", &yes), // 2e-6
		result("1/50000", "1/10", &yes), // 2e-6 too, fewer users
		result("1/50000", "1/100", &no), // lower, but not memorized
		result("3/50000", "1", &yes),
	}}
	n, lowest := a.count(func(c *CanaryResult) bool { return *c.Memorized })
	if want := (Configuration{UserProbability: 2e-5, ExampleProbability: 0.1}); n != 3 || *lowest != want {
		t.Errorf("%d memorized, lowest %+v; want 3 and %+v", n, *lowest, want)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model := g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{
		Kind: models.CIFGLSTM, Vocabulary: 40, Embedding: 6, Units: 9,
	}})
	list := []datasets.Placement{
		{Canary: datasets.Canary{Tokens: []int32{7, 9, 11, 30}, Words: []string{"a", "b", "c", "d"}, UserProbability: "1/10", ExampleProbability: "1"}, Users: 3, Holders: 2, Insertions: 5},
		{Canary: datasets.Canary{Number: 1, Tokens: []int32{8, 39, 4, 5}, Words: []string{"e", "f", "g", "h"}, HeldBack: true}},
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	canaries := g.Put("canaries", map[string][]byte{datasets.CanariesBlob: data})
	sampling := g.Run(RandomSampling, RandomSamplingParams{Seed: 1, References: 300, Words: 4, Prefix: 1, Count: 2},
		taskstest.In(ModelInput, model), taskstest.In(CanariesInput, canaries))
	beam := g.Run(BeamSearch, BeamSearchParams{Width: 3, Words: 4, Prefix: 1, Count: 2},
		taskstest.In(ModelInput, model), taskstest.In(CanariesInput, canaries))
	summary := g.Run(Summary, SummaryParams{SamplingParts: 1, References: 300, BeamParts: 1, BeamWidth: 3},
		taskstest.In(PlacementsInput, canaries), taskstest.In(SamplingInput(0), sampling), taskstest.In(BeamInput(0), beam))
	taskstest.Golden(t, sampling)
	taskstest.Golden(t, beam)
	taskstest.Golden(t, summary)
}
