package onerun

import (
	"cmp"
	"math"
	"math/rand/v2"
	"sort"

	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
)

// power returns the power of the bounds if each canary's score is standard normal, plus, for heads, the shift
// of the Gaussian mechanism with the true epsilon. Guesses grow in proportion to the canaries.
func power(f *Fields, s *audits.Setting, _ *Outcome) []audits.Statement {
	o := f.OneRun
	level := 1 - each(o.Confidence.Float64(), len(o.Guesses.choices()))
	simulation := o.simulation()
	bound := o.statement(simulation, "the lower bound is above 0", "epsilon_lower", func(limit float64) func(empirical.Outcome) bool {
		return func(of empirical.Outcome) bool { return empirical.PValue(of, limit, o.Delta) <= level }
	})
	bound.Largest = o.largest
	bound.Nothing = audits.From(func(v *Outcome) bool { return v.EpsilonAtLeast() == 0 })
	if !o.TradeOff {
		return []audits.Statement{bound}
	}
	calibration := privacy.NewCalibration(o.nulls(s), o.Delta)
	curve := once(func(limit float64) empirical.Curve { return o.curve(s, calibration, limit) })
	byCurve := o.statement(simulation, "the lower bound by the trade-off curve is above 0", "trade_off_epsilon_lower", func(limit float64) func(empirical.Outcome) bool {
		return o.refutes(s, curve(limit), level)
	})
	byCurve.Name = "trade_off"
	byCurve.Of = []any{o, o.nulls(s), o.independent(s)}
	byCurve.Nothing = audits.From(func(v *Outcome) bool { return v.TradeOff != nil && v.TradeOff.EpsilonLower == 0 })
	return []audits.Statement{bound, byCurve}
}

// statement returns the statement about the guesses of an audit. refutes(limit) reports whether the guesses for
// one number of guesses refute the limit.
func (o *Block) statement(simulation *audits.Simulation[[]empirical.Outcome], finds, limit string, refutes func(limit float64) func(empirical.Outcome) bool) audits.Statement {
	return audits.Statement{
		Finds: finds, Limit: limit,
		Leak:  audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Max: 100},
		Sizes: []audits.Size{audits.FieldSize(path+".canaries", "canary", o.Canaries)},
		Power: simulation.Power(0, func(_ []int, limit float64) func([]empirical.Outcome) bool { return above(refutes(limit)) }),
		Of:    o,
	}
}

// simulation draws the guesses of simulated audits.
func (o *Block) simulation() *audits.Simulation[[]empirical.Outcome] {
	delta := cmp.Or(o.Delta, audits.DefaultDelta)
	return audits.NewSimulation(audits.Trials, func(sizes []int, leak float64) func(*rand.Rand) []empirical.Outcome {
		choices, shift := o.scaled(sizes[0]), empirical.GaussianShift(leak, delta)
		return func(rng *rand.Rand) []empirical.Outcome { return guessed(choices, sizes[0], shift, rng) }
	})
}

// once remembers the curve at the last limit, whose noise takes a search, for all numbers of canaries.
func once(curve func(limit float64) empirical.Curve) func(limit float64) empirical.Curve {
	var last empirical.Curve
	at := math.NaN()
	return func(limit float64) empirical.Curve {
		if limit != at {
			last, at = curve(limit), limit
		}
		return last
	}
}

// curve returns the trade-off curve of the training with the noise whose epsilon is the limit. For 0 it is
// the curve of equal distributions. It is nil if the population is unknown.
func (o *Block) curve(s *audits.Setting, calibration *privacy.Calibration, limit float64) empirical.Curve {
	if limit == 0 {
		return empirical.GaussianCurve(0)
	}
	if s.Data == nil {
		return nil
	}
	noise, err := calibration.Noise(limit)
	if err != nil { // no noise in the searched range has an epsilon this small
		return empirical.GaussianCurve(0)
	}
	recipe := o.nulls(s)
	recipe.NoiseMultiplier = noise
	of, _ := empirical.CurveOf(recipe) // nil with an error
	return of
}

// nulls returns the recipe of the training without its noise; zero if the population is unknown.
func (o *Block) nulls(s *audits.Setting) privacy.Recipe {
	if s.Data == nil {
		return privacy.Recipe{}
	}
	null := NewNull(&s.Training)
	null.NoiseMultiplier = 0
	return null.Recipe(o.Delta, s.Training.Unit, population.PartitionMetrics{Counts: population.Counts{Users: s.Data.Users, Examples: s.Data.Examples}})
}

// refutes reports whether guesses refute a curve at a level, as the audit's own bound does. They refute no
// unknown curve.
func (o *Block) refutes(s *audits.Setting, curve empirical.Curve, level float64) func(empirical.Outcome) bool {
	switch {
	case curve == nil:
		return func(empirical.Outcome) bool { return false }
	case o.independent(s):
		pValue := empirical.IndependentPValues(curve)
		return func(of empirical.Outcome) bool { return pValue(of) <= level }
	}
	return func(of empirical.Outcome) bool { return empirical.Refutes(of, curve, level) }
}

// scaled returns the numbers of guesses about n canaries.
func (o *Block) scaled(n int) []Guesses {
	g := o.Guesses
	of := func(k int) int { return (k*n + o.Canaries - 1) / o.Canaries }
	g.KPlus = min(of(g.KPlus), n)
	g.KMinus = min(of(g.KMinus), n-g.KPlus)
	return g.choices()
}

// guessed returns the right guesses about the coins of a simulated audit, by the numbers of guesses.
func guessed(choices []Guesses, n int, shift float64, rng *rand.Rand) []empirical.Outcome {
	included, scores := make([]bool, n), make([]float64, n)
	for i := range scores {
		scores[i] = rng.NormFloat64()
		if included[i] = rng.IntN(2) == 1; included[i] {
			scores[i] += shift
		}
	}
	outcomes := make([]empirical.Outcome, len(choices))
	for i, k := range choices {
		outcomes[i], _ = empirical.Guess(included, scores, k.KPlus, k.KMinus) // cannot fail; see scaled
	}
	return outcomes
}

// above returns a function that reports whether the guesses for any number of guesses refute a limit. If some
// guesses refute it, so do as many guesses of which more are right.
func above(refutes func(empirical.Outcome) bool) func([]empirical.Outcome) bool {
	fewest := map[empirical.Outcome]int{} // fewest right guesses that refute, by the numbers of units and guesses
	return func(outcomes []empirical.Outcome) bool {
		for _, o := range outcomes {
			correct := o.Correct
			o.Correct = 0
			if _, known := fewest[o]; !known {
				fewest[o] = sort.Search(o.Guesses+1, func(k int) bool {
					right := o
					right.Correct = k
					return right.Guesses > 0 && refutes(right)
				})
			}
			if o.Guesses > 0 && correct >= fewest[o] {
				return true
			}
		}
		return false
	}
}
