package randomsampling

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/goroutines"
	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// testScorer is an untrained model with weights large enough that its
// predictions are far from uniform.
func testScorer(t *testing.T, vocabulary int, seed uint64) *models.Scorer {
	t.Helper()
	return auditstest.RandomScorer(t, models.Config{Kind: models.CIFGLSTM, Vocabulary: vocabulary, Embedding: 7, Units: 9}, seed, 4)
}

// randomModels are small models of every kind.
func randomModels(vocabulary int) []models.Config {
	var all []models.Config
	for _, kind := range models.Kinds() {
		all = append(all,
			models.Config{Kind: kind, Vocabulary: vocabulary, Embedding: 7, Units: 9},
			models.Config{Kind: kind, Vocabulary: vocabulary, Embedding: 5, Units: 8, Projection: 6, Untied: true, Layers: 2},
			models.Config{Kind: kind, Vocabulary: vocabulary, Embedding: 4, Units: 6, Projection: models.Unprojected, Untied: true, Layers: 3},
		)
	}
	return append(all, models.Config{Kind: models.Transformer, Vocabulary: vocabulary, Embedding: 6, Units: 9, Layers: 2, Heads: 3})
}

// bruteForceCosts scores every word of every reference, with Scorer alone.
func bruteForceCosts(t *testing.T, s *models.Scorer, prefix []int32, r *References) []float64 {
	t.Helper()
	n := r.Count()
	states, words, logProbs, costs := s.Start(n), make([]int32, n), make([]float32, n), make([]float64, n)
	step := func(word func(i int) int32) {
		for i := range words {
			words[i] = word(i)
		}
		if err := s.Step(states, words); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range append([]int32{text.Begin}, prefix...) {
		step(func(int) int32 { return w })
	}
	for depth := range r.length {
		next := func(i int) int32 { return r.row(i)[depth] }
		for i := range words {
			words[i] = next(i)
		}
		must.Do(t, s.LogProbs(states, words, logProbs))
		for i, lp := range logProbs {
			costs[i] += max(0, -float64(lp))
		}
		step(next)
	}
	return costs
}

// The vocabularies are such that all tokens, or only some, are singletons
// in the bounds; the numbers of words such that states are shared by many
// references or by few.
func TestPrunedCountEqualsBruteForce(t *testing.T) {
	t.Parallel()
	for _, vocabulary := range []int{30, 900} {
		for i, config := range randomModels(vocabulary) {
			t.Run(fmt.Sprintf("%s %d layers vocabulary %d", config.Kind, max(1, config.Layers), vocabulary), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(rt *rapid.T) {
					seed := rapid.Uint64().Draw(rt, "seed")
					length := rapid.IntRange(1, 5).Draw(rt, "length")
					ordinary := rapid.SampledFrom([]int{3, 12, vocabulary - text.FirstWord}).Draw(rt, "ordinary")
					s := auditstest.RandomScorer(t, config, seed, rapid.Float32Range(0.2, 6).Draw(rt, "scale"))
					drawn := drawnFrom(canaries.Space{Words: length}, seed, 60, ordinary, nil)
					prefix := []int32{text.FirstWord + int32(i)}
					costs := bruteForceCosts(t, s, prefix, drawn)
					tables := s.Tabulate()
					sorted := drawn.first(drawn.Count())
					r := newRanker(tables, length, goroutines.NewCores(rapid.IntRange(0, 2).Draw(rt, "cores")))
					// Limits that equal a reference's own cost test the comparison to the last bit.
					for _, limit := range []float64{costs[0], costs[1], costs[2], slices.Min(costs), slices.Max(costs), 0} {
						want := int64(0)
						for _, c := range costs {
							if c <= limit {
								want++
							}
						}
						state := must.Get(audits.PrefixState(s, prefix))(t)
						bounds := must.Get(newDepthBounds(tables, state, sorted))(t)
						if got, err := r.count(t.Context(), sorted, bounds, limit); err != nil || got != want {
							rt.Fatalf("limit %v: counted %d references (%v), brute force %d", limit, got, err, want)
						}
					}
				})
			})
		}
	}
}

// There are enough references for several goroutines.
func TestCountAndWorkDoNotDependOnTheCores(t *testing.T) {
	t.Parallel()
	for _, config := range []models.Config{
		{Kind: models.CIFGLSTM, Vocabulary: 40, Embedding: 7, Units: 9},
		{Kind: models.Transformer, Vocabulary: 40, Embedding: 6, Units: 9, Layers: 2, Heads: 3},
	} {
		s := auditstest.RandomScorer(t, config, 3, 4)
		drawn := drawnFrom(canaries.Space{Words: 3}, 9, 40_000, 36, nil)
		prefix := []int32{text.FirstWord}
		costs := bruteForceCosts(t, s, prefix, drawn)
		sorted, state, tables := drawn.first(drawn.Count()), must.Get(audits.PrefixState(s, prefix))(t), s.Tabulate()
		for _, limit := range []float64{costs[0], slices.Max(costs)} {
			var alone models.Work
			for cores := range 3 {
				r := newRanker(tables, sorted.length, goroutines.NewCores(cores))
				n := must.Get(r.count(t.Context(), sorted, must.Get(newDepthBounds(tables, state, sorted))(t), limit))(t)
				work := (&Sampling{ranker: r}).Work()
				if cores == 0 {
					alone = work
				}
				if n != int64(atMost(costs, limit)) || work != alone {
					t.Errorf("%s on %d more cores: %d references by %+v, brute force %d, one core %+v", config.Kind, cores, n, work, atMost(costs, limit), alone)
				}
			}
		}
	}
}

func TestPortionsOfBranchesAreBounded(t *testing.T) {
	t.Parallel()
	var branches []branch
	for _, n := range append([]int{portionReferences + 1, 1, portionReferences - 1}, slices.Repeat([]int{1}, blockStates+2)...) {
		first := 0
		if len(branches) > 0 {
			first = branches[len(branches)-1].end
		}
		branches = append(branches, branch{first: first, end: first + n})
	}
	portions := portionsOf(branches)
	sizes := lists.Map(portions, func(p []branch) int { return len(p) })
	if !slices.Equal(sizes, []int{1, 2, blockStates, 2}) || !slices.Equal(slices.Concat(portions...), branches) {
		t.Errorf("portions of %v branches", sizes)
	}
}

func TestReferencesExcludeTheCanariesAndNest(t *testing.T) {
	t.Parallel()
	all := drawnFrom(canaries.Space{Words: 2}, 3, 5000, 20, nil)
	excluded := [][]int32{all.row(0), all.row(77)}
	left := drawnFrom(canaries.Space{Words: 2}, 3, 5000, 20, excluded)
	for i := range left.Count() {
		if contains(excluded, left.row(i)) {
			t.Fatalf("reference %d is a canary", i)
		}
	}
	small := drawnFrom(canaries.Space{Words: 2}, 3, 100, 20, nil)
	if !slices.Equal(small.tokens, all.tokens[:200]) {
		t.Error("a smaller set is not the beginning of a larger one")
	}
}

func TestReferenceWordsAreUniform(t *testing.T) {
	t.Parallel()
	// Chi-squared with 9 degrees of freedom over 20,000 draws: above 35.6 with
	// probability 0.00005 if the words are uniform. The seed is fixed.
	r := drawnFrom(canaries.Space{Words: 2}, 11, 10_000, 10, nil)
	var counts [10]float64
	for _, w := range r.tokens {
		counts[w-text.FirstWord]++
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
	const count = 12
	tables := testScorer(t, 30, 5).Tabulate()
	p := Params{References: 60_000, Space: canaries.Space{Words: 4}, Prefix: 1}
	drawn := drawnFrom(canaries.Space{Words: 3}, 9, p.References, 26, nil)
	var list []population.Placement
	for i := range count {
		list = append(list, population.Placement{Canary: population.Canary{Tokens: append([]int32{text.FirstWord}, drawn.row(i)...)}})
	}
	quick := newSampling(&p, list, tables, drawn.nested(), goroutines.NewCores(1))
	p.Exact = true
	exact := newSampling(&p, list, tables, drawn.nested(), nil)
	estimated := 0
	for i := range count {
		e := must.Get(exact.Rank(t.Context(), i))(t)
		q := must.Get(quick.Rank(t.Context(), i))(t)
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

// The smallest pilot with enough hits decides, in any order, also after a pilot
// without hits.
func TestTheSmallestPilotWithEnoughHitsDecides(t *testing.T) {
	t.Parallel()
	tables := testScorer(t, 30, 5).Tabulate()
	drawn := drawnFrom(canaries.Space{Words: 3}, 9, 3000, 26, nil)
	list := []population.Placement{{Canary: population.Canary{Tokens: append([]int32{text.FirstWord}, drawn.row(0)...)}}}
	costs := bruteForceCosts(t, tables.Scorer(), list[0].Tokens[:1], drawn)
	pick := func(most int, hit bool) (picked References) {
		picked.length = drawn.length
		for i, c := range costs {
			if (c <= costs[0]) == hit && picked.Count() < most {
				picked.tokens = append(picked.tokens, drawn.row(i)...)
			}
		}
		return picked
	}
	hits, misses := pick(300, true), pick(300, false)
	all := References{length: drawn.length, tokens: slices.Concat(misses.tokens, hits.tokens)}
	sets := []*References{misses.first(100), all.first(misses.Count() + minPilotHits), all.first(all.Count())}
	got, err := newSampling(&Params{Prefix: 1}, list, tables, sets, nil).Rank(t.Context(), 0)
	if want, _ := estimate(minPilotHits, sets[1].Count(), all.Count()); err != nil || got.Exact || got.Rank != want {
		t.Errorf("%+v (%v), want the rank %d by the second pilot", got, err, want)
	}
	sets[1] = all.first(misses.Count() + minPilotHits - 1)
	got, err = newSampling(&Params{Prefix: 1}, list, tables, sets, nil).Rank(t.Context(), 0)
	if err != nil || !got.Exact || got.Rank != int64(1+hits.Count()) {
		t.Errorf("%+v (%v), want the exact rank %d: no pilot has enough hits", got, err, 1+hits.Count())
	}
}

// manyCanaries are placements whose costs are spread over those of the references.
func manyCanaries(n, ordinary int) []population.Placement {
	list, space := make([]population.Placement, n), canaries.Space{Words: 4}
	for i, rng := 0, rand.New(rand.NewPCG(8, 8)); i < n; i++ {
		tokens := make([]int32, 4)
		space.Sampler(space.Choices(ordinary), 0)(rng, tokens)
		list[i] = population.Placement{Canary: population.Canary{Number: i, Tokens: tokens}, Insertions: 1}
	}
	return list
}

// ranksOf runs the audit of n canaries in tasks of count canaries each.
func ranksOf(t *testing.T, n, count int) []Rank {
	t.Helper()
	const vocabulary = 800
	g := taskstest.NewGraph(t)
	model := g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{
		Kind: models.GRU, Vocabulary: vocabulary, Embedding: 6, Units: 9, Layers: 2,
	}})
	list := auditstest.Canaries(t, g, manyCanaries(n, vocabulary-text.FirstWord))
	var all []Rank
	for first := 0; first < n; first += count {
		node := g.Run(Kind, Params{Seed: 1, References: 500, Space: canaries.Space{Words: 4}, Prefix: 1, First: first, Count: count},
			taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, list))
		var ranks []Rank
		must.Do(t, json.Unmarshal(node.Blob(RanksBlob), &ranks))
		all = append(all, ranks...)
	}
	return all
}

func TestRanksDoNotDependOnTheTasksThatFindThem(t *testing.T) {
	t.Parallel()
	const n = 12
	want := ranksOf(t, n, n)
	for _, count := range []int{1, 4} {
		if got := ranksOf(t, n, count); !slices.Equal(got, want) {
			t.Errorf("tasks of %d canaries rank them %+v, one task %+v", count, got, want)
		}
	}
}

// Not parallel: it changes the kernels of the whole process.
func TestRanksDoNotDependOnTheKernelSet(t *testing.T) {
	const n = 4
	want := ranksOf(t, n, n)
	for _, name := range kernels.Sets() {
		restore := must.Get(kernels.ForceSet(name))(t)
		got := ranksOf(t, n, n)
		restore()
		if !slices.Equal(got, want) {
			t.Errorf("kernels %s rank them %+v, kernels %s %+v", name, got, kernels.Set(), want)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model, given := auditstest.Untrained(g, 40), auditstest.Canaries(t, g, auditstest.Pair())
	sampling := g.Run(Kind, Params{Seed: 1, References: 300, Space: canaries.Space{Words: 4}, Prefix: 1, Count: 2},
		taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
	taskstest.Golden(t, sampling)
	summary := g.Run(Summary, SummaryParams{Parts: 1, References: 300},
		taskstest.In(audits.PlacementsInput, given), taskstest.In(tasks.PartInput(0), sampling))
	taskstest.Golden(t, summary)
	v, outcomes := auditstest.Summarized[Outcome, CanaryOutcome](t, summary)
	if len(outcomes) != 2 || v.Of != 1 || v.References != 300 || (v.Memorized == 1) != *outcomes[0].Memorized {
		t.Errorf("outcome %+v of outcomes %+v", v, outcomes)
	}
}

// drawnFrom draws sequences of a space, out of the given number of ordinary tokens.
func drawnFrom(space canaries.Space, seed uint64, count, ordinary int, excluded [][]int32) *References {
	return drawReferences(seed, count, space.Words, excluded, space.Sampler(space.Choices(ordinary), 0))
}

// A reference that costs as much as the canary stands before it. Where scores are known to
// a margin, one that costs up to twice that more may stand before the canary, and one that costs
// up to twice that less behind it.
func TestRanksCountTiesAndMargins(t *testing.T) {
	t.Parallel()
	// The canary costs 10, the margin is 0.5.
	costs := []float64{8.9, 9, 9.01, 10, 10.99, 11, 11.01}
	tally := newTally(10, 0.5)
	tally.add(costs)
	rank, interval := tally.rank(len(costs))
	if rank.Rank != 1+4 || interval != (Interval{1 + 2, 1 + 6}) {
		t.Errorf("rank %d in %+v, want 5 in 3 to 7", rank.Rank, interval)
	}
}

// BenchmarkRankByATransformer counts, exactly and on all processors (-cpu), the references among a million of four
// words after a prefix of one that are at most as surprising as a canary: one of rare words, which
// requires a walk of all branches, one of common words, and one of words that the model expects. The model has 4
// blocks of width 256, initial weights, and the frequencies of Zipf's law in its output biases.
func BenchmarkRankByATransformer(b *testing.B) {
	const vocabulary, references = 10_004, 1_000_000
	m := must.Get(models.New(models.Config{Kind: models.Transformer, Vocabulary: vocabulary, Embedding: 256, Units: 1024, Layers: 4, Heads: 8}))(b)
	params := m.Init(seeds.Stream(1, seeds.Weights))
	tensors := m.Tensors()
	for w, bias := 0, tensors[len(tensors)-1].View(params); w < vocabulary; w++ {
		bias[w] = -float32(math.Log(float64(w + 1)))
	}
	scorer := must.Get(m.NewScorer(params))(b)
	tables := scorer.Tabulate()
	drawn := drawnFrom(canaries.Space{Words: 4}, 1, references, vocabulary-text.FirstWord, nil)
	all := drawn.first(references)
	for name, words := range map[string][]int32{"rare": {9000, 8000, 7000, 6000}, "common": {2000, 1000, 500, 1500}, "memorized": {10, 20, 30, 40}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := newRanker(tables, all.length, goroutines.NewCores(runtime.GOMAXPROCS(0)-1))
				state := must.Get(audits.PrefixState(scorer, []int32{4}))(b)
				cost := must.Get(audits.LogPerplexity(b.Context(), r.walker(0).tree, state, words))(b)
				bounds := must.Get(newDepthBounds(tables, state, all))(b)
				within := must.Get(r.count(b.Context(), all, bounds, cost))(b)
				b.ReportMetric(float64(within+1), "rank")
				b.ReportMetric(float64((&Sampling{ranker: r}).Work().Advanced), "states")
			}
		})
	}
}

// Scores of canaries and references that are drawn alike: at least m canaries are ahead of
// all references if the first m of all are canaries, which has the probability
// n/(n+r) (n-1)/(n+r-1) ... The bound is above that, the binomial tail below.
func TestFirstByChanceExceedsBinomialTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ m, n, r int }{{1, 8, 1000}, {2, 6, 20}, {3, 8, 200_000}, {4, 90, 50}} {
		exact := 1.0
		for i := range c.m {
			exact *= float64(c.n-i) / float64(c.n+c.r-i)
		}
		bound, independent := firstByChance(c.m, c.n, c.r), audits.BinomialTail(c.m-1, c.n, 1/float64(c.r+1))
		if bound < exact || c.m > 1 && independent >= exact {
			t.Errorf("%+v: the bound %g and the binomial tail %g, want above and below %g", c, bound, independent, exact)
		}
	}
	if p := firstByChance(5, 4, 10); p != 0 {
		t.Errorf("5 of 4 canaries are first with probability %g", p)
	}
}

// Of 20,000 draws of 6 canaries and 20 references, about 923 (6/26 x 5/25) have two canaries
// or more in front, with a standard deviation of 30; the test fails by chance with 1e-9.
func TestFirstByChanceMatchesSimulation(t *testing.T) {
	t.Parallel()
	rng, hits := rand.New(rand.NewPCG(1, 2)), 0
	for range 20_000 {
		best, ahead := 1.0, 0
		for range 20 {
			best = min(best, rng.Float64())
		}
		for range 6 {
			if rng.Float64() < best {
				ahead++
			}
		}
		if ahead >= 2 {
			hits++
		}
	}
	if share := float64(hits) / 20_000; share < 923.0/20_000-0.009 || share > firstByChance(2, 6, 20) {
		t.Errorf("%d of 20000 have two canaries in front; want about 923, and at most a share of %g", hits, firstByChance(2, 6, 20))
	}
}
