package rdp

import "math"

// ReplacedPair returns the curve of the pair of outputs that dominates every pair of neighbours
// under replacement of one member, if a sample, of fixed size or Poisson, contains the member with
// probability q (Zhu, Dong and Wang 2022, Theorem 11; the comment of package pld has the proof). At
// whole orders it is not above [FixedSize]. With x standard normal, r = x/sigma - 1/(2 sigma^2) the
// log ratio of an output and L = log(1 - q + q exp(r)),
//
//	exp((a-1) x divergence) - 1 = E[(exp((a-1)L) - 1)(exp(L) - exp(-(a-1)L)); r > 0].
//
// sigma is relative to the distance by which replacing the member moves the sum, 0 or
// above; q is within [0, 1].
func ReplacedPair(q, sigma float64, orders []float64) (Curve, error) {
	if err := checkMechanism(q, sigma); err != nil {
		return Curve{}, err
	}
	u := 1 / sigma
	if trivial, divergence := unsampled(q, u*u); trivial {
		return newSampledCurve(q, sigma, orders, divergence)
	}
	return newSampledCurve(q, sigma, orders, func(order float64) float64 {
		return math.Min(log1pExp(replacedExcess(q, u, order))/(order-1), order*u*u/2)
	})
}

// replacedExcess returns the log of the mean in the comment of ReplacedPair.
func replacedExcess(q, u, order float64) float64 {
	density := func(x float64) float64 {
		loss := logMixture(q, u*(x-u/2))
		if !(loss > 0) {
			return math.Inf(-1)
		}
		return -x*x/2 + logExpm1((order-1)*loss) + loss + math.Log(-math.Expm1(-order*loss))
	}
	turn := u/2 + (math.Log1p(-q)-math.Log(q))/u
	return logIntegral(density, u/2, math.Max(2, order)*u+tail, turn) - logSqrt2Pi
}

// logMixture returns log(1 - q + q exp(ratio)).
func logMixture(q, ratio float64) float64 {
	if ratio > 700 { // exp would overflow
		return math.Log(q) + ratio
	}
	return math.Log1p(q * math.Expm1(ratio))
}
