package rdp_test

import (
	"math"
	"math/big"
)

// fractional works out the divergence of a Poisson sample at orders that are not
// whole: with x standard normal and v = q(exp(ux - u^2/2) - 1),
//
//	(a-1) x divergence = log(1 + E[(1+v)^a - 1 - av]).
//
// The expectation is a sum over panels, by Gauss-Legendre quadrature on each.
type fractional struct {
	q, u   float64
	turn   float64 // where v passes 1-q
	panels map[float64][]node
}

// node is one point of a panel, without the values that depend on the order.
type node struct {
	v, log1pV *big.Float
	weight    *big.Float // with the density
}

func newFractional(q, sigma float64) *fractional {
	return &fractional{
		q: q, u: 1 / sigma, turn: 1/sigma/2 + (math.Log1p(-q)-math.Log(q))*sigma, panels: map[float64][]node{},
	}
}

// moment returns (a-1) x divergence at an order above 1.
func (f *fractional) moment(order float64) *big.Float {
	peak := math.Inf(-1)
	ends := f.ends(order)
	for _, x := range ends {
		peak = math.Max(peak, f.roughly(x, order))
	}
	total := float(1)
	for i := 1; i < len(ends); i++ {
		low, high := ends[i-1], ends[i]
		most := math.Max(f.roughly((low+high)/2, order), math.Max(f.roughly(low, order), f.roughly(high, order)))
		if most > peak-60 {
			total = sum(total, f.integral(low, high, order))
		}
	}
	return logarithm(total)
}

// ends are those of panels no wider than 1, nor than half their distance from
// the turn: there 1+v has a zero at the distance pi/u from the real line.
func (f *fractional) ends(order float64) []float64 {
	ends := []float64{-14}
	for x, far := -14.0, math.Max(2, order)*f.u+14; x < far; ends = append(ends, x) {
		x += math.Min(1, math.Max(0.5/f.u, math.Abs(x-f.turn)/2))
	}
	return ends
}

// roughly is the logarithm of the integrand but for a factor of about order^2.
func (f *fractional) roughly(x, order float64) float64 {
	e := f.u*x - f.u*f.u/2
	logV := math.Log(f.q) + math.Log(math.Abs(math.Expm1(e)))
	if e > 30 {
		logV = math.Log(f.q) + e
	}
	log1pV := math.Max(logV, 0) + math.Log1p(math.Exp(-math.Abs(logV)))
	return -x*x/2 + 2*logV + (order-2)*log1pV
}

// integral is that of the density times (1+v)^a - 1 - av over one panel.
func (f *fractional) integral(low, high, order float64) *big.Float {
	nodes, ok := f.panels[low]
	if !ok {
		nodes = f.nodes(low, high)
		f.panels[low] = nodes
	}
	a, total := float(order), zero()
	for _, n := range nodes {
		excess := difference(difference(exponential(product(a, n.log1pV)), float(1)), product(a, n.v))
		total = sum(total, product(n.weight, excess))
	}
	return total
}

func (f *fractional) nodes(low, high float64) []node {
	centre, half := float((low+high)/2), float((high-low)/2)
	u := float(f.u)
	offset := quotient(product(u, u), float(2))
	var nodes []node
	for _, l := range legendre {
		x := sum(centre, product(half, l.x))
		v := product(float(f.q), difference(exponential(difference(product(u, x), offset)), float(1)))
		density := quotient(exponential(quotient(product(x, x), float(-2))), rootTwoPi)
		nodes = append(nodes, node{v, logarithm(sum(float(1), v)), product(product(half, l.weight), density)})
	}
	return nodes
}

// legendre has the nodes and weights of Gauss-Legendre quadrature on [-1, 1]: the
// zeros of a Legendre polynomial, by Newton's iteration.
var legendre = func() (nodes []struct{ x, weight *big.Float }) {
	const n = 16
	for i := range n {
		x := float(math.Cos(math.Pi * (float64(i) + 0.75) / (n + 0.5)))
		var slope *big.Float
		for range 6 {
			before, p := float(1), x
			for k := 2.0; k <= n; k++ {
				next := difference(product(float(2*k-1), product(x, p)), product(float(k-1), before))
				before, p = p, quotient(next, float(k))
			}
			slope = quotient(product(float(n), difference(product(x, p), before)), difference(product(x, x), float(1)))
			x = difference(x, quotient(p, slope))
		}
		weight := quotient(float(2), product(difference(float(1), product(x, x)), product(slope, slope)))
		nodes = append(nodes, struct{ x, weight *big.Float }{x, weight})
	}
	return nodes
}()

// rootTwoPi is sqrt(2 pi), with Machin's formula for pi.
var rootTwoPi = func() *big.Float {
	inverseTangent := func(n float64) *big.Float { // of 1/n
		total, power := zero(), quotient(float(1), float(n))
		for k := 1.0; k < precision; k += 2 {
			total = sum(total, quotient(power, float(k)))
			power = quotient(power, float(-n*n))
		}
		return total
	}
	quarter := difference(product(float(4), inverseTangent(5)), inverseTangent(239))
	return zero().Sqrt(product(float(8), quarter))
}()
