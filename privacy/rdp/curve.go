package rdp

import (
	"fmt"
	"math"
	"slices"
)

// Curve is the Rényi divergence bound of a mechanism at a set of orders. The zero Curve holds no
// orders and bounds nothing; the mechanisms of this package make curves.
type Curve struct {
	orders []float64
	values []float64
}

// DefaultOrders returns the default orders of curves: fine steps up to 11,
// where the optimum of most trainings lies, whole numbers up to 64, and a few
// up to 1024 for very small values of epsilon.
func DefaultOrders() []float64 {
	orders := []float64{1.01, 1.02, 1.05}
	for tenths := 11; tenths < 110; tenths++ {
		orders = append(orders, float64(tenths)/10)
	}
	for n := 11; n < 64; n++ {
		orders = append(orders, float64(n))
	}
	for octave := 64.0; octave < 1024; octave *= 2 {
		for quarter := range 4 {
			orders = append(orders, octave*(1+float64(quarter)/4))
		}
	}
	return append(orders, 1024)
}

// WholeOrders returns the whole numbers among DefaultOrders, from 2 on.
func WholeOrders() []float64 {
	return slices.DeleteFunc(DefaultOrders(), func(order float64) bool { return order != math.Trunc(order) })
}

// newCurve evaluates divergence at orders, after checking them.
func newCurve(orders []float64, divergence func(order float64) float64) (Curve, error) {
	if len(orders) == 0 {
		return Curve{}, fmt.Errorf("no Rényi orders: expected at least one above 1")
	}
	values := make([]float64, len(orders))
	for i, order := range orders {
		if !(order > 1) {
			return Curve{}, fmt.Errorf("Rényi order %v: expected a number above 1", order)
		}
		if math.IsInf(order, 1) {
			values[i] = math.Inf(1) // Gaussian noise has no bounded privacy loss
			continue
		}
		values[i] = divergence(order)
	}
	return Curve{orders: slices.Clone(orders), values: values}, nil
}

// newSampledCurve is newCurve for noise of sigma on samples of rate q. It replaces a divergence
// that underflows to 0.
func newSampledCurve(q, sigma float64, orders []float64, divergence func(order float64) float64) (Curve, error) {
	least := minDivergence(q, sigma)
	return newCurve(orders, func(order float64) float64 { return math.Max(divergence(order), least) })
}

// minDivergence returns a lower bound, above 0, on the divergence of a mechanism that reveals
// anything: a divergence of 0 would mean equal distributions, with epsilon 0 at every delta.
func minDivergence(q, sigma float64) float64 {
	if q == 0 || math.IsInf(sigma, 1) {
		return 0
	}
	return math.SmallestNonzeroFloat64
}

// Orders returns the orders of the curve, as given to the mechanism.
func (c Curve) Orders() []float64 { return slices.Clone(c.orders) }

// Values returns the divergence at each of Orders, 0 or above, possibly +Inf.
func (c Curve) Values() []float64 { return slices.Clone(c.values) }

// Times returns the curve of rounds independent executions of the mechanism, each of which may
// depend on earlier outputs (Mironov 2017, Proposition 1). rounds is 0 or above.
func (c Curve) Times(rounds int) Curve { return c.Scaled(float64(rounds)) }

// Scaled returns the curve with every divergence times a factor, 0 or above. For a Gaussian
// mechanism this multiplies the squared ratio of sensitivity and noise by the factor.
func (c Curve) Scaled(factor float64) Curve {
	out := Curve{orders: c.orders, values: make([]float64, len(c.values))}
	if factor == 0 {
		return out
	}
	for i, v := range c.values {
		out.values[i] = factor * v
	}
	return out
}

// Sum returns the curve of several mechanisms on the same data, each of which may depend on earlier
// outputs (Mironov 2017, Proposition 1), at their common orders. It is an error if there is no such
// order.
func Sum(curves ...Curve) (Curve, error) {
	if len(curves) == 0 {
		return Curve{}, fmt.Errorf("no curves to compose: expected at least one")
	}
	var sum Curve
	for i, order := range curves[0].orders {
		total := curves[0].values[i]
		common := true
		for _, c := range curves[1:] {
			value, there := c.at(order)
			total += value
			common = common && there
		}
		if common {
			sum.orders, sum.values = append(sum.orders, order), append(sum.values, total)
		}
	}
	if len(sum.orders) == 0 {
		return Curve{}, fmt.Errorf("cannot compose %d curves that have no Rényi order in common: compute them at the same ones", len(curves))
	}
	return sum, nil
}

func (c Curve) at(order float64) (float64, bool) {
	i := slices.Index(c.orders, order)
	if i < 0 {
		return 0, false
	}
	return c.values[i], true
}

// checkMechanism reports the first argument out of range. A sigma of 0 is
// allowed: it means no noise and an infinite divergence.
func checkMechanism(q, sigma float64) error {
	if !(q >= 0 && q <= 1) {
		return fmt.Errorf("sampling rate %v: expected a number from 0 to 1", q)
	}
	if !(sigma >= 0) {
		return fmt.Errorf("noise %v, relative to the sensitivity: expected 0 or above", sigma)
	}
	return nil
}

// Gaussian returns the curve a/(2 sigma^2) of the Gaussian mechanism without
// sampling (Mironov 2017, Proposition 7). sigma is 0 or above.
func Gaussian(sigma float64, orders []float64) (Curve, error) {
	if err := checkMechanism(1, sigma); err != nil {
		return Curve{}, err
	}
	return ZeroConcentrated(rho(sigma), orders)
}

// ZeroConcentrated returns the curve a x rho of a mechanism with
// rho-zero-concentrated differential privacy (Bun and Steinke 2016,
// Concentrated Differential Privacy, Definition 1.1). rho is 0 or above.
func ZeroConcentrated(rho float64, orders []float64) (Curve, error) {
	if !(rho >= 0) {
		return Curve{}, fmt.Errorf("zero-concentrated privacy %v: expected rho to be 0 or above", rho)
	}
	return newCurve(orders, func(order float64) float64 { return order * rho })
}

// rho is the zero-concentrated privacy of Gaussian noise: 1/(2 sigma^2).
func rho(sigma float64) float64 { return math.Max(squaredRatio(sigma)/2, minDivergence(1, sigma)) }

// squaredRatio is (sensitivity/noise)^2, +Inf without noise.
func squaredRatio(sigma float64) float64 { return 1 / sigma / sigma }
