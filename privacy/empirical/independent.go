package empirical

import (
	"gonum.org/v1/gonum/mathext"
)

// IndependentPValue bounds the probability that a mechanism with the curve allows at least as many
// right guesses as the outcome has, if canaries do not hide each other: the released values can be
// simulated from m independent pairs of distributions, each of which depends on one coin and has
// the curve. The outcome is valid. The bound is reached by a mechanism with the curve, and is never
// above [CurvePValue], which holds without that assumption.
//
// The assumption holds for noise that is Gaussian, independent between rounds or correlated by a
// mechanism, and isotropic, if canary i adds x_i u_i to the sums with orthonormal vectors u_i, and
// if canaries take part independently of each other: let A_t be the sum of all others in round t,
// which depends on the coins only through earlier releases. Then the release of round t is A_t,
// plus noise orthogonal to all u_i, plus the sum over i of u_i (x_it + noise_it). The terms in
// brackets are independent between canaries, and those of one canary in all rounds are its pair of
// distributions. The curve of the training is that of this pair: the simulation knows A_t.
//
// Proof of the bound. A mechanism that is simulated from the pairs allows no more right guesses
// than the pairs; and pairs with the curve simulate pairs with a higher one (Blackwell 1953; Dong,
// Roth and Su 2019, theorem 2.10). Given the pairs' outcomes the coins are independent, and coin i
// is guessed rightly with probability at most a_i. So for each choice of c coins the number of
// right guesses is at most, in distribution, a sum of independent trials with probabilities a_i,
// and the sum is largest for the c largest a_i. The a_i are independent and identically
// distributed; let u_i, uniform on [0, 1], rank them, so that a_i = a(u_i) with a nonincreasing.
// Given that the (c+1)-th least u is s, the c least are independent and uniform on [0, s]: the
// number of right guesses is binomial over c with the mean of a over [0, s] as its success
// probability. s has the beta distribution with parameters c+1 and m-c, and is 1 if c = m.
//
// A guess for the share s of the outcomes is right for a share y of at most the solution of y + Curve(y) =
// s, because the curve is symmetric. So the mean of a over [0, s] is y/s.
//
// The idea is that of Xiang, Wang, Xiao, Tian and Wang 2025 (Tight Privacy Audit in One Run) and Keinan,
// Shenfeld and Ligett 2025 (How Well Can Differential Privacy Be Audited in One Run?); proof and
// computation are ours.
func IndependentPValue(o Outcome, curve Curve) float64 { return IndependentPValues(curve)(o) }

// IndependentPValues returns [IndependentPValue] of one curve as a function of the outcome. It evaluates the
// curve once for all outcomes with equal numbers of units and guesses. It is not for concurrent use.
func IndependentPValues(curve Curve) func(Outcome) float64 {
	laws := map[Outcome]*successLaw{} // by the numbers of units and guesses
	return func(o Outcome) float64 {
		numbers := Outcome{Units: o.Units, Guesses: o.Guesses}
		if laws[numbers] == nil {
			laws[numbers] = newSuccessLaw(numbers, curve)
		}
		return laws[numbers].atLeast(o)
	}
}

// successLaw is the distribution of the success probability of the binomial number of right guesses: its
// values at the ends of trapezoids, in the order of the share s, and the probabilities below these values.
type successLaw struct{ success, below []float64 }

// newSuccessLaw has one value if all units are guessed.
func newSuccessLaw(o Outcome, curve Curve) *successLaw {
	if o.Guesses == o.Units {
		return &successLaw{success: []float64{curve.accuracy(1)}}
	}
	c, m := float64(o.Guesses), float64(o.Units)
	first, last := mathext.InvRegIncBeta(c+1, m-c, ignored), mathext.InvRegIncBeta(c+1, m-c, 1-ignored)
	l := &successLaw{success: []float64{curve.accuracy(first)}, below: []float64{ignored}}
	for k := 1; k <= shares; k++ {
		s := first + (last-first)*float64(k)/shares
		l.success = append(l.success, curve.accuracy(s))
		l.below = append(l.below, mathext.RegIncBeta(c+1, m-c, s))
	}
	return l
}

// atLeast returns the probability of at least as many right guesses as the outcome has, at most 1.
func (l *successLaw) atLeast(o Outcome) float64 {
	tail := func(k int) float64 { return atLeast(o.Correct, o.Guesses, l.success[k]) }
	before := tail(0)
	if len(l.success) == 1 {
		return before
	}
	p := 2 * ignored
	for k := 1; k < len(l.success); k++ {
		after := tail(k)
		p += (l.below[k] - l.below[k-1]) * (before + after) / 2
		before = after
	}
	return min(1, p)
}

// The integral over the beta distribution leaves out two tails of probability ignored, counting all
// guesses there as right, and uses shares trapezoids. For Gaussian curves a hundred times as many
// trapezoids change the result by less than a relative 1e-5.
const (
	ignored = 1e-12
	shares  = 400
)

// atLeast returns P(X >= v) for X binomial over n with success probability p.
func atLeast(v, n int, p float64) float64 {
	switch {
	case v == 0 || p >= 1:
		return 1
	case p <= 0:
		return 0
	}
	return mathext.RegIncBeta(float64(v), float64(n-v+1), p)
}

// accuracy returns the largest probability that a guess about one coin is right if the auditor
// guesses for a share s of the outcomes, within (0, 1].
func (c Curve) accuracy(s float64) float64 {
	low, high := 0.0, s
	for high-low > 1e-14*high {
		if y := (low + high) / 2; y+c(y) <= s {
			low = y
		} else {
			high = y
		}
	}
	return high / s
}

// IdealCorrect returns approximately the mean number of right guesses that the best auditor makes
// about a mechanism with the curve if canaries do not hide each other. No audit with this number of
// units and guesses can expect more.
func IdealCorrect(units, guesses int, curve Curve) float64 {
	return float64(guesses) * curve.accuracy(float64(guesses)/float64(units))
}
