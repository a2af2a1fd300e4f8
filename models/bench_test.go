package models

import (
	"slices"
	"testing"

	"coalmine/internal/seeds"
)

var benchmarkSizes = []struct {
	name                         string
	vocabulary, embedding, units int
}{
	{"small", 2000, 64, 128},
	{"paper", 10004, 96, 670}, // Thakkar et al. (2020), section 4.1
}

// report prints the speed over matrix products, which bound it from above.
func report(b *testing.B, tokens int, flops float64) {
	n := float64(tokens) * float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(n*flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkGradient takes gradients on batches of 16 sentences of 20 targets.
func BenchmarkGradient(b *testing.B) {
	for _, size := range benchmarkSizes {
		lengths := slices.Repeat([]int{21}, 16)
		b.Run(size.name, func(b *testing.B) { benchmarkGradient(b, size.vocabulary, size.embedding, size.units, lengths) })
	}
}

// BenchmarkGradientMixed has sentences of 2 to 21 tokens; tokens are real ones.
func BenchmarkGradientMixed(b *testing.B) {
	rng := testRand(1)
	lengths := make([]int, 16)
	for i := range lengths {
		lengths[i] = 2 + rng.IntN(20)
	}
	for _, size := range benchmarkSizes {
		b.Run(size.name, func(b *testing.B) { benchmarkGradient(b, size.vocabulary, size.embedding, size.units, lengths) })
	}
}

func benchmarkGradient(b *testing.B, vocabulary, embedding, units int, lengths []int) {
	m := mustNew(b, vocabulary, embedding, units)
	params, gradient := m.Init(seeds.Stream(1, seeds.Weights)), make([]float32, m.Parameters())
	sentences, trainer := sentencesOf(testRand(2), vocabulary, lengths...), m.NewTrainer()
	var loss Loss
	for b.Loop() {
		var err error
		if loss, err = trainer.Gradient(params, sentences, gradient); err != nil {
			b.Fatal(err)
		}
	}
	report(b, loss.Tokens, m.TrainingFLOPs())
}

// BenchmarkScoring steps 1,024 states and scores one target each.
func BenchmarkScoring(b *testing.B) {
	const n = 1024
	for _, size := range benchmarkSizes {
		b.Run(size.name, func(b *testing.B) {
			m := mustNew(b, size.vocabulary, size.embedding, size.units)
			scorer := mustScorer(b, m, m.Init(seeds.Stream(1, seeds.Weights)))
			states, logProbs := scorer.Start(n), make([]float32, n)
			tokens := sentencesOf(testRand(3), size.vocabulary, n)[0]
			for b.Loop() {
				check(b, scorer.Step(states, tokens))
				check(b, scorer.LogProbs(states, tokens, logProbs))
			}
			report(b, n, m.ScoringFLOPs())
		})
	}
}
