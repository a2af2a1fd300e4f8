package empirical

import (
	"fmt"
	"math"
)

// Curve is the trade-off curve of a mechanism from the side of the guesser. A guesser
// that recognizes the share power of the outputs with a member mistakes at least the share
// Curve(power) of the outputs without the member for outputs with it; both are within [0, 1]. Curve
// is power -> f(1-power) for the symmetric trade-off function f of Dong, Roth and Su 2019 (Gaussian
// Differential Privacy), convex like f, and nondecreasing.
type Curve func(power float64) float64

// GaussianCurve returns the curve for two normal distributions with means mu deviations apart; mu
// is 0 or above.
func GaussianCurve(mu float64) Curve {
	return func(power float64) float64 { return normalShare(normalQuantile(power) - mu) }
}

// Refutes reports whether the outcome refutes, at a level within (0, 1), that a mechanism has
// the curve: a mechanism with the curve allows as many right guesses with a probability below
// the level (Mahloujifar, Melis and Chaudhuri 2024, Auditing f-Differential Privacy in One Run,
// algorithm 3). The outcome is valid.
//
// Proof: let p(n) be the probability that n of c guesses about m coins are right. Take the event
// that the guess about a coin is right and that n or more guesses are. With the coin turned over
// and the same output, that guess is wrong and n-1 or more are right. The curve bounds the second
// event by the first for every coin, and so on average over coins, because it is convex:
//
//	wrong(n-1) >= Curve(right(n)),  right(n) = sum of k p(k) / m,  wrong(n) = sum of (c-k) p(k) / m, over k >= n.
//
// Suppose that the outcome's number v or more has the probability level. Moving mass to the
// next lower number of guesses preserves all these inequalities, so we may assume that no mass
// lies above v, and that the mass below v is the least that they allow. If this mass exceeds 1
// in total, no such p exists.
func Refutes(o Outcome, curve Curve, level float64) bool {
	c, m, v := float64(o.Guesses), float64(o.Units), float64(o.Correct)
	all := c / m
	right, wrong := level*v/m, level*(c-v)/m
	for n := o.Correct - 1; n >= 0 && right+wrong <= all; n-- {
		more := curve(right) - wrong
		if more <= 0 { // no further mass is required
			break
		}
		wrong += more
		right += more * float64(n) / (c - float64(n))
	}
	return right+wrong > all
}

// CurvePValue bounds the probability that a mechanism with the curve allows at least as many
// right guesses as the outcome has: the least level at which the outcome [Refutes] the
// curve, or 1.
func CurvePValue(o Outcome, curve Curve) float64 {
	return minLevel(func(level float64) bool { return Refutes(o, curve, level) })
}

// minLevel returns the least level at which a hypothesis is refuted, or 1.
func minLevel(refutes func(level float64) bool) float64 {
	if !refutes(largestLevel) {
		return 1
	}
	refuted, kept := 0.0, minLog // logarithms of levels
	for range 60 {
		if middle := (refuted + kept) / 2; refutes(math.Exp(middle)) {
			refuted = middle
		} else {
			kept = middle
		}
	}
	return math.Exp(refuted)
}

// Levels closer to 0 or 1 than these are not distinguished.
const (
	largestLevel = 1 - 1e-12
	minLog       = -700.0
)

// analysis bounds the number of right guesses under a curve.
type analysis struct {
	refutes func(o Outcome, curve Curve, level float64) bool
	pValue  func(o Outcome, curve Curve) float64
}

var (
	anyCoins         = analysis{Refutes, CurvePValue}
	independentCoins = analysis{
		func(o Outcome, curve Curve, level float64) bool { return IndependentPValue(o, curve) <= level },
		IndependentPValue,
	}
)

// greatest returns the supremum of the numbers, 0 or above, at which a monotone predicate holds, 0
// if it never holds.
func greatest(holds func(float64) bool) float64 {
	if !holds(0) {
		return 0
	}
	low, high := 0.0, 1.0
	for holds(high) {
		low, high = high, 2*high
	}
	for high-low > 1e-12*high {
		if middle := (low + high) / 2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func checkConfidence(confidence float64) error {
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("confidence %v: expected a number above 0 and below 1", confidence)
	}
	return nil
}

// normalShare returns the probability that a standard normal variable is below
// x.
func normalShare(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// normalQuantile is the inverse of normalShare.
func normalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }
