package empirical

import (
	"fmt"
	"math"
)

// Epsilon returns the least epsilon, 0 or above, at which two normal distributions are
// (epsilon, delta)-indistinguishable in both directions: the larger of the two
// hockey-stick divergences is delta there. delta is within (0, 1).
func Epsilon(one, other Normal, delta float64) (float64, error) {
	if !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("delta %v: expected a number above 0 and below 1", delta)
	}
	for _, n := range []Normal{one, other} {
		if err := n.check(); err != nil {
			return 0, err
		}
	}
	return epsilonOf(delta)(one, other), nil
}

// epsilonOf is Epsilon for valid arguments.
func epsilonOf(delta float64) func(one, other Normal) float64 {
	return func(one, other Normal) float64 {
		tooLow := func(epsilon float64) bool {
			return max(logDelta(one, other, epsilon), logDelta(other, one, epsilon)) > math.Log(delta)
		}
		if !tooLow(0) {
			return 0
		}
		low, high := 0.0, 1.0
		for tooLow(high) && !math.IsInf(high, 1) {
			low, high = high, 2*high
		}
		return bisect(tooLow, low, high)
	}
}

// bisect ends within a relative 1e-13 above the least number for which tooLow is false.
func bisect(tooLow func(float64) bool, low, high float64) float64 {
	for high-low > 1e-13*high {
		if middle := low + (high-low)/2; tooLow(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// logDelta is the logarithm of the hockey-stick divergence of p from q, P(L > epsilon) -
// exp(epsilon) Q(L > epsilon), L being the logarithm of p's density over q's (Steinke 2022,
// Composition of Differential Privacy & Privacy Amplification by Subsampling).
func logDelta(p, q Normal, epsilon float64) float64 {
	above := lossAbove(p, q, epsilon)
	inP, inQ := above.logMass(Normal{0, 1}), above.logMass(q.in(p))
	if excess := epsilon + inQ - inP; excess < 0 {
		return inP + math.Log(-math.Expm1(excess))
	}
	return math.Inf(-1)
}

// in returns the distribution in the units of another: relative to its mean and deviation.
func (n Normal) in(units Normal) Normal {
	return Normal{(n.Mean - units.Mean) / units.Deviation, n.Deviation / units.Deviation}
}

// region is the interval between two numbers, or its complement.
type region struct {
	low, high float64
	outside   bool
}

// lossAbove returns the region in which the logarithm of p's density over q's is above
// epsilon, in units of p. The logarithm is a quadratic function of the position; the region
// is ax^2 + bx + c > 0.
func lossAbove(p, q Normal, epsilon float64) region {
	n := q.in(p)
	precision := 1 / (n.Deviation * n.Deviation)
	a := (1 - n.Deviation) * (1 + n.Deviation) * precision / 2
	b := -n.Mean * precision
	c := n.Mean*n.Mean*precision/2 + math.Log(n.Deviation) - epsilon
	switch discriminant := b*b - 4*a*c; {
	case a == 0:
		return beyond(b, c)
	case discriminant <= 0 && a > 0:
		return region{math.Inf(-1), math.Inf(1), false}
	case discriminant <= 0:
		return region{}
	default:
		// This form keeps all digits of the root with the smaller absolute value.
		h := -(b + math.Copysign(math.Sqrt(discriminant), b)) / 2
		return region{min(h/a, c/h), max(h/a, c/h), a > 0}
	}
}

// beyond returns the region bx + c > 0; c is 0 or below if b is 0.
func beyond(b, c float64) region {
	switch {
	case b > 0:
		return region{-c / b, math.Inf(1), false}
	case b < 0:
		return region{math.Inf(-1), -c / b, false}
	}
	return region{}
}

// logMass is the logarithm of the probability of the region.
func (r region) logMass(n Normal) float64 {
	low, high := (r.low-n.Mean)/n.Deviation, (r.high-n.Mean)/n.Deviation
	switch {
	case r.outside:
		return logAdd(logTail(high), logTail(-low))
	case low >= high:
		return math.Inf(-1)
	case low > 0:
		return logSubtract(logTail(low), logTail(high))
	case high < 0:
		return logSubtract(logTail(-high), logTail(-low))
	}
	return math.Log1p(-math.Exp(logTail(high)) - math.Exp(logTail(-low)))
}

// logTail is the logarithm of P(X > x) for a standard normal X.
func logTail(x float64) float64 {
	const far = 10 // beyond it erfc approaches subnormal numbers
	switch {
	case math.IsInf(x, 1):
		return math.Inf(-1)
	case x < 0:
		return math.Log1p(-math.Erfc(-x/math.Sqrt2) / 2)
	case x < far:
		return math.Log(math.Erfc(x/math.Sqrt2) / 2)
	}
	return -x*x/2 - math.Log(2*math.Pi)/2 - math.Log(inverseMills(x))
}

// inverseMills returns the density over the tail, x + 1/(x + 2/(x + 3/...)): Laplace's
// continued fraction. The truncation error is below a relative 1e-16 from x = 10 on.
func inverseMills(x float64) float64 {
	value := x
	for k := 40.0; k >= 1; k-- {
		value = x + k/value
	}
	return value
}

func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(a, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// logSubtract is log(exp(a) - exp(b)) for a above b.
func logSubtract(a, b float64) float64 {
	if a <= b {
		return math.Inf(-1)
	}
	return a + math.Log(-math.Expm1(b-a))
}
