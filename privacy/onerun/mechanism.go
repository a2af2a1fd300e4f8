package onerun

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"coalmine/privacy"
)

// NoiseBound is what an outcome refutes of trainings that differ in their noise alone.
type NoiseBound struct {
	// NoiseMultiplier is the least that is refuted, and with it all above: the training had
	// less noise. It is +Inf where none is refuted.
	NoiseMultiplier float64
	// Epsilon is what is proved of a training with that much noise, 0 where none is refuted.
	Epsilon privacy.Epsilon
	// PValue bounds the chance of so many right guesses if the training had the noise that the
	// recipe says, 1 without noise. Of several outcomes it is that of any, times their number.
	PValue float64
	// By is the outcome that refutes NoiseMultiplier, by its place; 0 where none does.
	By int
}

// Noise multipliers that are told apart, and where the search for them ends.
const (
	noiseTolerance = 5e-3
	leastNoise     = 1.0 / (1 << 12)
	mostNoise      = 1 << 20
)

// LeastNoise returns the least noise multiplier at which an outcome refutes the recipe with a
// confidence within (0, 1), up to 0.5% above it. The null is the trade-off curve of the
// recipe ([privacy.NewTradeOff]), which no training in which the recipe was followed is below.
// Without noise the recipe says nothing, and what is refuted is that it had some.
//
// The outcomes, at least one, are those of different numbers of guesses about the same coins.
// Each is held to its share of 1 - confidence, so that all of them together hold with the
// confidence (union bound), however the one that is taken was found.
func LeastNoise(outcomes []Outcome, recipe privacy.Recipe, confidence float64) (NoiseBound, error) {
	bound := NoiseBound{NoiseMultiplier: math.Inf(1), PValue: 1}
	if err := validate(outcomes, confidence); err != nil {
		return bound, err
	}
	s := noiseSearch{outcomes: outcomes, recipe: recipe, level: Share(1-confidence, len(outcomes))}
	s.recipe.ClipQuantile = nil // the noise multiplier is the total, whatever the count of clipped updates takes of it
	var err error
	if bound.PValue, err = s.claim(); err != nil || s.by(Gaussian(0)) < 0 {
		return bound, err
	}
	least, err := s.least()
	if err != nil || math.IsInf(least, 1) {
		return bound, err
	}
	curve, err := s.curve(least)
	if err != nil {
		return bound, err
	}
	bound.NoiseMultiplier, bound.By = least, s.by(curve)
	bound.Epsilon, err = s.epsilon(least)
	return bound, err
}

// Share is what each of so many outcomes may take of a level.
func Share(level float64, outcomes int) float64 { return level / float64(outcomes) }

func validate(outcomes []Outcome, confidence float64) error {
	if len(outcomes) == 0 {
		return errors.New("one-run audit without guesses: expected at least one outcome")
	}
	errs := []error{checkConfidence(confidence)}
	for _, o := range outcomes {
		errs = append(errs, o.Validate())
	}
	return errors.Join(errs...)
}

// noiseSearch looks for the least noise that is refuted.
type noiseSearch struct {
	outcomes []Outcome
	recipe   privacy.Recipe
	level    float64 // of each outcome
}

// claim is the p-value of the recipe with the noise that it says.
func (s *noiseSearch) claim() (float64, error) {
	if s.recipe.NoiseMultiplier == 0 {
		return 1, nil
	}
	curve, err := s.curve(s.recipe.NoiseMultiplier)
	if err != nil {
		return 1, err
	}
	least := 1.0
	for _, o := range s.outcomes {
		least = min(least, float64(len(s.outcomes))*CurvePValue(o, curve))
	}
	return least, nil
}

// by is the first outcome that refutes a curve, below 0 if none does.
func (s *noiseSearch) by(curve Curve) int {
	return slices.IndexFunc(s.outcomes, func(o Outcome) bool { return Refutes(o, curve, s.level) })
}

// curve is that of the recipe with so much noise.
func (s *noiseSearch) curve(noise float64) (Curve, error) {
	s.recipe.NoiseMultiplier = noise
	t, err := privacy.NewTradeOff([]privacy.Recipe{s.recipe})
	if err != nil {
		return nil, fmt.Errorf("trade-off curve at noise multiplier %g: %w", noise, err)
	}
	return func(power float64) float64 { return t.At(1 - power) }, nil
}

func (s *noiseSearch) refutes(noise float64) (bool, error) {
	curve, err := s.curve(noise)
	return err == nil && s.by(curve) >= 0, err
}

// least is +Inf where nothing is refuted up to mostNoise.
func (s *noiseSearch) least() (float64, error) {
	kept, refuted, err := s.bracket()
	for err == nil && refuted > kept*(1+noiseTolerance) && !math.IsInf(refuted, 1) {
		var yes bool
		middle := math.Sqrt(kept * refuted)
		if yes, err = s.refutes(middle); yes {
			refuted = middle
		} else {
			kept = middle
		}
	}
	return refuted, err
}

// bracket finds a noise that is refuted and one, half of it, that is not, from 1 on.
func (s *noiseSearch) bracket() (kept, refuted float64, err error) {
	noise := 1.0
	first, err := s.refutes(noise)
	for factor := 2.0; err == nil; {
		if first {
			factor = 0.5
		}
		next := noise * factor
		if next < leastNoise {
			return noise, noise, nil
		}
		if next > mostNoise {
			return noise, math.Inf(1), nil
		}
		var yes bool
		if yes, err = s.refutes(next); yes != first {
			return min(noise, next), max(noise, next), err
		}
		noise = next
	}
	return 0, 0, err
}

// epsilon is what the recipe proves with so much noise.
func (s *noiseSearch) epsilon(noise float64) (privacy.Epsilon, error) {
	s.recipe.NoiseMultiplier = noise
	report, err := privacy.Account(s.recipe)
	return report.EpsilonProved, err
}
