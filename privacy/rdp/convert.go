package rdp

import "math"

// Conversion names the theorem that turns Rényi divergence into (epsilon,
// delta). Both hold; they differ in tightness, so a figure of epsilon means
// little without its conversion.
type Conversion string

const (
	// Classic is epsilon = r + log(1/delta)/(a-1) (Mironov 2017,
	// Proposition 3), what papers before 2020 used.
	Classic Conversion = "classic"
	// Improved is epsilon = r + log(1-1/a) - log(delta a)/(a-1) (Canonne,
	// Kamath and Steinke 2020, The Discrete Gaussian for Differential Privacy,
	// Proposition 12), what today's libraries use. It is never larger.
	Improved Conversion = "improved"
)

// Epsilon returns the smallest epsilon that the curve gives at delta, within
// (0, 1), and the order that gives it. Epsilon is 0 or above; it is +Inf, with
// order 0, when no order bounds it.
func (c Curve) Epsilon(delta float64, conversion Conversion) (epsilon, order float64) {
	epsilon = math.Inf(1)
	for i, a := range c.orders {
		if e := convert(conversion, c.values[i], a, delta); e < epsilon {
			epsilon, order = e, a
		}
	}
	return epsilon, order
}

func convert(conversion Conversion, divergence, order, delta float64) float64 {
	if divergence == 0 || math.IsInf(divergence, 1) {
		return divergence // equal distributions, or no bound
	}
	if conversion == Improved {
		return improved(divergence, order, delta)
	}
	return divergence - math.Log(delta)/(order-1)
}

func improved(divergence, order, delta float64) float64 {
	// The total variation distance is at most sqrt(1-exp(-KL)), and no Rényi
	// divergence is below KL (Bretagnolle and Huber 1978). Where delta covers
	// that, epsilon is 0.
	if delta*delta+math.Expm1(-divergence) > 0 {
		return 0
	}
	e := divergence + math.Log1p(-1/order) - math.Log(delta*order)/(order-1)
	return math.Max(0, e)
}
