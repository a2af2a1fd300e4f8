package rdp_test

import (
	"math"
	"slices"
	"testing"

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
		curve := valid(tree(rdp.Participation{Steps: 1600, Times: 1, Separation: 1}, c.noise))
		if got, _ := curve.Epsilon(1e-6, rdp.Classic); relative(got, c.classic) > 1e-6 {
			t.Errorf("noise %v: classic epsilon %v, expected %v", c.noise, got, c.classic)
		}
		if got, _ := curve.Epsilon(1e-6, rdp.Improved); relative(got, c.improved) > 1e-9 {
			t.Errorf("noise %v: improved epsilon %v, expected %v", c.noise, got, c.improved)
		}
	}
}

// Noise far below that of any training costs as much as without sampling, and takes no time.
func TestNextToNoNoiseIsBoundedWithoutSampling(t *testing.T) {
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
	for name, mechanism := range map[string]func(q, sigma float64, orders []float64) (rdp.Curve, error){
		"fixed-size": rdp.FixedSize, "poisson": rdp.Poisson,
	} {
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
		"no steps":       func() (rdp.Curve, error) { return tree(rdp.Participation{Times: 1, Separation: 1}, 1) },
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
