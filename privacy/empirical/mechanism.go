package empirical

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"coalmine/privacy"
)

// NoiseBound is the range of noise multipliers that an outcome refutes, for trainings
// that differ only in their noise.
type NoiseBound struct {
	// NoiseMultiplier is the least refuted noise multiplier; all larger ones are refuted too, so
	// the training had less noise. It is +Inf if the outcome refutes no multiplier.
	NoiseMultiplier float64
	// Epsilon is the proved epsilon of a training with NoiseMultiplier; 0 if that is +Inf.
	Epsilon privacy.Epsilon
	// PValue bounds the probability of the observed number of right guesses if the training had the
	// noise of the recipe, 1 without noise. For several outcomes it is the least p-value times
	// their number.
	PValue float64
	// By is the index of the outcome that refutes NoiseMultiplier; 0 if no outcome does.
	By int
}

// Resolution and limits of the search for a noise multiplier.
const (
	noiseTolerance = 5e-3
	smallestNoise  = 1.0 / (1 << 12)
	maxNoise       = 1 << 20
)

// MinNoise returns the least noise multiplier at which an outcome refutes the recipe with a
// confidence within (0, 1), up to 0.5% above it. The null hypothesis is the trade-off curve of
// the recipe ([privacy.NewTradeOff]); no training that follows the recipe lies below it. For a
// recipe without noise, which bounds nothing, the refuted hypothesis is that the training had
// noise.
//
// The outcomes, at least one, come from different numbers of guesses about the same coins. Each
// gets its share of 1 - confidence, so that all bounds hold together with the confidence (union
// bound), and any may be reported.
func MinNoise(outcomes []Outcome, recipe privacy.Recipe, confidence float64) (NoiseBound, error) {
	return minNoise(outcomes, recipe, confidence, anyCoins)
}

// MinNoiseIndependent is MinNoise if canaries do not hide each other ([IndependentPValue]). It
// never refutes less.
func MinNoiseIndependent(outcomes []Outcome, recipe privacy.Recipe, confidence float64) (NoiseBound, error) {
	return minNoise(outcomes, recipe, confidence, independentCoins)
}

func minNoise(outcomes []Outcome, recipe privacy.Recipe, confidence float64, a analysis) (NoiseBound, error) {
	bound := NoiseBound{NoiseMultiplier: math.Inf(1), PValue: 1}
	if err := validate(outcomes, confidence); err != nil {
		return bound, err
	}
	s := noiseSearch{analysis: a, outcomes: outcomes, recipe: recipe, level: Share(1-confidence, len(outcomes))}
	s.recipe.ClipQuantile = nil // the noise multiplier is the total and includes the noise on the count
	var err error
	if bound.PValue, err = s.claim(); err != nil || s.by(GaussianCurve(0)) < 0 {
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

// Share divides a significance level equally among outcomes.
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

// CurveOf returns the trade-off curve of a recipe. Its noise multiplier is the total, which includes the noise on the
// count of an adaptive clip norm. CurveOf caches the latest maxCurves curves of recipes without a Mechanism or Tree,
// because the curve of a random cohort takes some tenths of a second.
func CurveOf(recipe privacy.Recipe) (Curve, error) {
	recipe.ClipQuantile = nil
	recipe.Delta, recipe.Unit, recipe.Randomness, recipe.Control = 0, "", "", "" // change no curve
	t := known.get(recipe)
	if t == nil {
		var err error
		if t, err = privacy.NewTradeOff([]privacy.Recipe{recipe}); err != nil {
			return nil, fmt.Errorf("trade-off curve at noise multiplier %g: %w", recipe.NoiseMultiplier, err)
		}
		known.put(recipe, t)
	}
	return func(power float64) float64 { return t.At(1 - power) }, nil
}

var known = curves{of: map[privacy.Recipe]*privacy.TradeOff{}}

// curves remembers the latest maxCurves curves, of recipes without pointers.
type curves struct {
	mu     sync.Mutex
	of     map[privacy.Recipe]*privacy.TradeOff
	oldest []privacy.Recipe // the keys of the map, in the order of their insertion
}

// maxCurves curves of 24 points take half a megabyte.
const maxCurves = 512

func (c *curves) get(recipe privacy.Recipe) *privacy.TradeOff {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[recipe]
}

func (c *curves) put(recipe privacy.Recipe, t *privacy.TradeOff) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.of[recipe]; there || recipe.Mechanism != nil || recipe.Tree != nil {
		return
	}
	if len(c.oldest) == maxCurves {
		delete(c.of, c.oldest[0])
		c.oldest = c.oldest[1:]
	}
	c.of[recipe], c.oldest = t, append(c.oldest, recipe)
}

// noiseSearch finds the least refuted noise.
type noiseSearch struct {
	analysis
	outcomes []Outcome
	recipe   privacy.Recipe
	level    float64 // significance level of each outcome
}

// claim returns the p-value of the recipe with its own noise.
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
		least = min(least, float64(len(s.outcomes))*s.pValue(o, curve))
	}
	return least, nil
}

// by returns the index of the first outcome that refutes a curve, -1 if no outcome does.
func (s *noiseSearch) by(curve Curve) int {
	return slices.IndexFunc(s.outcomes, func(o Outcome) bool { return s.refutes(o, curve, s.level) })
}

func (s *noiseSearch) curve(noise float64) (Curve, error) {
	s.recipe.NoiseMultiplier = noise
	return CurveOf(s.recipe)
}

func (s *noiseSearch) excludes(noise float64) (bool, error) {
	curve, err := s.curve(noise)
	return err == nil && s.by(curve) >= 0, err
}

// least returns +Inf if no noise up to maxNoise is refuted.
func (s *noiseSearch) least() (float64, error) {
	kept, refuted, err := s.bracket()
	for err == nil && refuted > kept*(1+noiseTolerance) && !math.IsInf(refuted, 1) {
		var yes bool
		middle := math.Sqrt(kept * refuted)
		if yes, err = s.excludes(middle); yes {
			refuted = middle
		} else {
			kept = middle
		}
	}
	return refuted, err
}

// bracket returns a refuted noise multiplier and half of it, which is not refuted. At the limits of
// the search it returns a refuted one twice, or +Inf as the refuted one. The search starts at 1.
func (s *noiseSearch) bracket() (kept, refuted float64, err error) {
	noise := 1.0
	first, err := s.excludes(noise)
	for factor := 2.0; err == nil; {
		if first {
			factor = 0.5
		}
		next := noise * factor
		if next < smallestNoise {
			return noise, noise, nil
		}
		if next > maxNoise {
			return noise, math.Inf(1), nil
		}
		var yes bool
		if yes, err = s.excludes(next); yes != first {
			return min(noise, next), max(noise, next), err
		}
		noise = next
	}
	return 0, 0, err
}

func (s *noiseSearch) epsilon(noise float64) (privacy.Epsilon, error) {
	s.recipe.NoiseMultiplier = noise
	report, err := privacy.Account(s.recipe)
	return report.EpsilonProved, err
}
