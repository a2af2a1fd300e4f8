package enumeration

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// costAlone scores a sequence by itself, token by token, with Scorer alone.
func costAlone(t testing.TB, s *models.Scorer, prefix, words []int32) float64 {
	t.Helper()
	state := must.Get(audits.PrefixState(s, prefix))(t)
	sum, logProb := 0.0, make([]float32, 1)
	for _, w := range words {
		must.Do(t, errors.Join(s.LogProbs(state, []int32{w}, logProb), s.Step(state, []int32{w})))
		sum += audits.Surprisal(logProb[0])
	}
	return sum
}

// eachSequence calls f with every sequence of the choices, in lexicographic order.
func eachSequence(choices [][]int32, f func(words []int32)) {
	words := make([]int32, len(choices))
	var extend func(at int)
	extend = func(at int) {
		if at == len(choices) {
			f(words)
			return
		}
		for _, words[at] = range choices[at] {
			extend(at + 1)
		}
	}
	extend(0)
}

// Ranks are those of scoring every sequence alone: with any number of canaries, prefixes
// and parts of the space, ties included, which a model of zeros has everywhere.
func TestRanksEqualBruteForce(t *testing.T) {
	t.Parallel()
	const vocabulary = text.FirstWord + 5
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(models.Kinds()).Draw(rt, "kind")
		layers := rapid.IntRange(1, 2).Draw(rt, "layers")
		scale := rapid.SampledFrom([]float32{0, 1, 6}).Draw(rt, "scale")
		scorer := auditstest.RandomScorer(t, models.Config{Kind: kind, Vocabulary: vocabulary, Embedding: 5, Units: 6, Layers: layers, Untied: true, Projection: 4}, rapid.Uint64().Draw(rt, "seed"), scale)
		choices := canaries.Space{Words: rapid.IntRange(1, 4).Draw(rt, "length")}.Choices(5)
		word := rapid.Int32Range(text.FirstWord, vocabulary-1)
		prefix := rapid.SliceOfN(word, 1, 1)
		var list []population.Placement
		for range rapid.IntRange(1, 5).Draw(rt, "canaries") {
			suffix := rapid.SliceOfN(word, len(choices), len(choices)).Draw(rt, "canary")
			list = append(list, population.Placement{Canary: population.Canary{Tokens: append(prefix.Draw(rt, "prefix"), suffix...)}})
		}
		got := tallies(t, scorer, choices, list, rapid.IntRange(1, 700).Draw(rt, "sequences a part"))
		for i, c := range list {
			own, rank := costAlone(t, scorer, c.Tokens[:1], c.Tokens[1:]), int64(0)
			eachSequence(choices, func(words []int32) {
				if costAlone(t, scorer, c.Tokens[:1], words) <= own {
					rank++
				}
			})
			if want := (Tally{own, rank}); got[i] != want {
				rt.Fatalf("canary %v: %+v, brute force %+v", c.Tokens, got[i], want)
			}
		}
	})
}

// tallies are those of all sequences, counted in parts.
func tallies(t testing.TB, scorer *models.Scorer, choices [][]int32, list []population.Placement, aPart int) []Tally {
	t.Helper()
	s, tree := newSpace(choices), scorer.Tabulate().NewTreeScorer()
	sums := make([]Tally, len(list))
	for _, span := range audits.Split(s.below[0], aPart) {
		c := &counter{s, span, tree, make([]Tally, len(list))}
		for _, group := range audits.ByPrefix(list, 1) {
			must.Do(t, c.count(t.Context(), list, group))
		}
		for i, tally := range c.tallies {
			sums[i] = Tally{tally.LogPerplexity, sums[i].AtMost + tally.AtMost}
		}
	}
	return sums
}

// More states than a block has, and more edges: the numbers are those of single sequences
// still, and pruning leaves out none that counts.
func TestBlocksAndPruningChangeNoCost(t *testing.T) {
	t.Parallel()
	const words = 60
	scorer := auditstest.RandomScorer(t, models.Config{Kind: models.LSTM, Vocabulary: text.FirstWord + words, Embedding: 6, Units: 8, Layers: 2, Projection: models.Unprojected, Untied: true}, 5, 6)
	s, tree := newSpace(canaries.Space{Words: 3}.Choices(words)), scorer.Tabulate().NewTreeScorer()
	prefix := []int32{9}
	state := must.Get(audits.PrefixState(scorer, prefix))(t)
	all := func(limit float64) (costs []float64) {
		must.Do(t, s.enumerate(t.Context(), tree, audits.Span{Count: s.below[0]}, state, limit, func(cost float64) { costs = append(costs, cost) }))
		return costs
	}
	whole := all(math.Inf(1))
	if len(whole) != words*words*words {
		t.Fatalf("%d sequences, want %d", len(whole), words*words*words)
	}
	number := 0
	eachSequence(s.choices, func(sequence []int32) {
		if number%997 == 0 {
			if want := costAlone(t, scorer, prefix, sequence); whole[number] != want {
				t.Errorf("sequence %d costs %v, alone %v", number, whole[number], want)
			}
		}
		number++
	})
	limit := slices.Sorted(slices.Values(whole))[len(whole)/50]
	advanced := tree.Work().Advanced
	pruned := all(limit)
	want := slices.DeleteFunc(slices.Clone(whole), func(cost float64) bool { return cost > limit })
	if !slices.Equal(pruned, want) {
		t.Errorf("%d sequences within the limit, want %d", len(pruned), len(want))
	}
	if visited := tree.Work().Advanced - advanced; visited >= words+words*words {
		t.Errorf("%d states were computed: nothing was pruned", visited)
	}
}

func TestSequencesOfAFormatKeepItsFixedBytes(t *testing.T) {
	t.Parallel()
	pin := canaries.Space{Words: 9, Alphabet: canaries.Digits, Format: "no ##-#.!"}
	s := newSpace(pin.Choices(text.Bytes)[3:])
	if s.below[0] != 1000 || float64(s.below[0]) != pin.Sequences(text.Bytes, 3) {
		t.Errorf("%d sequences, want 1000", s.below[0])
	}
}

// A model of NaN has no costs to compare.
func TestEnumerationRejectsNonFiniteModel(t *testing.T) {
	t.Parallel()
	scorer := auditstest.RandomScorer(t, models.Config{Kind: models.LSTM, Vocabulary: 12, Embedding: 3, Units: 4}, 1, float32(math.NaN()))
	s, tree := newSpace(canaries.Space{Words: 2}.Choices(8)), scorer.Tabulate().NewTreeScorer()
	err := s.enumerate(t.Context(), tree, audits.Span{Count: 64}, scorer.Start(1), math.Inf(1), func(float64) { t.Error("a sequence has a cost") })
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "log-perplexity of a sequence") {
		t.Errorf("got %v", err)
	}
}

// A held-back canary is ranked, and trips no gate: here it has the highest exposure.
func TestHighestExposureIgnoresHeldBackCanaries(t *testing.T) {
	t.Parallel()
	for want, insertions := range map[string][]int{"3": {5, 0, 1}, "null": {0, 0, 0}} {
		g := taskstest.NewGraph(t)
		list := make([]population.Placement, len(insertions))
		for i, n := range insertions {
			list[i] = population.Placement{Canary: population.Canary{Number: i, Tokens: []int32{7}, Words: []string{"a"}, HeldBack: n == 0}, Insertions: n}
		}
		given := auditstest.Canaries(t, g, list)
		part := g.Put("part", map[string][]byte{TalliesBlob: []byte(`[{"at_most": 8}, {"at_most": 1}, {"at_most": 4}]`)})
		summary := g.Run(Summary, SummaryParams{Parts: 1, Sequences: 32}, taskstest.In(audits.PlacementsInput, given), taskstest.In(tasks.PartInput(0), part))
		var metrics struct {
			Highest *float64 `json:"enumeration_highest_exposure"`
		}
		summary.DecodeMetrics(&metrics)
		if got := string(must.Get(json.Marshal(metrics.Highest))(t)); got != want {
			t.Errorf("inserted %v times: the highest exposure is %s bits, want %s", insertions, got, want)
		}
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	list := auditstest.Pair()
	for i := range list {
		list[i].Tokens, list[i].Words = list[i].Tokens[:3], list[i].Words[:3]
	}
	model, given := auditstest.Untrained(g, 40), auditstest.Canaries(t, g, list)
	inputs := []taskstest.Edge{taskstest.In(audits.PlacementsInput, given)}
	var parts []*taskstest.Node
	for i, span := range audits.Split(36*36, 700) {
		part := g.Run(Kind, Params{Space: canaries.Space{Words: 3}, Prefix: 1, First: span.First, Count: span.Count},
			taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
		parts = append(parts, part)
		inputs = append(inputs, taskstest.In(tasks.PartInput(i), part))
	}
	taskstest.Golden(t, parts...)
	summary := g.Run(Summary, SummaryParams{Parts: 2, Sequences: 36 * 36}, inputs...)
	taskstest.Golden(t, summary)
	v, outcomes := auditstest.Summarized[Outcome, CanaryOutcome](t, summary)
	if len(outcomes) != 2 || v.Of != 1 || v.Sequences != 36*36 || (v.Memorized == 1) != (*outcomes[0].Rank == 1) {
		t.Errorf("outcome %+v of outcomes %+v", v, outcomes)
	}
}

// byteScorer is an untrained byte model with weights times scale.
func byteScorer(t testing.TB, units int, scale float32) *models.Scorer {
	t.Helper()
	return auditstest.RandomScorer(t, models.Config{Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 32, Units: units, Layers: 2, Projection: models.Unprojected, Untied: true}, 1, scale)
}

// Every number of digits after a prefix, on the byte model of Carlini et al. 2019. The
// sequences per second are of one core. Half of the sequences are within the limit where
// branches are pruned, as with a canary of the median cost.
func BenchmarkEnumeration(b *testing.B) {
	tree := byteScorer(b, 200, 1).Tabulate().NewTreeScorer()
	state := must.Get(audits.PrefixState(tree.Scorer(), []int32{100, 101}))(b)
	s := newSpace(canaries.Space{Words: 6, Alphabet: canaries.Digits, Format: "######"}.Choices(text.Bytes))
	n := 0
	for b.Loop() {
		must.Do(b, s.enumerate(context.Background(), tree, audits.Span{Count: s.below[0]}, state, math.Inf(1), func(float64) { n++ }))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "sequences/s")
	b.ReportMetric(float64(tree.Work().Advanced)/b.Elapsed().Seconds(), "states/s")
	b.ReportMetric(tree.Work().FLOPs/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
