package privacy

import (
	"fmt"
	"math"
)

// Noise that a calibration considers. Beyond the upper end no model learns.
const (
	leastNoise = 1e-3
	mostNoise  = 1e6
)

// CalibrateNoise returns the smallest noise multiplier, to six significant
// digits and rounded up, that keeps the recipe's rounds within the budget, but
// none far below 0.001. The recipe's own noise multiplier and delta play no
// part. With adaptive clipping it is the total, which the count noise must leave
// room for.
func CalibrateNoise(recipe Recipe, budget Budget) (float64, error) {
	recipe.NoiseMultiplier, recipe.Delta = 0, budget.Delta
	if err := validateBoth(recipe, budget); err != nil {
		return 0, err
	}
	adaptive := recipe.ClipQuantile
	recipe.ClipQuantile = nil // epsilon is that of the total, however it is shared
	fits := func(z float64) bool { return recipe.withNoise(z).within(budget) }
	high := 1.0
	for ; !fits(high); high *= 2 {
		if high > mostNoise {
			return 0, fmt.Errorf("epsilon %v at delta %v cannot be reached with %d rounds and the %s conversion, whatever the noise: "+
				"allow a larger epsilon or delta", budget.Epsilon, budget.Delta, recipe.Rounds, recipe.withDefaults().Conversion)
		}
	}
	low := high / 2
	for low > leastNoise && fits(low) {
		low, high = low/2, low
	}
	for high-low > 1e-7*high {
		if middle := (low + high) / 2; fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	z := roundUp(high)
	if adaptive != nil {
		if _, err := adaptive.UpdateNoise(z); err != nil {
			return 0, err
		}
	}
	return z, nil
}

// CalibrateRounds returns the most rounds that the recipe can run within the
// budget. The recipe's own rounds and delta play no part. It is an error when
// not even one round fits.
func CalibrateRounds(recipe Recipe, budget Budget) (int, error) {
	recipe.Delta = budget.Delta
	if err := validateBoth(recipe, budget); err != nil {
		return 0, err
	}
	meter, err := NewMeter(recipe)
	if err != nil {
		return 0, err
	}
	rounds := budget.RoundsWithin(meter)
	if rounds == 0 {
		return 0, fmt.Errorf("one round costs epsilon %s at delta %v, more than the %v allowed: raise the noise multiplier or lower the cohort",
			Epsilon(meter.EpsilonProved(1, budget.Delta)), budget.Delta, budget.Epsilon)
	}
	return rounds, nil
}

// ScaleUp returns the recipe at a larger population and cohort with the noise
// on the mean update left as it was, so that the model is as useful as in a
// small simulation: the noise multiplier grows with the cohort (McMahan et al.
// 2018, section 3; Augenstein et al. 2020, section 6.3). A simulation with a
// cohort of 10 and a noise multiplier of 0.01 becomes one of 1,000 and 1. The
// noise on the count of adaptive clipping grows likewise.
func ScaleUp(simulation Recipe, population, cohort int) Recipe {
	scaled := simulation
	scaled.Population, scaled.Cohort = population, cohort
	scaled.NoiseMultiplier = simulation.NoiseMultiplier * float64(cohort) / float64(simulation.Cohort)
	if q := simulation.ClipQuantile; q != nil {
		larger := *q
		larger.CountNoise = q.CountNoise * float64(cohort) / float64(simulation.Cohort)
		scaled.ClipQuantile = &larger
	}
	return scaled
}

// CalibrateCohort returns the smallest cohort that keeps the recipe within the
// budget when the noise multiplier grows with the cohort as in ScaleUp, at the
// recipe's population. The recipe's cohort and noise multiplier are those of
// the simulation, its delta plays no part. It is an error when even the whole
// population is not enough.
func CalibrateCohort(simulation Recipe, population int, budget Budget) (int, error) {
	simulation.Delta = budget.Delta
	if err := validateBoth(simulation, budget); err != nil {
		return 0, err
	}
	if population < 1 {
		return 0, fmt.Errorf("population %d: expected at least 1 user", population)
	}
	fits := func(cohort int) bool { return ScaleUp(simulation, population, cohort).within(budget) }
	short := largest(population, func(cohort int) bool { return !fits(cohort) })
	if short == population {
		return 0, fmt.Errorf("epsilon %v at delta %v cannot be reached with a population of %d at this noise per user: "+
			"a larger population, fewer rounds or more noise in the simulation would help",
			budget.Epsilon, budget.Delta, population)
	}
	return short + 1, nil
}

func validateBoth(recipe Recipe, budget Budget) error {
	if err := budget.Validate(); err != nil {
		return err
	}
	return recipe.Validate()
}

func (r Recipe) withNoise(z float64) Recipe {
	r.NoiseMultiplier = z
	return r
}

// within reports whether a valid recipe stays within the budget.
func (r Recipe) within(budget Budget) bool {
	meter, err := NewMeter(r)
	return err == nil && budget.Allows(meter, r.Rounds)
}

// roundUp returns the next number of six significant digits at or above x.
func roundUp(x float64) float64 {
	digits := 5 - int(math.Floor(math.Log10(x)))
	if digits < 0 {
		unit := math.Pow10(-digits)
		return math.Ceil(x/unit) * unit
	}
	scale := math.Pow10(digits)
	return math.Ceil(x*scale) / scale
}
