package randomsampling

import (
	"math"
	"runtime"
	"testing"

	"coalmine/internal/goroutines"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/text"
)

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
