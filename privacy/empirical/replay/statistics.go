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

// aligned returns the probability that two independent vectors of n elements have an uncentred
// correlation of at least |r|, if one holds independent normal draws of equal variance:
//
//	I_{1-r^2}((n-1)/2, 1/2).
//
// It is 1 for n < 2.
func aligned(r float64, n int) float64 {
	if n < 2 {
		return 1
	}
	return mathext.RegIncBeta(float64(n-1)/2, 0.5, max(0, (1-r)*(1+r)))
}

// correlation is the uncentred correlation; 0 for a zero vector.
func correlation(a, b []float64) float64 {
	length := norm(a) * norm(b)
	if length == 0 {
		return 0
	}
	return dot(a, b) / length
}

// twoSided returns the probability that a standard normal draw exceeds |x| in absolute value.
func twoSided(x float64) float64 { return math.Erfc(math.Abs(x) / math.Sqrt2) }

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
const MaxTests = 17

// unsure is the probability that an interval misses the noise multiplier.
const unsure = 0.05

// side is the probability that one of the intervals misses the noise multiplier on one side.
func side(intervals int) float64 { return unsure / 2 / float64(intervals) }
