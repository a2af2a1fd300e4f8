package privacy_test

import (
	"testing"

	"coalmine/privacy"
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
