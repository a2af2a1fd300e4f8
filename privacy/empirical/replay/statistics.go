package replay

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// belowChiSquare is the probability that the sum of the squares of freedom independent standard normal
// draws is at most sum.
func belowChiSquare(sum, freedom float64) float64 { return mathext.GammaIncReg(freedom/2, sum/2) }

// chiSquareQuantile inverts belowChiSquare.
func chiSquareQuantile(p, freedom float64) float64 { return 2 * mathext.GammaIncRegInv(freedom/2, p) }

// unbalanced bounds the probability that the sum of independent symmetric draws is as far from 0 as t square roots of
// the sum of their squares (Hoeffding 1963, theorem 2, given the draws' sizes).
func unbalanced(t float64) float64 { return min(1, 2*math.Exp(-t*t/2)) }

// divergence is the Kullback-Leibler divergence of Bernoulli(p) from Bernoulli(q), in nats.
func divergence(p, q float64) float64 {
	term := func(p, q float64) float64 {
		if p == 0 {
			return 0
		}
		return p * math.Log(p/q)
	}
	return max(0, term(p, q)+term(1-p, 1-q))
}

// counted bounds the probability that a binomial number of successes in trials with probability q
// is as far from its mean as count, on either side: 2 exp(-trials KL(count/trials, q)) (Chernoff
// 1952; Hoeffding 1963, theorems 1 and 4: also for draws without replacement).
func counted(count, trials int, q float64) float64 {
	if trials == 0 {
		return 1
	}
	return min(1, 2*math.Exp(-float64(trials)*divergence(float64(count)/float64(trials), q)))
}

// exceeded bounds the probability of at least count.
func exceeded(count, trials int, q float64) float64 {
	if trials == 0 || float64(count) <= q*float64(trials) {
		return 1
	}
	return math.Exp(-float64(trials) * divergence(float64(count)/float64(trials), q))
}

// equalSizes is the probability that two independent binomial numbers are equal.
func equalSizes(n int, q float64) float64 {
	if q <= 0 || q >= 1 {
		return 1
	}
	sum := 0.0
	logN, _ := math.Lgamma(float64(n) + 1)
	for k := range n + 1 {
		a, _ := math.Lgamma(float64(k) + 1)
		b, _ := math.Lgamma(float64(n-k) + 1)
		sum += math.Exp(2 * (logN - a - b + float64(float64(k)*math.Log(q)) + float64(float64(n-k)*math.Log1p(-q))))
	}
	return min(1, sum)
}

// Power returns the probability that the test of all noise refutes the claim, or that the interval
// of all noise ends below part times the claimed deviation; part = 0 leaves out the interval.
// values independent elements have share times the claimed deviation. p-values are multiplied by
// the number of tests, and the intervals hold together with probability 1 - unsure. Other tests and
// intervals may find more.
func Power(values int, share, falseAlarm float64, tests, intervals int, part float64) float64 {
	n := float64(values)
	refuted := chiSquareQuantile(falseAlarm/float64(tests), n)
	below := chiSquareQuantile(side(intervals), n) * part * part
	return belowChiSquare(max(refuted, below)/(share*share), n)
}

// MaxTests is the largest number of tests of observations.
const MaxTests = 18

// unsure is the probability that an interval misses the noise multiplier.
const unsure = 0.05

// side is the probability that one of the intervals misses the noise multiplier on one side.
func side(intervals int) float64 { return unsure / 2 / float64(intervals) }
