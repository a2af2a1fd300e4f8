package privacy_test

import (
	"testing"

	"coalmine/privacy"
	"coalmine/privacy/correlated"
)

// One call of the accountant, as coalmine account makes it. It should take less
// than 50 ms; measured, not asserted, since machines differ.
func BenchmarkAccount(b *testing.B) {
	b.Run("loss distribution", func(b *testing.B) {
		recipe := tenEpochs()
		recipe.Sampling, recipe.LossDistribution = privacy.Poisson, true
		for b.Loop() {
			account(b, recipe)
		}
	})
	for _, sampling := range samplings() {
		b.Run(string(sampling), func(b *testing.B) {
			recipe := tenEpochs()
			recipe.Sampling = sampling
			for b.Loop() {
				account(b, recipe)
			}
		})
	}
}

// The number of rounds that a budget allows, as a training with a budget asks once: with correlated
// noise each guess computes a sensitivity.
func BenchmarkRoundsWithin(b *testing.B) {
	recipe := ftrl(&correlated.Mechanism{Kind: correlated.KindBLT, Scales: []float64{0.1, 0.3}, Decays: []float64{0.99, 0.7}})
	for name, rounds := range map[string]int{"2,000 rounds": 2000, "500,000 rounds": 500_000} {
		b.Run(name, func(b *testing.B) {
			recipe.Rounds = rounds
			budget := privacy.Budget{Epsilon: 1.0001 * float64(account(b, recipe).EpsilonProved), Delta: recipe.Delta}
			for b.Loop() {
				if n, err := privacy.CalibrateRounds(recipe, budget); err != nil || n < rounds {
					b.Fatal(n, err)
				}
			}
		})
	}
}
