package rdp

import "math"

// Poisson returns the curve of the Gaussian mechanism on a Poisson sample, in which every member
// takes part independently with probability q (Mironov, Talwar and Zhang 2019, Rényi Differential
// Privacy of the Sampled Gaussian Mechanism). The neighbouring relation is to add or remove one
// member. Fractional orders are exact, not interpolated. q is within [0, 1] and sigma 0 or above.
func Poisson(q, sigma float64, orders []float64) (Curve, error) {
	if err := checkMechanism(q, sigma); err != nil {
		return Curve{}, err
	}
	u := 1 / sigma
	if trivial, divergence := unsampled(q, u*u); trivial {
		return newSampledCurve(q, sigma, orders, divergence)
	}
	return newSampledCurve(q, sigma, orders, func(order float64) float64 {
		var logExcess float64
		if order == math.Trunc(order) {
			logExcess = poissonInteger(q, u*u, int(order))
		} else {
			logExcess = poissonFractional(q, u, order)
		}
		return math.Min(log1pExp(logExcess)/(order-1), order*u*u/2)
	})
}

// maxRatio is the largest (sensitivity/noise)^2 at which sampling is credited. Beyond it, sampling
// lowers the divergence by a share of less than 1e-8, and the rounding of the integrand's exponents
// exceeds the tolerance of quadrature.
const maxRatio = 1e12

// unsampled returns the divergence if sampling has no effect: no member or every member takes part,
// or there is almost no noise.
func unsampled(q, u2 float64) (bool, func(float64) float64) {
	switch {
	case q == 0:
		return true, func(float64) float64 { return 0 }
	case q == 1 || u2 > maxRatio:
		return true, func(order float64) float64 { return order * u2 / 2 }
	}
	return false, nil
}

// poissonInteger returns log(A-1), where A = exp((a-1) x divergence) is
//
//	sum over k of C(a,k) (1-q)^(a-k) q^k exp(k(k-1)u2/2)
//
// (Mironov, Talwar and Zhang 2019, section 3.3). The binomial weights sum to
// one, so A-1 is the same sum with expm1 for exp: the first two terms vanish,
// the others are positive, and nothing cancels however small A-1 is.
func poissonInteger(q, u2 float64, order int) float64 {
	logQ, logRest := math.Log(q), math.Log1p(-q)
	terms := newLogSum()
	logChoose := newLogBinomials(order)
	for k := 2; k <= order; k++ {
		n := float64(k)
		terms.add(logChoose.at(k) + n*logQ + float64(order-k)*logRest + logExpm1(n*(n-1)*u2/2))
	}
	return terms.log()
}

// poissonFractional returns log(A-1) for any order a > 1. With x standard
// normal, y = exp(ux - u^2/2) - 1 has mean 0, so
//
//	A - 1 = E[(1+qy)^a] - 1 = E[(1+qy)^a - 1 - aqy],
//
// whose integrand is nonnegative by convexity.
func poissonFractional(q, u, order float64) float64 {
	density := func(x float64) float64 {
		return -x*x/2 + logConvexExcess(q, u*x-u*u/2, order)
	}
	far := math.Max(2, order)*u + tail
	if u <= 4 {
		return logTrapezoidal(density, -tail, far, math.Min(0.45, 0.55/u)) - logSqrt2Pi
	}
	// The integrand turns from its small-sample form to its whole-sample form
	// where q exp(ux - u^2/2) passes 1-q.
	turn := u/2 + (math.Log1p(-q)-math.Log(q))/u
	return logIntegral(density, -tail, far, turn) - logSqrt2Pi
}

// tail is the distance at which a standard normal density has fallen by exp(-72), which is
// negligible relative to its peak in double precision.
const tail = 12.0

var logSqrt2Pi = math.Log(2*math.Pi) / 2

// logConvexExcess returns log((1+v)^a - 1 - av) for v = q(exp(e)-1).
func logConvexExcess(q, e, a float64) float64 {
	v := q * math.Expm1(e)
	if math.Abs(a*v) < 1e-2 {
		return logSmallExcess(v, a)
	}
	logV := math.Log(math.Abs(v))
	log1pV := math.Log1p(v)
	if e > 700 { // exp would overflow; 1+v equals v here
		logV = math.Log(q) + e
		log1pV = logV
	}
	grown := a * log1pV
	if grown < 1 {
		return math.Log(math.Expm1(grown) - a*v)
	}
	return grown + math.Log1p(-math.Exp(-grown)-math.Exp(math.Log(a)+logV-grown))
}

// logSmallExcess sums the binomial series of (1+v)^a from the square term on.
func logSmallExcess(v, a float64) float64 {
	sum, term := 0.0, 1.0
	for n := 3.0; math.Abs(term) > 1e-17; n++ {
		sum += term
		term *= v * (a - n + 1) / n
	}
	return math.Log(a*(a-1)/2) + 2*math.Log(math.Abs(v)) + math.Log(sum)
}

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
