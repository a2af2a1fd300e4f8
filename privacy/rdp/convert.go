package rdp

import (
	"math"

	"coalmine/internal/numbers"
	"coalmine/internal/registry"
)

// Conversion names the theorem that turns Rényi divergence into (epsilon,
// delta). An epsilon means little without it.
type Conversion string

// The conversions. Both hold; they differ in tightness.
const (
	// Classic is epsilon = r + log(1/delta)/(a-1) (Mironov 2017, Proposition
	// 3), used in papers before 2020.
	Classic Conversion = "classic"
	// Improved is epsilon = r + log(1-1/a) - log(delta a)/(a-1) (Canonne,
	// Kamath and Steinke 2020, The Discrete Gaussian for Differential Privacy,
	// Proposition 12), used in today's libraries. It is never larger.
	Improved Conversion = "improved"
)

var theorems = registry.New("conversion", func(t Theorem) Conversion { return t.Conversion },
	Theorem{Classic, "r + log(1/delta)/(a-1), best over the orders a of a divergence r", "Mironov 2017, Proposition 3", classic},
	Theorem{Improved, "r + log(1-1/a) - log(delta a)/(a-1), never larger", "Canonne, Kamath and Steinke 2020, Proposition 12", improved},
)

// Theorem describes a conversion.
type Theorem struct {
	Conversion Conversion
	// Summary gives the formula of epsilon in one line, Source its proof.
	Summary, Source string

	// epsilon converts a divergence, above 0 and finite, at an order above 1.
	epsilon func(divergence, order, delta float64) float64
}

// Theorems lists all conversions.
func Theorems() []Theorem { return theorems.Entries() }

// Choices lists the conversions for an experiment file.
func (Conversion) Choices() []string { return theorems.Words() }

// Validate returns an error if the conversion is unknown.
func (c Conversion) Validate() error {
	_, err := theorems.Find(c)
	return err
}

// Epsilon returns the smallest epsilon that the curve gives at delta, within
// (0, 1), and the order that gives it. Epsilon is 0 or above; it is +Inf, with
// order 0, if no order bounds it or Validate rejects the conversion.
func (c Curve) Epsilon(delta float64, conversion Conversion) (epsilon, order float64) {
	theorem, err := theorems.Find(conversion)
	if err != nil {
		return math.Inf(1), 0
	}
	epsilon = math.Inf(1)
	for i, a := range c.orders {
		e := c.values[i] // 0 for equal distributions, +Inf without a bound
		if e != 0 && !math.IsInf(e, 1) {
			e = theorem.epsilon(e, a, delta)
		}
		if e < epsilon {
			epsilon, order = e, a
		}
	}
	return epsilon, order
}

func classic(divergence, order, delta float64) float64 {
	return divergence - numbers.Log(delta)/(order-1)
}

func improved(divergence, order, delta float64) float64 {
	// The total variation distance is at most sqrt(1-exp(-KL)), and no Rényi divergence is below KL
	// (Bretagnolle and Huber 1978). If delta is at least that, epsilon is 0.
	if delta*delta+math.Expm1(-divergence) > 0 {
		return 0
	}
	log := math.Log(delta * order)
	if delta < 1e-290 { // the product may round to another subnormal number
		log = numbers.Log(delta) + math.Log(order)
	}
	e := divergence + math.Log1p(-1/order) - log/(order-1)
	return math.Max(0, e)
}
