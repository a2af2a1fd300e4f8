package rdp_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"coalmine/privacy/rdp"
)

// reference is a curve in high precision, at comparedOrders.
type reference []*big.Float

// comparedOrders are the whole numbers that the accountant takes, and some fractions.
var comparedOrders = append([]float64{1.01, 1.5, 2.3, 10.9}, rdp.WholeOrders()...)

// sampled returns the curve of one round, kept at or below the unsampled one.
func (n *noise) sampled(sampling string, q float64) reference {
	moment := n.poissonMoments(q)
	if sampling == "fixed-size" {
		moment = n.fixedSizeMoments(q)
	}
	var r reference
	for _, order := range comparedOrders {
		a := float(order)
		divergence := quotient(moment(order), difference(a, float(1)))
		r = append(r, least(divergence, quotient(product(a, n.u2), float(2))))
	}
	return r
}

// poissonMoments returns (a-1) x divergence at any order a.
func (n *noise) poissonMoments(q float64) func(order float64) *big.Float {
	taken, rest, between := powers(float(q)), powers(difference(float(1), float(q))), newFractional(q, n.sigma)
	return func(order float64) *big.Float {
		switch {
		case order == math.Trunc(order):
			return n.poissonMoment(taken, rest, int(order))
		case q == 1:
			return product(float(order*(order-1)/2), n.u2)
		}
		return between.moment(order)
	}
}

// fixedSizeMoments interpolates between whole orders.
func (n *noise) fixedSizeMoments(q float64) func(order float64) *big.Float {
	taken := powers(float(q))
	return func(order float64) *big.Float {
		below := math.Floor(order)
		low := n.fixedSizeMoment(taken, int(below))
		if order == below {
			return low
		}
		rise := difference(n.fixedSizeMoment(taken, int(below)+1), low)
		return sum(low, product(float(order-below), rise))
	}
}

// composed returns r, nil for none, and rounds rounds of another.
func (r reference) composed(rounds int, one reference) reference {
	var total reference
	for i, value := range one {
		total = append(total, product(float(float64(rounds)), value))
		if r != nil {
			total[i] = sum(r[i], total[i])
		}
	}
	return total
}

// epsilon returns the least bound at delta: Mironov 2017, Proposition 3, or Canonne, Kamath and
// Steinke 2020, Proposition 12, with the cut of Bretagnolle and Huber 1978.
func (r reference) epsilon(delta float64, conversion rdp.Conversion) float64 {
	d := float(delta)
	logDelta := logarithm(d)
	best := float(math.Inf(1))
	for i, value := range r {
		above := float(comparedOrders[i] - 1)
		e := difference(value, quotient(logDelta, above))
		if conversion == rdp.Improved {
			e = difference(sum(value, logs[i].lessOne), quotient(sum(logDelta, logs[i].order), above))
			distance := difference(float(1), exponential(negated(value)))
			if e.Sign() < 0 || product(d, d).Cmp(distance) > 0 {
				return 0
			}
		}
		best = least(best, e)
	}
	x, _ := best.Float64()
	return x
}

// logs are log(a) and log(1-1/a) for comparedOrders.
var logs = func() (logs []struct{ order, lessOne *big.Float }) {
	for _, a := range comparedOrders {
		order, before := logarithm(float(a)), logarithm(float(a-1))
		logs = append(logs, struct{ order, lessOne *big.Float }{order, difference(before, order)})
	}
	return logs
}()

var mechanisms = map[string]func(q, sigma float64, orders []float64) (rdp.Curve, error){
	"fixed-size": rdp.FixedSize, "poisson": rdp.Poisson,
}

var conversions = []rdp.Conversion{rdp.Classic, rdp.Improved}

// Rounds, compositions and both conversions, from the noise of half a multiplier
// of 0.01 (a user replaced) to 100, against the theorems in high precision.
func TestEpsilonMatchesHighPrecision(t *testing.T) {
	t.Parallel()
	for _, sigma := range []float64{0.005, 0.01, 0.1, 0.5, 1, 10, 100} {
		t.Run(fmt.Sprint("sigma ", sigma), func(t *testing.T) {
			t.Parallel()
			n := newNoise(sigma)
			for _, q := range []float64{1e-7, 1e-4, 0.0127, 0.3, 0.99, 1} {
				for sampling, m := range mechanisms {
					want, got := n.sampled(sampling, q), valid(m(q, sigma, comparedOrders))
					name := fmt.Sprint(sampling, ", rate ", q)
					compareDivergences(t, name, got, want)
					for _, rounds := range []int{1, 1_000, 1_000_000} {
						compareEpsilons(t, fmt.Sprint(name, ", rounds ", rounds), got.Times(rounds), reference(nil).composed(rounds, want))
					}
				}
			}
		})
	}
}

func compareDivergences(t *testing.T, name string, got rdp.Curve, want reference) {
	t.Helper()
	for i, divergence := range got.Values() {
		if exact, _ := want[i].Float64(); relative(divergence, exact) > 1e-11 {
			t.Errorf("%s, order %v: divergence %v, high precision %v", name, comparedOrders[i], divergence, exact)
		}
	}
}

func compareEpsilons(t *testing.T, name string, got rdp.Curve, want reference) {
	t.Helper()
	for _, delta := range []float64{1e-12, 1e-5, 0.3} {
		for _, conversion := range conversions {
			exact := want.epsilon(delta, conversion)
			if epsilon, order := got.Epsilon(delta, conversion); relative(epsilon, exact) > 1e-10 {
				t.Errorf("%s, delta %v, %s: epsilon %v at order %v, high precision %v", name, delta, conversion, epsilon, order, exact)
			}
		}
	}
}

// A training whose rounds differ in rate, in noise and in how they sample.
func TestEpsilonOfDifferentRoundsMatchesHighPrecision(t *testing.T) {
	t.Parallel()
	type part struct {
		sampling string
		q, sigma float64
	}
	parts := []part{{"fixed-size", 1e-3, 1}, {"poisson", 1e-5, 0.5}, {"poisson", 0.3, 10}, {"fixed-size", 1, 100}}
	rounds := make([]reference, len(parts))
	for i, p := range parts {
		rounds[i] = newNoise(p.sigma).sampled(p.sampling, p.q)
	}
	for _, times := range [][]int{{1, 1, 1, 1}, {1_000_000, 10, 1, 0}, {3, 1_000_000, 200, 50}, {0, 0, 999_999, 1_000_000}} {
		var want reference
		got := valid(rdp.Gaussian(1, comparedOrders)).Times(0)
		for i, p := range parts {
			want = want.composed(times[i], rounds[i])
			got = valid(rdp.Sum(got, valid(mechanisms[p.sampling](p.q, p.sigma, comparedOrders)).Times(times[i])))
		}
		compareEpsilons(t, fmt.Sprint("rounds ", times), got, want)
	}
}
