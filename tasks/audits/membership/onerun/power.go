package onerun

import (
	"math/rand/v2"
	"sort"

	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
)

// power is that of the bound if the score of each canary is a standard normal number to which its coin adds
// the shift of the Gaussian mechanism with the true epsilon. Guesses grow in proportion to the canaries.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return nil
	}
	o := f.OneRun
	confidence := each(o.Confidence.Float64(), len(o.Guesses.choices()))
	delta := o.Delta
	if delta == 0 {
		delta = audits.DefaultDelta
	}
	return []audits.Statement{{
		Finds: "the lower bound is above 0", Limit: "epsilon_lower",
		Leak:    audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Most: 100},
		Sizes:   []audits.Size{audits.FieldSize(path+".canaries", "canary", o.Canaries)},
		Nothing: func(v audits.Outcome) bool { return v.(*Outcome).EpsilonAtLeast() == 0 },
		Power: audits.Simulated(audits.Trials, 0, func(sizes []int, leak float64) func(*rand.Rand) []empirical.Outcome {
			choices, shift := o.scaled(sizes[0]), empirical.GaussianShift(leak, delta)
			return func(rng *rand.Rand) []empirical.Outcome { return guessed(choices, sizes[0], shift, rng) }
		}, func(_ []int, limit float64) func([]empirical.Outcome) bool {
			return above(limit, o.Delta, 1-confidence)
		}),
	}}
}

// scaled are the numbers of guesses about n canaries.
func (o *Block) scaled(n int) []Guesses {
	g := o.Guesses
	of := func(k int) int { return (k*n + o.Canaries - 1) / o.Canaries }
	g.KPlus = min(of(g.KPlus), n)
	g.KMinus = min(of(g.KMinus), n-g.KPlus)
	return g.choices()
}

// guessed are the right guesses about the coins of a simulated audit, by the numbers of guesses.
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
		outcomes[i], _ = empirical.Guess(included, scores, k.KPlus, k.KMinus) // which fits: see scaled
	}
	return outcomes
}

// above reports whether the bound by some of the numbers of guesses is above a limit, each at the level.
func above(limit, delta, level float64) func([]empirical.Outcome) bool {
	fewest := map[empirical.Outcome]int{} // right guesses that refute the limit, by the numbers of units and guesses
	return func(outcomes []empirical.Outcome) bool {
		for _, o := range outcomes {
			correct := o.Correct
			o.Correct = 0
			if _, known := fewest[o]; !known {
				fewest[o] = sort.Search(o.Guesses+1, func(k int) bool {
					right := o
					right.Correct = k
					return empirical.PValue(right, limit, delta) <= level
				})
			}
			if o.Guesses > 0 && correct >= fewest[o] {
				return true
			}
		}
		return false
	}
}
