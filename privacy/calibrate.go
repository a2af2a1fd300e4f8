package privacy

import (
	"errors"
	"fmt"
	"math"
)

// Range of noise multipliers that a calibration considers, as powers of ten. No model
// learns beyond the upper end.
const (
	minDecade = -3
	maxDecade = 6
)

// CalibrateNoise returns the smallest noise multiplier of six significant digits, at least
// 0.001, that keeps the recipe's rounds within the budget. It ignores the recipe's own noise
// multiplier and delta. With adaptive clipping the result is the total, which must leave
// room for the count noise.
func CalibrateNoise(recipe Recipe, budget Budget) (float64, error) {
	return NewCalibration(recipe, budget.Delta).Noise(budget.Epsilon)
}

// Calibration calibrates the noise of one recipe to several epsilons at one delta. It remembers the
// costs that it has computed, so that later epsilons take less time.
type Calibration struct {
	recipe Recipe
	delta  float64
	known  map[int]float64 // epsilon by the number of the noise multiplier
}

// NewCalibration returns a calibration that knows no epsilon.
func NewCalibration(recipe Recipe, delta float64) *Calibration {
	return &Calibration{recipe, delta, map[int]float64{}}
}

// Noise is CalibrateNoise for an epsilon.
func (c *Calibration) Noise(epsilon float64) (float64, error) {
	recipe, budget := c.recipe, Budget{Epsilon: epsilon, Delta: c.delta}
	recipe.NoiseMultiplier, recipe.Delta = 0, budget.Delta
	if err := validateBoth(recipe, budget); err != nil {
		return 0, err
	}
	adaptive := recipe.ClipQuantile
	recipe.ClipQuantile = nil // epsilon depends on the total, not on its division
	excess := func(place int) float64 {
		if _, known := c.known[place]; !known {
			c.known[place] = costOf(recipe.withNoise(noiseAt(place)))
		}
		return budget.logExcess(c.known[place])
	}
	over, within, err := c.around(recipe, budget, excess)
	if err != nil {
		return 0, err
	}
	z := noiseAt(firstWithin(over, within, excess))
	if adaptive != nil {
		if _, err := adaptive.UpdateNoise(z); err != nil {
			return 0, err
		}
	}
	return z, nil
}

// around returns numbers of noise multipliers over and within the budget: the closest known ones, or else the ends
// of a decade.
func (c *Calibration) around(recipe Recipe, budget Budget, excess func(place int) float64) (over, within int, err error) {
	over, within = -1, math.MaxInt
	for place, epsilon := range c.known {
		if budget.logExcess(epsilon) > 0 {
			over = max(over, place)
		} else {
			within = min(within, place)
		}
	}
	if 0 <= over && over < within && within < math.MaxInt {
		return over, within, nil
	}
	decade := 0
	for ; excess((decade-minDecade)*placesOfDecade) > 0; decade++ {
		if decade == maxDecade {
			return 0, 0, fmt.Errorf("epsilon %v at delta %v cannot be reached with %d rounds%s, whatever the noise: "+
				"allow a larger epsilon or delta", budget.Epsilon, budget.Delta, recipe.Rounds, recipe.conversionAsked())
		}
	}
	for decade > minDecade && excess((decade-1-minDecade)*placesOfDecade) <= 0 {
		decade--
	}
	within = (decade - minDecade) * placesOfDecade
	return max(within-placesOfDecade, -1), within, nil
}

// conversionAsked names the conversion if the proof depends on it.
func (r Recipe) conversionAsked() string {
	if r = r.withDefaults(); r.Accountant == Tightest {
		return ""
	}
	return fmt.Sprintf(" and the %s conversion", r.Conversion)
}

// CalibrateRounds returns the largest number of rounds that the recipe can run
// within the budget. It ignores the recipe's own rounds and delta. It is an
// error if not even one round fits.
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
		return 0, fmt.Errorf("one round costs epsilon %s at delta %v, more than the %v allowed: %s",
			Epsilon(meter.limited(1, budget.Delta)), budget.Delta, budget.Epsilon, meter.cheaper())
	}
	return rounds, nil
}

// cheaper advises how to lower the cost of a round.
func (m *Meter) cheaper() string {
	if m.scheme.Sampling == NoSampling || m.scheme.participations != nil {
		return "raise the noise multiplier; a smaller cohort changes nothing, as no credit is taken for the choice of it"
	}
	return "raise the noise multiplier or lower the cohort"
}

// ScaleUp returns the recipe at a larger population and cohort with unchanged noise on the mean
// update, so that the model is as useful as in a small simulation: the noise multiplier grows with
// the cohort (McMahan et al. 2018, section 3; Augenstein et al. 2020, section 6.3). A simulation
// with a cohort of 10 and a noise multiplier of 0.01 becomes one of 1,000 and 1. The noise on the
// count of adaptive clipping grows likewise.
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
// budget if the noise multiplier grows with the cohort as in ScaleUp, at the recipe's population.
// It takes the cohort and the noise multiplier of the simulation from the recipe, and ignores its
// delta. It is an error if even the whole population is not enough.
func CalibrateCohort(simulation Recipe, population int, budget Budget) (int, error) {
	simulation.Delta = budget.Delta
	if err := validateBoth(simulation, budget); err != nil {
		return 0, err
	}
	if population < 1 {
		return 0, fmt.Errorf("population %d: expected at least 1 user", population)
	}
	excess := func(cohort int) float64 { return budget.excess(ScaleUp(simulation, population, cohort)) }
	if excess(population) > 0 {
		return 0, fmt.Errorf("epsilon %v at delta %v cannot be reached with a population of %d at this noise per user: "+
			"a larger population, fewer rounds or more noise in the simulation would help",
			budget.Epsilon, budget.Delta, population)
	}
	over, within := 0, 1
	for within < population && excess(within) > 0 {
		over = within
		within *= 16
		if over > population/16 {
			within = population
		}
	}
	return firstWithin(over, within, excess), nil
}

// CalibrateDelta returns the least delta of four significant digits at which all recipes together
// stay within epsilon, above 0 and finite, by [Compose]. The result is 1e-200 if a smaller delta
// would do. It ignores the recipes' own deltas. It is an error if no delta is enough, for example
// without noise.
func CalibrateDelta(recipes []Recipe, epsilon float64) (float64, error) {
	if len(recipes) == 0 {
		return 0, errors.New("no recipes: expected at least one")
	}
	if !positive(epsilon) {
		return 0, fmt.Errorf("target epsilon %v: expected a positive number", epsilon)
	}
	all, err := together(recipes, anyDelta)
	if err != nil {
		return 0, err
	}
	excess := func(place int) float64 { return math.Log(all.limited(deltaAt(place)) / epsilon) }
	within := deltaPlace(all.about(epsilon))
	for step := 1; excess(within) > 0; step *= 4 {
		if within == maxDeltaPlace {
			return 0, fmt.Errorf("epsilon %v is not reached at any delta below 1: raise the noise or the epsilon, or lower the rounds", epsilon)
		}
		within = min(within+step, maxDeltaPlace)
	}
	over, step := within, 1
	for over >= 0 && excess(over) <= 0 {
		within, over, step = over, over-step, step*4
	}
	return deltaAt(firstWithin(max(over, -1), within, excess)), nil
}

// about returns roughly the delta at which the trainings cost epsilon.
func (c composed) about(epsilon float64) float64 {
	b, err := c.relation.losses().delta(c.steps, epsilon)
	if err != nil {
		return anyDelta
	}
	return b.Upper
}

// limited returns the composition's epsilon at delta that calibration limits.
func (c composed) limited(delta float64) float64 {
	if c.recipe.Accountant != Papers {
		return c.proof(delta).epsilon
	}
	epsilon, _ := c.papers.Epsilon(delta, c.recipe.Conversion)
	return epsilon
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

// excess returns the log of a valid recipe's cost over the budget's epsilon.
func (b Budget) excess(recipe Recipe) float64 { return b.logExcess(costOf(recipe)) }

// costOf returns the epsilon, which may be infinite, of a valid recipe at its delta.
func costOf(recipe Recipe) float64 {
	meter, err := NewMeter(recipe)
	if err != nil {
		return math.Inf(1)
	}
	return meter.limited(recipe.Rounds, recipe.Delta)
}
