package empirical

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
)

func TestTheLatestCurvesAreRemembered(t *testing.T) {
	t.Parallel()
	c, curve := curves{of: map[privacy.Recipe]*privacy.TradeOff{}}, new(privacy.TradeOff)
	recipe := func(population int) privacy.Recipe { return privacy.Recipe{Population: population} }
	for n := range maxCurves + 1 {
		c.put(recipe(n), curve)
		c.put(recipe(n), new(privacy.TradeOff)) // by another goroutine
	}
	if c.get(recipe(0)) != nil || c.get(recipe(1)) != curve || c.get(recipe(maxCurves)) != curve || len(c.of) != maxCurves || len(c.oldest) != maxCurves {
		t.Errorf("%d curves by %d recipes, the first %v, the last %v", len(c.of), len(c.oldest), c.get(recipe(0)), c.get(recipe(maxCurves)))
	}
	mechanism := privacy.Recipe{Mechanism: new(correlated.Mechanism)}
	if c.put(mechanism, curve); c.get(mechanism) != nil {
		t.Error("a recipe is remembered whose mechanism may change")
	}
}

// A remembered curve is that of its recipe alone.
func TestARememberedCurveEqualsTheComputedOne(t *testing.T) {
	t.Parallel()
	recipe := privacy.Recipe{Population: 1000, Cohort: 100, Rounds: 7, NoiseMultiplier: 1.25, Sampling: privacy.Poisson}
	less := recipe
	less.NoiseMultiplier = 1
	for range 2 {
		for _, r := range []privacy.Recipe{recipe, less} {
			want := must.Get(privacy.NewTradeOff([]privacy.Recipe{r}))(t)
			r.ClipQuantile, r.Control, r.Delta, r.Unit = &privacy.ClipQuantile{}, privacy.NoNoise, 1e-5, "record"
			got := must.Get(CurveOf(r))(t)
			for _, power := range []float64{0.01, 0.3, 0.9} {
				if got(power) != want.At(1-power) {
					t.Errorf("noise multiplier %g, power %g: %g, want %g", r.NoiseMultiplier, power, got(power), want.At(1-power))
				}
			}
		}
	}
}
