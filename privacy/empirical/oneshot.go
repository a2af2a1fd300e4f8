// These files estimate epsilon by one federated training in which canary clients take
// part (Andrew et al. 2024, One-shot Empirical Privacy Estimation for Federated Learning).
//
// The update of a canary client is a random direction. In many dimensions random directions
// are nearly orthogonal to each other and to everything else, so the cosine of a direction
// with the released update is N(0, 1/d) if its client took no part, and about normal with
// another mean if it did. Many canaries in one training show that second distribution. The
// estimate is the epsilon that separates the two distributions:
//
//	estimate, err := empirical.FinalIterate(cosines, dimension, 1e-5)
//
// It is an estimate, not a bound: neither the canaries nor the statistic need be the worst,
// the second distribution is fitted, and no confidence is claimed. For the Gaussian
// mechanism the estimate converges to the exact epsilon (same paper, theorem 3.3).

package empirical

import (
	"fmt"
	"math"
)

// Least numbers for cosines to be normal.
const (
	// MinDimension is the dimension from which the cosine of a random direction is visually
	// indistinguishable from normal (same paper, theorem 3.2).
	MinDimension = 1000
	// MinPerCanary is the least number of dimensions per canary; with fewer, canaries
	// interfere with each other (theorem 3.3 assumes far more dimensions than canaries).
	MinPerCanary = 10
)

// Normal is a normal distribution of a statistic.
type Normal struct {
	Mean      float64 `json:"mean" doc:"mean"`
	Deviation float64 `json:"deviation" doc:"standard deviation"` // above 0
}

// NullNormal returns the distribution of the cosine of a random direction with any vector that does
// not depend on it, in a number of dimensions: N(0, 1/d) (same paper, theorem 3.2). From 1000
// dimensions on the exact density differs too little to matter.
func NullNormal(dimension int) Normal {
	return Normal{Deviation: 1 / math.Sqrt(float64(dimension))}
}

// FitNormal returns the normal distribution of maximum likelihood. It is an error if all values
// are equal, because their deviation is 0, or if a value is not finite.
func FitNormal(values []float64) (Normal, error) {
	var mean, squares float64
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean) / float64(len(values))
	}
	n := Normal{mean, math.Sqrt(squares)}
	if err := n.check(); err != nil {
		return Normal{}, fmt.Errorf("statistics of %d canaries: %w", len(values), err)
	}
	return n, nil
}

func (n Normal) check() error {
	if !(n.Deviation > 0) || math.IsInf(n.Deviation, 0) || math.IsInf(n.Mean, 0) {
		return fmt.Errorf("a normal distribution of mean %v and deviation %v; expected a finite mean, and a finite deviation above 0", n.Mean, n.Deviation)
	}
	return nil
}

// Estimate is an estimate of epsilon and the distributions behind it.
type Estimate struct {
	// Epsilon is 0 or above.
	Epsilon float64 `json:"epsilon" doc:"epsilon, an estimate and no bound"`
	// StandardError is the error of Epsilon from the finite number of canaries, if their
	// statistics are independent and normal; somewhat too large if the two deviations are
	// about equal. It does not cover the randomness of the training itself.
	StandardError float64 `json:"standard_error" doc:"standard error of epsilon from the number of canaries"`
	// Seen is fitted to canaries that were clients of the training, Unseen to the other canaries.
	Seen   Normal `json:"seen" doc:"of the cosines of canaries that took part"`
	Unseen Normal `json:"unseen" doc:"of the cosines of the other directions"`
}

// FinalIterate estimates epsilon at delta from the cosine of each canary with the total change of a
// model of the given dimension (algorithm 2). The distribution of unseen canaries is known.
func FinalIterate(cosines []float64, dimension int, delta float64) (Estimate, error) {
	seen, err := FitNormal(cosines)
	if err != nil {
		return Estimate{}, err
	}
	return estimate(seen, NullNormal(dimension), len(cosines), 0, delta)
}

// AllIterates estimates epsilon at delta from the largest cosine of each canary with the update of
// any round. A normal distribution is fitted to unseen canaries too (section 4).
func AllIterates(seen, unseen []float64, delta float64) (Estimate, error) {
	with, err := FitNormal(seen)
	if err != nil {
		return Estimate{}, err
	}
	without, err := FitNormal(unseen)
	if err != nil {
		return Estimate{}, err
	}
	return estimate(with, without, len(seen), len(unseen), delta)
}

// estimate takes the distributions and the number of values that each was fitted to; 0 for a known
// distribution.
func estimate(seen, unseen Normal, ofSeen, ofUnseen int, delta float64) (Estimate, error) {
	epsilon, err := Epsilon(seen, unseen, delta)
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{Epsilon: epsilon, Seen: seen, Unseen: unseen}
	ofOther := hermite
	if ofUnseen == 0 {
		ofOther = certain
	}
	e.StandardError = spread(ofOther, func(mean, deviation, other float64) float64 {
		with := Normal{seen.Mean + mean*math.Hypot(errorOfMean(seen, ofSeen), errorOfMean(unseen, ofUnseen)), stretched(seen, ofSeen, deviation)}
		return epsilonOf(delta)(with, Normal{unseen.Mean, stretched(unseen, ofUnseen, other)})
	})
	return e, nil
}

// errorOfMean returns the standard error of a mean of n values, 0 for a known
// distribution.
func errorOfMean(fitted Normal, n int) float64 {
	if n == 0 {
		return 0
	}
	return fitted.Deviation / math.Sqrt(float64(n))
}

// stretched returns the deviation plus a number of its standard errors, each 1/sqrt(2n) of the
// deviation.
func stretched(fitted Normal, n int, errors float64) float64 {
	if errors == 0 {
		return fitted.Deviation
	}
	return fitted.Deviation * math.Exp(errors/math.Sqrt(2*float64(n)))
}

// point is a node of a quadrature rule.
type point struct{ at, weight float64 }

// hermite is the Gauss-Hermite rule of five points for a standard normal variable. A derivative is
// not enough: epsilon has a kink where the two deviations are equal.
var hermite = []point{
	{-2.8569700138728056, 0.011257411327720691}, {-1.3556261799742659, 0.22207592200561264},
	{0, 8.0 / 15}, {1.3556261799742659, 0.22207592200561264}, {2.8569700138728056, 0.011257411327720691},
}

// certain is the rule for a variable without a spread.
var certain = []point{{0, 1}}

// spread returns the standard deviation of a function of two standard normal variables and
// a third with its own rule.
func spread(third []point, f func(x, y, z float64) float64) float64 {
	var mean, squares float64
	for _, x := range hermite {
		for _, y := range hermite {
			for _, z := range third {
				value, weight := f(x.at, y.at, z.at), x.weight*y.weight*z.weight
				mean += weight * value
				squares += weight * value * value
			}
		}
	}
	return math.Sqrt(math.Max(0, squares-mean*mean))
}
