package privacy

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// For every curve the search ends at the result of a linear scan, and fast if the curve is
// smooth.
func TestSearchMatchesLinearScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		over := rapid.IntRange(-5, 5).Draw(t, "over")
		first := over + rapid.IntRange(1, 1<<40).Draw(t, "first")
		within := first + rapid.IntRange(0, 1<<40).Draw(t, "beyond")
		shape := rapid.SampledFrom([]func(float64) float64{
			func(x float64) float64 { return x },
			math.Cbrt,
			func(x float64) float64 { return math.Sinh(x * 1e-9) },
			func(x float64) float64 { return math.Copysign(1, x) },
			func(x float64) float64 { return x * math.Inf(1) },
		}).Draw(t, "shape")
		calls := 0
		got := firstWithin(over, within, func(n int) float64 {
			if calls++; n <= over || n >= within {
				t.Fatalf("asked for %d, not between %d and %d", n, over, within)
			}
			return shape(float64(first) - 0.5 - float64(n))
		})
		if got != first || calls > 125 {
			t.Errorf("%d after %d calls, want %d", got, calls, first)
		}
	})
}

func TestEveryNoiseMultiplierOfSixDigitsHasAPlace(t *testing.T) {
	t.Parallel()
	for place, want := range map[int]float64{
		0: 1e-3, 1: 0.00100001, placesOfDecade - 1: 0.00999999, placesOfDecade: 0.01, 3 * placesOfDecade: 1,
		3*placesOfDecade + 139_227: 2.39227, 9 * placesOfDecade: 1e6, 9*placesOfDecade - 1: 999_999,
	} {
		if got := noiseAt(place); got != want {
			t.Errorf("place %d has noise %v, want %v", place, got, want)
		}
	}
}
