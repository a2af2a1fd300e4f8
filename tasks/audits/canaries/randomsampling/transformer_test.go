package randomsampling

import (
	"math"
	"testing"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
)

// BenchmarkRankByATransformer counts, exactly and on one core, the references among a million of four
// words after a prefix of one that are at most as surprising as a canary: one of rare words, which
// requires a walk of all branches, one of common words, and one of words that the model expects. The model has 4
// blocks of width 256, initial weights, and the frequencies of Zipf's law in its output biases.
func BenchmarkRankByATransformer(b *testing.B) {
	const vocabulary, references = 10_004, 1_000_000
	m, err := models.New(models.Config{Kind: models.Transformer, Vocabulary: vocabulary, Embedding: 256, Units: 1024, Layers: 4, Heads: 8})
	if err != nil {
		b.Fatal(err)
	}
	params := m.Init(seeds.Stream(1, seeds.Weights))
	tensors := m.Tensors()
	for w, bias := 0, tensors[len(tensors)-1].View(params); w < vocabulary; w++ {
		bias[w] = -float32(math.Log(float64(w + 1)))
	}
	scorer, err := m.NewScorer(params)
	if err != nil {
		b.Fatal(err)
	}
	tables := scorer.Tabulate()
	drawn := drawnFrom(canaries.Space{Words: 4}, 1, references, vocabulary-datasets.FirstWord, nil)
	all := drawn.first(references)
	for name, words := range map[string][]int32{"rare": {9000, 8000, 7000, 6000}, "common": {2000, 1000, 500, 1500}, "memorized": {10, 20, 30, 40}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				tree := tables.NewTreeScorer()
				state, err := audits.PrefixState(scorer, []int32{4})
				if err != nil {
					b.Fatal(err)
				}
				cost, err := audits.LogPerplexity(tree, state, words)
				if err != nil {
					b.Fatal(err)
				}
				bounds, err := newDepthBounds(tables, state, all)
				if err != nil {
					b.Fatal(err)
				}
				within, err := newRanker(tree, all).count(b.Context(), bounds, cost)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(within+1), "rank")
				b.ReportMetric(float64(tree.Work().Advanced), "states")
			}
		})
	}
}
