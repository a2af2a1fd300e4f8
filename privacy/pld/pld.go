package pld

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Step is a Gaussian mechanism on a sample of the members, run for some rounds.
type Step struct {
	Rate   float64 // probability that a member takes part, within [0, 1]
	Sigma  float64 // noise relative to the sensitivity, 0 or above
	Rounds int     // 0 or more
}

// Bounds enclose the true value.
type Bounds struct {
	Lower, Upper float64
}

// Epsilon bounds the smallest epsilon of all steps together at delta, within (0, 1), for Poisson
// samples and adding or removing one member. Both bounds are 0 or above. If a step has no noise,
// both are +Inf at deltas below its rate, and the upper bound at all deltas that do not exceed the
// joint cost of the rounds. The upper bound is also +Inf if epsilon may exceed the largest float64.
func Epsilon(steps []Step, delta float64) (Bounds, error) {
	return epsilonOf(steps, delta, removing, adding)
}

// FixedSizeEpsilon is Epsilon for samples of fixed size, drawn without replacement, and replacing
// one member: the epsilon of the pair of outputs in the package comment.
func FixedSizeEpsilon(steps []Step, delta float64) (Bounds, error) {
	return epsilonOf(steps, delta, replacing)
}

func epsilonOf(steps []Step, delta float64, changes ...change) (Bounds, error) {
	if !(delta > 0 && delta < 1) {
		return Bounds{}, fmt.Errorf("delta %v: expected a number above 0 and below 1", delta)
	}
	active, err := activeSteps(steps)
	if err != nil {
		return Bounds{}, err
	}
	if totalVariation(active) <= delta {
		return Bounds{}, nil
	}
	if rate, noiseless := minDeltaWithoutNoise(active); noiseless {
		return boundsWithoutNoise(rate, delta), nil
	}
	if sigma, plain := plainSigma(active); plain {
		return exactly(GaussianEpsilon(sigma, delta)), nil
	}
	if s := active[0]; len(active) == 1 && s.Rounds == 1 {
		return exactly(s.epsilonOnce(delta)), nil
	}
	return composed(active, delta, changes), nil
}

// exactly returns bounds on a known number that may be too large for a float64.
func exactly(x float64) Bounds { return Bounds{math.Min(x, math.MaxFloat64), x} }

// composed bounds epsilon of several sampled rounds.
func composed(steps []Step, delta float64, changes []change) (b Bounds) {
	for _, s := range steps {
		b.Lower = math.Max(b.Lower, exactly(s.epsilonOnce(delta)).Lower)
	}
	everybody, _ := plainSigma(steps) // upper bound: every member takes part
	unsampled := GaussianEpsilon(everybody, delta)
	if delta < minDelta {
		return Bounds{b.Lower, math.Max(b.Lower, unsampled)}
	}
	loud, changed := withLeastNoise(steps)
	for _, seen := range changes {
		found := epsilonFor(partsOf(loud, seen), delta, b.Lower)
		b.Lower = math.Max(b.Lower, found.Lower)
		b.Upper = math.Max(b.Upper, found.Upper)
	}
	if changed || unsampled < b.Upper {
		b.Upper = unsampled
	}
	b.Upper = math.Max(b.Lower, b.Upper) // rounding may exchange equal bounds
	return b
}

// withLeastNoise raises the noise to the least value that the computation supports. More noise
// never costs more, so lower bounds remain valid.
func withLeastNoise(steps []Step) (loud []Step, changed bool) {
	loud = slices.Clone(steps)
	for i, s := range steps {
		if s.Sigma < minSigma {
			loud[i].Sigma, changed = minSigma, true
		}
	}
	return loud, changed
}

// Delta bounds the smallest delta of all steps together at epsilon, 0 or above, for Poisson samples
// and adding or removing one member.
func Delta(steps []Step, epsilon float64) (Bounds, error) {
	return deltaOf(steps, epsilon, removing, adding)
}

// FixedSizeDelta is Delta for the samples and the relation of FixedSizeEpsilon.
func FixedSizeDelta(steps []Step, epsilon float64) (Bounds, error) {
	return deltaOf(steps, epsilon, replacing)
}

func deltaOf(steps []Step, epsilon float64, changes ...change) (Bounds, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 1) {
		return Bounds{}, fmt.Errorf("epsilon %v: expected a number of 0 or above", epsilon)
	}
	active, err := activeSteps(steps)
	if err != nil {
		return Bounds{}, err
	}
	if rate, noiseless := minDeltaWithoutNoise(active); noiseless {
		return Bounds{rate, math.Max(rate, math.Min(1, totalVariation(active)))}, nil
	}
	if sigma, plain := plainSigma(active); plain {
		return exactly(GaussianDelta(sigma, epsilon)), nil
	}
	if s := active[0]; len(active) == 1 && s.Rounds == 1 {
		return exactly(s.deltaOnce(epsilon)), nil
	}
	loud, changed := withLeastNoise(active)
	var b Bounds
	for _, s := range active {
		b.Lower = math.Max(b.Lower, s.deltaOnce(epsilon))
	}
	for _, seen := range changes {
		found := deltaFor(partsOf(loud, seen), epsilon)
		b.Lower = math.Max(b.Lower, found.Lower)
		b.Upper = math.Max(b.Upper, found.Upper)
	}
	everybody, _ := plainSigma(active)
	unsampled := GaussianDelta(everybody, epsilon)
	if changed || unsampled < b.Upper {
		b.Upper = unsampled
	}
	b.Upper = math.Max(b.Lower, math.Min(b.Upper, totalVariation(active)))
	return b, nil
}

// epsilonOnce returns the exact epsilon of one round of a step. Removing a member, or
// replacing one in a sample of fixed size, costs delta(epsilon) = rate x the Gaussian
// mechanism's delta at log(1 + (exp(epsilon)-1)/rate) (Balle, Barthe and Gaboardi 2018,
// Theorems 2 and 9); adding one costs (1 - exp(epsilon) (1-rate)) x the delta at -log(1 -
// (1-exp(-epsilon))/rate), which is no larger because neither factor is.
func (s Step) epsilonOnce(delta float64) float64 {
	if delta >= s.Rate {
		return 0
	}
	whole := gaussianEpsilon(s.Sigma, delta, s.Rate)
	return pair{rate: s.Rate, unit: 1}.lossOfRemoving(whole)
}

// deltaOnce is the inverse of epsilonOnce.
func (s Step) deltaOnce(epsilon float64) float64 {
	return s.Rate * GaussianDelta(s.Sigma, pair{rate: s.Rate, unit: 1}.ratioAt(epsilon))
}

// minDeltaWithoutNoise returns the least delta of steps without noise at any epsilon: the share
// of a round's outputs that reveal a member. It returns false if all steps have noise.
func minDeltaWithoutNoise(steps []Step) (rate float64, noiseless bool) {
	for _, s := range steps {
		if s.Sigma == 0 {
			rate, noiseless = math.Max(rate, s.Rate), true
		}
	}
	return rate, noiseless
}

// boundsWithoutNoise returns bounds on epsilon if some step has no noise and delta is less than
// totalVariation.
func boundsWithoutNoise(rate, delta float64) Bounds {
	if delta < rate {
		return Bounds{math.Inf(1), math.Inf(1)}
	}
	return Bounds{0, math.Inf(1)}
}

// totalVariation bounds delta at epsilon 0. For one round it is the probability that the sample
// contains the member; over rounds it is at most the sum.
func totalVariation(steps []Step) float64 {
	total := 0.0
	for _, s := range steps {
		total += float64(s.Rounds) * s.Rate * GaussianDelta(s.Sigma, 0)
	}
	return total
}

// activeSteps validates all steps and returns those with a cost.
func activeSteps(steps []Step) ([]Step, error) {
	var active []Step
	var errs []error
	for _, s := range steps {
		switch {
		case !(s.Rate >= 0 && s.Rate <= 1):
			errs = append(errs, fmt.Errorf("sampling rate %v: expected a number from 0 to 1", s.Rate))
		case !(s.Sigma >= 0):
			errs = append(errs, fmt.Errorf("noise %v, relative to the sensitivity: expected 0 or above", s.Sigma))
		case s.Rounds < 0:
			errs = append(errs, fmt.Errorf("rounds %d: expected 0 or more", s.Rounds))
		case s.Rate > 0 && s.Rounds > 0 && !math.IsInf(s.Sigma, 1):
			active = append(active, s)
		}
	}
	return active, errors.Join(errs...)
}

// plainSigma returns the noise of the single Gaussian mechanism that equals all steps. It returns
// false unless sampling is absent or nothing runs. All steps have noise.
func plainSigma(steps []Step) (float64, bool) {
	precision, root, sampled := 0.0, 0.0, false
	for _, s := range steps {
		precision += float64(s.Rounds) / s.Sigma / s.Sigma
		root = math.Hypot(root, math.Sqrt(float64(s.Rounds))/s.Sigma)
		sampled = sampled || s.Rate < 1
	}
	if precision < 1e-290 || precision > 1e290 { // digits may be lost to underflow, or the number has overflowed
		return 1 / root, !sampled
	}
	return 1 / math.Sqrt(precision), !sampled
}

// minDelta is the delta below which the shares for truncation underflow, so that simple bounds
// are used.
const minDelta = 1e-200

// minSigma is the noise below which the squares of losses may overflow.
const minSigma = 1e-70
