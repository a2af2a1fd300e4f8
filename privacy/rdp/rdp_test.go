package rdp_test

import (
	"math"
	"slices"
	"testing"

	"coalmine/privacy/correlated"
	"coalmine/privacy/rdp"
)

// opacusOrders are the orders of Opacus and of DP-FTRL.
func opacusOrders() []float64 {
	var orders []float64
	for tenths := 11; tenths < 110; tenths++ {
		orders = append(orders, float64(tenths)/10)
	}
	for n := 12; n < 64; n++ {
		orders = append(orders, float64(n))
	}
	return orders
}

// valid returns a curve, and panics at an error: tables of curves are made before a test runs.
func valid(c rdp.Curve, err error) rdp.Curve {
	if err != nil {
		panic(err)
	}
	return c
}

// Values from public tests: TensorFlow Privacy (compute_dp_sgd_privacy_test.py),
// Opacus (accountants_test.py), and McMahan et al. 2018, table 1.
func TestPoissonEpsilonMatchesPublishedValues(t *testing.T) {
	t.Parallel()
	tensorFlow := []float64{1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5}
	for n := 5; n < 64; n++ {
		tensorFlow = append(tensorFlow, float64(n))
	}
	for _, c := range []struct {
		name       string
		q, sigma   float64
		rounds     int
		delta      float64
		orders     []float64
		conversion rdp.Conversion
		want       float64
		order      float64
		tolerance  float64
	}{
		{"TensorFlow Privacy, 60000", 150.0 / 60000, 1.3, 6000, 1e-5, tensorFlow, rdp.Improved, 0.7242234026109595, 19, 1e-9},
		{"TensorFlow Privacy, 100000", 100.0 / 100000, 1, 30000, 1e-7, tensorFlow, rdp.Improved, 1.4154988495444842, 13, 1e-9},
		{"TensorFlow Privacy, 1e8", 1024.0 / 1e8, 0.1, 976563, 1e-7, tensorFlow, rdp.Improved, 5907982.3113984, 1.25, 1e-6},
		{"Opacus", 0.04, 1.5, 2250, 1e-5, opacusOrders(), rdp.Improved, 7.32911117143, 3.9, 1e-9},
		{"McMahan et al.", 5000.0 / 763430, 1, 5000, 1e-9, rdp.WholeOrders(), rdp.Classic, 4.634, 9, 1e-4},
	} {
		got, order := valid(rdp.Poisson(c.q, c.sigma, c.orders)).Times(c.rounds).Epsilon(c.delta, c.conversion)
		if relative(got, c.want) > c.tolerance || order != c.order {
			t.Errorf("%s: epsilon %v at order %v, published %v at %v", c.name, got, order, c.want, c.order)
		}
	}
}

func TestConversionsMatchPublishedValues(t *testing.T) {
	t.Parallel()
	// dp_accounting: a divergence of 1.1 at all orders from 2 to 32. The curve
	// 1.1 at order 32 alone is rho = 1.1/32.
	epsilon, order := valid(rdp.ZeroConcentrated(1.1/32, []float64{32})).Epsilon(1e-5, rdp.Improved)
	if relative(epsilon, 1.32783806176) > 1e-10 || order != 32 {
		t.Errorf("improved: epsilon %v at order %v", epsilon, order)
	}
	// Gboard's Spanish model by DP-FTRL (google-research/federated, dp_ftrl).
	epsilon, _ = valid(rdp.ZeroConcentrated(0.81, opacusOrders())).Epsilon(1e-10, rdp.Improved)
	if math.Abs(epsilon-8.92) > 0.05 {
		t.Errorf("zero-concentrated 0.81: epsilon %v, published 8.90 to 8.92", epsilon)
	}
	// Bun and Steinke 2016, Proposition 1.3: the classic conversion with every order.
	for _, rho := range []float64{0.01, 0.81, 20} {
		grid, _ := valid(rdp.ZeroConcentrated(rho, rdp.DefaultOrders())).Epsilon(1e-6, rdp.Classic)
		closed := rho + 2*math.Sqrt(-rho*math.Log(1e-6))
		if grid < closed || relative(grid, closed) > 0.01 {
			t.Errorf("rho %v: %v over the orders, %v in closed form", rho, grid, closed)
		}
	}
}

// Kairouz et al. 2021, section 5: epsilon below 19.74 at noise 1.13 and below
// 2.04 at 8.83, for 1,600 steps at delta 1e-6. They come out with the classic
// conversion; the paper's second is cut to its digits, not rounded up.
func TestTreeAggregationMatchesThePaper(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ noise, classic, improved float64 }{
		{1.13, 19.735743, 18.7096098938}, {8.83, 2.0449364, 1.77319244962},
	} {
		curve := valid(tree(correlated.Participation{Rounds: 1600, Times: 1, Separation: 1}, c.noise))
		if got, _ := curve.Epsilon(1e-6, rdp.Classic); relative(got, c.classic) > 1e-6 {
			t.Errorf("noise %v: classic epsilon %v, expected %v", c.noise, got, c.classic)
		}
		if got, _ := curve.Epsilon(1e-6, rdp.Improved); relative(got, c.improved) > 1e-9 {
			t.Errorf("noise %v: improved epsilon %v, expected %v", c.noise, got, c.improved)
		}
	}
}

// Noise far below that of any training costs as much as without sampling, and takes no time.
func TestTinyNoiseCostsAsMuchAsWithoutSampling(t *testing.T) {
	t.Parallel()
	for _, sigma := range []float64{1e-7, 1e-9, 1e-150} {
		want := valid(rdp.Gaussian(sigma, rdp.DefaultOrders())).Values()
		for i, got := range valid(rdp.Poisson(0.01, sigma, rdp.DefaultOrders())).Values() {
			if relative(got, want[i]) > 1e-14 {
				t.Errorf("sigma %v: divergence %v, without sampling %v", sigma, got, want[i])
			}
		}
	}
	sampled, bound := valid(rdp.Poisson(1e-7, 1e-6, rdp.DefaultOrders())).Values(), valid(rdp.Gaussian(1e-6, rdp.DefaultOrders())).Values()
	for i, got := range sampled {
		if relative(got, bound[i]) > 1e-8 {
			t.Errorf("order %v at the last noise with credit for sampling: divergence %v, without sampling %v", rdp.DefaultOrders()[i], got, bound[i])
		}
	}
}

func TestHeterogeneousRoundsAddUp(t *testing.T) {
	t.Parallel()
	orders := []float64{2, 5, 30}
	first, second := valid(rdp.FixedSize(0.01, 1, orders)), valid(rdp.Poisson(0.1, 2, orders))
	total := valid(rdp.Sum(first.Times(3), second.Times(2)))
	for i, got := range total.Values() {
		if want := 3*first.Values()[i] + 2*second.Values()[i]; relative(got, want) > 1e-15 {
			t.Errorf("order %v: %v, expected %v", orders[i], got, want)
		}
	}
	if _, err := rdp.Sum(first, valid(rdp.Gaussian(1, []float64{3}))); err == nil {
		t.Error("curves without a common order were composed")
	}
	if _, err := rdp.Sum(); err == nil {
		t.Error("no curves at all were composed")
	}
}

// Curves at different orders are composed at those that they share.
func TestCurvesAreComposedAtCommonOrders(t *testing.T) {
	t.Parallel()
	fine, whole := valid(rdp.Gaussian(1, []float64{1.5, 2, 3, 4.5, 5})), valid(rdp.Gaussian(2, []float64{2, 4, 5}))
	for _, sum := range []rdp.Curve{valid(rdp.Sum(fine, whole)), valid(rdp.Sum(whole, fine))} {
		if !slices.Equal(sum.Orders(), []float64{2, 5}) || relative(sum.Values()[1], 5./2+5./8) > 1e-15 {
			t.Errorf("orders %v with divergences %v; expected 2 and 5, where that of order 5 is 5/2 + 5/8", sum.Orders(), sum.Values())
		}
	}
}

func TestDegenerateMechanisms(t *testing.T) {
	t.Parallel()
	orders := rdp.DefaultOrders()
	for name, mechanism := range mechanisms {
		nobody, _ := valid(mechanism(0, 1, orders)).Times(1000).Epsilon(1e-6, rdp.Classic)
		noRounds, _ := valid(mechanism(0.5, 1, orders)).Times(0).Epsilon(1e-6, rdp.Classic)
		if nobody != 0 || noRounds != 0 {
			t.Errorf("%s: epsilon %v with nobody sampled, %v without rounds, expected 0", name, nobody, noRounds)
		}
		noNoise, order := valid(mechanism(0.5, 0, orders)).Epsilon(1e-6, rdp.Improved)
		if !math.IsInf(noNoise, 1) || order != 0 {
			t.Errorf("%s: epsilon %v without noise, expected +Inf", name, noNoise)
		}
		everybody := valid(mechanism(1, 10, []float64{20})).Values()[0]
		if relative(everybody, 0.1) > 1e-15 {
			t.Errorf("%s: divergence %v with everybody sampled, expected 0.1", name, everybody)
		}
	}
}

func TestBadArgumentsAreErrors(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func() (rdp.Curve, error){
		"rate above 1":   func() (rdp.Curve, error) { return rdp.Poisson(1.1, 1, []float64{2}) },
		"negative rate":  func() (rdp.Curve, error) { return rdp.FixedSize(-0.1, 1, []float64{2}) },
		"negative noise": func() (rdp.Curve, error) { return rdp.Gaussian(-1, []float64{2}) },
		"NaN noise":      func() (rdp.Curve, error) { return rdp.FixedSize(0.5, math.NaN(), []float64{2}) },
		"order 1":        func() (rdp.Curve, error) { return rdp.Poisson(0.5, 1, []float64{1}) },
		"order below 1":  func() (rdp.Curve, error) { return rdp.FixedSize(0.5, 1, []float64{0.5}) },
		"no orders":      func() (rdp.Curve, error) { return rdp.Gaussian(1, nil) },
		"negative rho":   func() (rdp.Curve, error) { return rdp.ZeroConcentrated(-1, []float64{2}) },
		"no steps":       func() (rdp.Curve, error) { return tree(correlated.Participation{Times: 1, Separation: 1}, 1) },
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

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
