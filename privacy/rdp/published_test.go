package rdp_test

import (
	"math"
	"testing"

	"coalmine/privacy/rdp"
)

// libraryOrders are those of dp_accounting.
func libraryOrders() []float64 {
	orders := opacusOrders()
	orders = append(orders, 11)
	return append(orders, 128, 256, 512, 1024)
}

func improvedEpsilon(c rdp.Curve, rounds int, delta float64) float64 {
	epsilon, _ := c.Times(rounds).Epsilon(delta, rdp.Improved)
	return epsilon
}

// testdata/fixed-size-steps.csv holds one round of cohorts of fixed size, as an
// independent program computed it in 60 digits; ten are given.
func TestFixedSizeRoundsMatchHighPrecision(t *testing.T) {
	t.Parallel()
	for _, r := range readRows(t, "fixed-size-steps.csv") {
		curve := valid(rdp.FixedSize(number(t, r[0]), number(t, r[1]), []float64{number(t, r[2])}))
		if got := curve.Values()[0]; relative(got, number(t, r[3])) > 1e-9 {
			t.Errorf("rate %s, sigma %s, order %s: divergence %v, want %s", r[0], r[1], r[2], got, r[3])
		}
	}
}

// The effect of taking the noise relative to the clip norm (sigma = z) if one user is replaced, so
// that sigma is z/2; and the cost of Poisson cohorts of that size. From the same program, over the
// orders of dp_accounting; the last row's Poisson value is over whole orders alone.
func TestTheSensitivityTrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		population, cohort, rounds int
		z, delta                   float64
		clip, replaced, poisson    float64
	}{
		{342_477, 100, 1600, 1, 1e-6, 0.6855500705, 4.107795197, 0.677502885},
		{342_477, 1000, 1600, 1, 1e-6, 1.523873178, 13.91810753, 1.206057872},
		{342_477, 5000, 1600, 1, 1e-6, 7.834837114, 49.24206138, 4.359495428},
		{342_477, 5000, 1600, 2, 1e-6, 3.161218788, 7.834837114, 1.496735906},
		{10_000, 100, 1000, 1, 1e-5, 3.576111482, 20.98707244, 2.107753075},
	} {
		q, orders := float64(c.cohort)/float64(c.population), rdp.WholeOrders()
		for what, v := range map[string]struct{ got, want float64 }{
			"sigma = z":   {improvedEpsilon(valid(rdp.FixedSize(q, c.z, orders)), c.rounds, c.delta), c.clip},
			"sigma = z/2": {improvedEpsilon(valid(rdp.FixedSize(q, c.z/2, orders)), c.rounds, c.delta), c.replaced},
			"Poisson":     {improvedEpsilon(valid(rdp.Poisson(q, c.z, orders)), c.rounds, c.delta), c.poisson},
		} {
			if relative(v.got, v.want) > 1e-9 {
				t.Errorf("%+v, %s: epsilon %v, want %v", c, what, v.got, v.want)
			}
		}
	}
}

// TensorFlow Privacy checks its logarithms at these points against quadrature,
// within 1e-4; they must be positive, and those of neighbouring orders ordered.
func TestDivergencesAtDifficultPointsAreSound(t *testing.T) {
	t.Parallel()
	for _, p := range []struct{ q, sigma, order float64 }{
		{1e-7, 0.1, 1.01}, {1e-6, 0.1, 256}, {1e-5, 0.1, 256.1}, {1e-6, 1, 27}, {1e-4, 1, 1.5},
		{1e-3, 1, 2}, {0.01, 10, 20}, {0.1, 100, 20.5}, {0.99, 0.1, 256}, {0.999, 100, 256.1},
		{0.4, 12, 58.5}, {0.4, 12, 58.75}, {0.4, 12, 59}, {0.4, 12, 59.25}, {0.4, 12, 59.5},
	} {
		curve := valid(rdp.Poisson(p.q, p.sigma, []float64{p.order * (1 - 1e-3), p.order, p.order * (1 + 1e-3)}))
		v := curve.Values()
		if !(v[0] > 0 && v[0] <= v[1] && v[1] <= v[2] && v[2] < math.Inf(1)) {
			t.Errorf("%+v: divergences %v around the order", p, v)
		}
	}
	if got := valid(rdp.Poisson(0.1, 2, []float64{5})).Times(10).Values()[0]; relative(got, 0.077369685) > 1e-7 {
		t.Errorf("ten rounds at rate 0.1, noise 2: divergence %v at order 5, published 0.07737", got)
	}
}

// TensorFlow Privacy's statements and dp_accounting's example, as their tests print them; with
// microbatches the noise is relative to twice the clip norm. dp_accounting adds up a series without
// its signs at fractional orders, and is above the exact values that stand here by 2e-5 and 1.2e-3.
func TestEpsilonMatchesPublishedStatements(t *testing.T) {
	t.Parallel()
	orders := libraryOrders()
	for _, c := range []struct {
		name            string
		curve           rdp.Curve
		rounds          int
		delta           float64
		want, tolerance float64
	}{
		{"Poisson, 781 of 781.25 steps", valid(rdp.Poisson(0.0064, 1, orders)), 781, 1e-6, 1.616, 3e-4},
		{"once per epoch", valid(rdp.Gaussian(1, orders)), 5, 1e-6, 13.376, 4e-5},
		{"1.2 epochs", valid(rdp.Poisson(0.01, 0.7, orders)), 120, 1e-5, 3.239192, 1e-6},
		{"1.2 epochs, microbatches", valid(rdp.Poisson(0.01, 0.35, orders)), 120, 1e-5, 22.597036, 1e-7},
		{"1.2 epochs, no sampling", valid(rdp.Gaussian(0.7, orders)), 2, 1e-5, 10.8602036, 1e-8},
		{"1.2 epochs, neither", valid(rdp.Gaussian(0.35, orders)), 2, 1e-5, 26.2880374, 1e-8},
		{"Opacus, noise for epsilon 8", valid(rdp.Poisson(0.04, 1.416, opacusOrders())), 2250, 1e-5, 8, 1e-3},
		{"Opacus, noise for epsilon 8, 2000 steps", valid(rdp.Poisson(0.04, 1.3562, opacusOrders())), 2000, 1e-5, 8, 1e-3},
		{"Gaussian for epsilon 1", valid(rdp.Gaussian(4.530877117, fineOrders())), 1, 1e-6, 1, 1e-6},
	} {
		if got := improvedEpsilon(c.curve, c.rounds, c.delta); relative(got, c.want) > c.tolerance {
			t.Errorf("%s: epsilon %v, published %v", c.name, got, c.want)
		}
	}
}

// fineOrders are a thousandth apart, as in dp_accounting's calibration test.
func fineOrders() []float64 {
	var orders []float64
	for i := 1001; i < 50_000; i++ {
		orders = append(orders, float64(i)/1000)
	}
	return orders
}
