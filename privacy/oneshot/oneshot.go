// Package oneshot estimates epsilon by one federated training in which canary clients take
// part (Andrew et al. 2024, One-shot Empirical Privacy Estimation for Federated Learning).
//
// The update of a canary client is a random direction. In many dimensions random directions
// are nearly orthogonal to each other and to all else, so that the cosine of a direction
// with what was released is N(0, 1/d) where its client took no part, and about normal with
// another mean where it did. Many canaries in one training show that second distribution;
// and the epsilon of telling the two apart is the estimate:
//
//	estimate, err := oneshot.Final(cosines, dimension, 1e-5)
//
// It is an estimate, and no bound: neither the canaries nor the statistic need be the worst,
// the second distribution is fitted, and confidence is nowhere claimed. Of the Gaussian
// mechanism the estimate converges to the exact epsilon (there, theorem 3.3).
package oneshot

import (
	"fmt"
	"math"
)

// Least and most of what the normal law of cosines needs.
const (
	// LeastDimension is where the cosine of a random direction is normal to the eye (there, theorem
	// 3.2).
	LeastDimension = 1000
	// LeastPerCanary is how many dimensions there are for a canary: they hide each other else
	// (theorem 3.3 is about far more dimensions than canaries).
	LeastPerCanary = 10
)

// Normal is a normal distribution of a statistic.
type Normal struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"` // above 0
}

// Null is the distribution of the cosine of a random direction with anything that does not
// depend on it, in so many dimensions: N(0, 1/d) (there, theorem 3.2). Of 1000 dimensions the
// exact density is as good as that.
func Null(dimension int) Normal {
	return Normal{Deviation: 1 / math.Sqrt(float64(dimension))}
}

// Fit returns the normal distribution of the greatest likelihood. Values that are all equal
// are an error: they have no deviation; and so are those that are not finite.
func Fit(values []float64) (Normal, error) {
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

// Estimate is an estimate of epsilon, and what it rests on.
type Estimate struct {
	// Epsilon is 0 or above.
	Epsilon float64 `json:"epsilon"`
	// StandardError is what the number of canaries leaves open of Epsilon, if their statistics
	// are independent and normal; somewhat too large where the two deviations are about equal.
	// How the training happened to go is not in it.
	StandardError float64 `json:"standard_error"`
	// Seen are canaries that were clients of the training, Unseen those that were not.
	Seen   Normal `json:"seen"`
	Unseen Normal `json:"unseen"`
}

// Final estimates epsilon at delta from the cosine of each canary with the change of a model
// of so many dimensions (algorithm 2). What unseen canaries would have is known.
func Final(cosines []float64, dimension int, delta float64) (Estimate, error) {
	seen, err := Fit(cosines)
	if err != nil {
		return Estimate{}, err
	}
	return estimate(seen, Null(dimension), len(cosines), 0, delta)
}

// AllIterates estimates epsilon at delta from the largest cosine that each canary has had
// with the update of any round. Those of unseen canaries are fitted likewise (section 4).
func AllIterates(seen, unseen []float64, delta float64) (Estimate, error) {
	with, err := Fit(seen)
	if err != nil {
		return Estimate{}, err
	}
	without, err := Fit(unseen)
	if err != nil {
		return Estimate{}, err
	}
	return estimate(with, without, len(seen), len(unseen), delta)
}

// estimate takes distributions that were fitted to so many values; 0 for one that is known.
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

// errorOfMean is that of a mean of n values, 0 where it is known.
func errorOfMean(fitted Normal, n int) float64 {
	if n == 0 {
		return 0
	}
	return fitted.Deviation / math.Sqrt(float64(n))
}

// stretched is a deviation that is off by so many of its standard errors, which are
// 1/sqrt(2n) of it.
func stretched(fitted Normal, n int, errors float64) float64 {
	if errors == 0 {
		return fitted.Deviation
	}
	return fitted.Deviation * math.Exp(errors/math.Sqrt(2*float64(n)))
}

// point is one of a rule of integration.
type point struct{ at, weight float64 }

// hermite is the Gauss-Hermite rule of five points for a standard normal variable. A
// derivative would not do: epsilon has a kink where two deviations are equal.
var hermite = []point{
	{-2.8569700138728056, 0.011257411327720691}, {-1.3556261799742659, 0.22207592200561264},
	{0, 8.0 / 15}, {1.3556261799742659, 0.22207592200561264}, {2.8569700138728056, 0.011257411327720691},
}

// certain is the rule for a variable without a spread.
var certain = []point{{0, 1}}

// spread is the standard deviation of a function of two standard normal variables, and of a
// third with its own rule.
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
