package pld

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Step is a Gaussian mechanism on a sample of the members, run for some rounds.
type Step struct {
	Rate   float64 // chance of a member to take part, within [0, 1]
	Sigma  float64 // noise relative to the sensitivity, 0 or above
	Rounds int     // 0 or more
}

// Bounds hold the truth between them.
type Bounds struct {
	Lower, Upper float64
}

// Epsilon bounds the smallest epsilon of all steps together at delta, within
// (0, 1), of Poisson samples, for adding or removing one member. Both bounds are 0 or
// above. Where a step has no noise they are +Inf at deltas below its rate, and the upper one at all
// that are not above what rounds can cost together; it is also +Inf where epsilon may be beyond the
// largest number.
func Epsilon(steps []Step, delta float64) (Bounds, error) {
	return epsilonOf(steps, delta, removing, adding)
}

// FixedSizeEpsilon does so of samples of fixed size, without replacement, for replacing one
// member: the epsilon is that of the pair of outputs that the package comment says.
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
	if rate, silent := leastSilent(active); silent {
		return boundsOfSilence(rate, delta), nil
	}
	if sigma, plain := plainSigma(active); plain {
		return exactly(GaussianEpsilon(sigma, delta)), nil
	}
	if s := active[0]; len(active) == 1 && s.Rounds == 1 {
		return exactly(s.epsilonOnce(delta)), nil
	}
	return composed(active, delta, changes), nil
}

// exactly returns the bounds on a number that is known, or too large to be.
func exactly(x float64) Bounds { return Bounds{math.Min(x, math.MaxFloat64), x} }

// composed bounds epsilon of several sampled rounds.
func composed(steps []Step, delta float64, changes []change) (b Bounds) {
	for _, s := range steps {
		b.Lower = math.Max(b.Lower, exactly(s.epsilonOnce(delta)).Lower)
	}
	everybody, _ := plainSigma(steps) // as if nobody was left out, which costs no less
	unsampled := GaussianEpsilon(everybody, delta)
	if delta < leastDelta {
		return Bounds{b.Lower, math.Max(b.Lower, unsampled)}
	}
	loud, changed := withLeastNoise(steps)
	for _, seen := range changes {
		found := epsilonFor(loud, seen, delta, b.Lower)
		b.Lower = math.Max(b.Lower, found.Lower)
		b.Upper = math.Max(b.Upper, found.Upper)
	}
	if changed || unsampled < b.Upper {
		b.Upper = unsampled
	}
	b.Upper = math.Max(b.Lower, b.Upper) // the two may be equal but for rounding
	return b
}

// withLeastNoise raises the noise to what can be computed with. More noise
// never costs more, so lower bounds stay what they are.
func withLeastNoise(steps []Step) (loud []Step, changed bool) {
	loud = slices.Clone(steps)
	for i, s := range steps {
		if s.Sigma < leastSigma {
			loud[i].Sigma, changed = leastSigma, true
		}
	}
	return loud, changed
}

// Delta bounds the smallest delta of all steps together at epsilon, 0 or above, of Poisson
// samples, for adding or removing one member.
func Delta(steps []Step, epsilon float64) (Bounds, error) {
	return deltaOf(steps, epsilon, removing, adding)
}

// FixedSizeDelta does so in the sense of FixedSizeEpsilon.
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
	if rate, silent := leastSilent(active); silent {
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
		found := deltaFor(loud, seen, epsilon)
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

// epsilonOnce returns the exact epsilon of one round of a step. Removing a member, or of a
// fixed size replacing one, costs delta(epsilon) = rate x the Gaussian mechanism's delta at
// log(1 + (exp(epsilon)-1)/rate) (Balle, Barthe and Gaboardi 2018, Theorems 2 and 9);
// adding one costs (1 - exp(epsilon) (1-rate)) x that at
// -log(1 - (1-exp(-epsilon))/rate), where both factors are no larger.
func (s Step) epsilonOnce(delta float64) float64 {
	if delta >= s.Rate {
		return 0
	}
	whole := gaussianEpsilon(s.Sigma, delta, s.Rate)
	return pair{rate: s.Rate, unit: 1}.lossOfRemoving(whole)
}

// deltaOnce returns the delta of which epsilonOnce is the epsilon.
func (s Step) deltaOnce(epsilon float64) float64 {
	return s.Rate * GaussianDelta(s.Sigma, pair{rate: s.Rate, unit: 1}.ratioAt(epsilon))
}

// silent says that there is no noise.
func (s Step) silent() bool { return s.Sigma == 0 }

// leastSilent is the least delta that steps without noise have, whatever epsilon is: the share of a round's
// outputs that give a member away. It is false if all steps have noise.
func leastSilent(steps []Step) (rate float64, silent bool) {
	for _, s := range steps {
		if s.silent() {
			rate, silent = math.Max(rate, s.Rate), true
		}
	}
	return rate, silent
}

// boundsOfSilence bound epsilon where some step has no noise, and delta is less than totalVariation.
func boundsOfSilence(rate, delta float64) Bounds {
	if delta < rate {
		return Bounds{math.Inf(1), math.Inf(1)}
	}
	return Bounds{0, math.Inf(1)}
}

// totalVariation bounds delta at epsilon 0: that of a round is the share of it
// that has the member, and rounds add up at most.
func totalVariation(steps []Step) float64 {
	total := 0.0
	for _, s := range steps {
		total += float64(s.Rounds) * s.Rate * GaussianDelta(s.Sigma, 0)
	}
	return total
}

// activeSteps returns the steps that cost anything, after checking all.
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

// plainSigma returns the noise of the one Gaussian mechanism that equals all
// steps, which have noise, where there is one: when nothing is sampled, or nothing runs.
func plainSigma(steps []Step) (float64, bool) {
	precision, root, sampled := 0.0, 0.0, false
	for _, s := range steps {
		precision += float64(s.Rounds) / s.Sigma / s.Sigma
		root = math.Hypot(root, math.Sqrt(float64(s.Rounds))/s.Sigma)
		sampled = sampled || s.Rate < 1
	}
	if precision < 1e-290 || precision > 1e290 { // whose digits may be lost to underflow, or it has overflowed
		return 1 / root, !sampled
	}
	return 1 / math.Sqrt(precision), !sampled
}

// leastDelta is the delta below which the shares of it that may be left out are
// not numbers any more, and simple bounds have to do.
const leastDelta = 1e-200

// leastSigma is the noise below which the squares of losses may overflow.
const leastSigma = 1e-70
