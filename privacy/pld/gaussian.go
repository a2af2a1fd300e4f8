package pld

import (
	"math"

	"coalmine/internal/numbers"
)

// GaussianDelta returns the exact delta of the Gaussian mechanism at epsilon (Balle and Wang 2018,
// Improving the Gaussian Mechanism for Differential Privacy, Theorem 8). sigma, above 0, is the
// noise relative to the sensitivity, possibly +Inf, and epsilon is any number. T rounds at sigma
// are one round at sigma/sqrt(T).
func GaussianDelta(sigma, epsilon float64) float64 {
	if math.IsInf(sigma, 1) {
		return math.Max(0, -math.Expm1(epsilon)) // equal distributions
	}
	switch {
	case epsilon < 0: // exchanges the two distributions
		return -math.Expm1(epsilon) + math.Exp(epsilon)*GaussianDelta(sigma, -epsilon)
	case epsilon == 0:
		return math.Erf(1 / (2 * math.Sqrt2 * sigma))
	}
	if 1/sigma < closeTails {
		return math.Exp(logGaussianDelta(sigma, epsilon))
	}
	near := 1/(2*sigma) - epsilon*sigma
	far := 1/(2*sigma) + epsilon*sigma
	// exp(epsilon) P(X > far) is the tail at far, relative to the density
	// there, times the density at near: far^2 - near^2 is 2 epsilon.
	delta := upperTail(-near) - math.Exp(-near*near/2)*scaledTail(far)
	return math.Max(0, delta)
}

// logGaussianDelta returns the log of GaussianDelta, even if that underflows, at an epsilon above
// 0.
func logGaussianDelta(sigma, epsilon float64) float64 {
	near := epsilon*sigma - 1/(2*sigma)
	if near < -1 { // neither term is small
		return math.Log(upperTail(near) - math.Exp(-near*near/2)*scaledTail(near+1/sigma))
	}
	return -near*near/2 + math.Log(scaledTailFall(near, 1/sigma))
}

// closeTails is the distance of two tails below which their difference loses digits.
const closeTails = 1e-6

// scaledTailFall returns scaledTail(x) - scaledTail(x + by) for x of -1 or above, by above 0.
func scaledTailFall(x, by float64) float64 {
	if by >= closeTails {
		return scaledTail(x) - scaledTail(x+by)
	}
	x += by / 2
	if x < 25 {
		return by * (1/math.Sqrt(2*math.Pi) - x*scaledTail(x)) // minus the derivative, in the middle
	}
	s := 1 / (x * x)
	return by * s * (1 - 3*s*(1-5*s*(1-7*s))) / math.Sqrt(2*math.Pi)
}

// GaussianEpsilon returns the smallest epsilon, 0 or above, at which the
// Gaussian mechanism has delta or less. delta is within (0, 1).
func GaussianEpsilon(sigma, delta float64) float64 { return gaussianEpsilon(sigma, delta, 1) }

// minPlainDelta is the delta below which underflow may lose digits of deltas and of their
// quotients; smaller deltas are compared by their logs.
const minPlainDelta = 1e-280

// gaussianEpsilon is GaussianEpsilon at delta/share, for a share within (0, 1] and above delta.
func gaussianEpsilon(sigma, delta, share float64) float64 {
	if sigma == 0 {
		return math.Inf(1)
	}
	if GaussianDelta(sigma, 0)*share <= delta {
		return 0
	}
	above := func(epsilon float64) bool { return GaussianDelta(sigma, epsilon) > delta/share }
	if delta < minPlainDelta {
		log := numbers.Log(delta) - numbers.Log(share)
		above = func(epsilon float64) bool { return logGaussianDelta(sigma, epsilon) > log }
	}
	low, high := 0.0, 1.0
	for above(high) {
		low, high = high, 2*high
		if math.IsInf(high, 1) {
			return high
		}
	}
	for low == 0 && high > 0 && !above(high/2) { // with much noise, epsilon may be as small as delta
		high /= 2
	}
	return bisect(low, high, above)
}

// bisect returns about the least number from low to high at which tooLow is false, given that it holds below some number.
func bisect(low, high float64, tooLow func(x float64) bool) float64 {
	for range 200 {
		middle := low + (high-low)/2
		if middle == low || middle == high {
			break
		}
		if tooLow(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// upperTail returns P(X > x) for a standard normal X.
func upperTail(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// scaledTail returns exp(x^2/2) P(X > x) for a standard normal X.
func scaledTail(x float64) float64 {
	if x < 25 {
		return math.Exp(x*x/2) * upperTail(x)
	}
	// The asymptotic series; its next term is below 1e-15 here.
	s := 1 / (x * x)
	return (1 - s*(1-3*s*(1-5*s*(1-7*s)))) / (x * math.Sqrt(2*math.Pi))
}
