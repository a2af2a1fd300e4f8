package rdp_test

import (
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/rdp"
)

// The vector of TensorFlow Privacy's
// test_compute_rdp_sequence_without_replacement (rdp_accountant_test.py, before
// June 2022), which states a relative tolerance of 1e-4.
func TestFixedSizeMatchesTensorFlowPrivacy(t *testing.T) {
	t.Parallel()
	orders := []float64{1.001, 1.5, 2.5, 5, 50, 100, 256, 512, 1024, math.Inf(1)}
	want := []float64{3.4701e-3, 3.4701e-3, 4.6386e-3, 8.7634e-3, 9.8474e-2, 1.6776e2, 7.9297e2, 1.8174e3, 3.8656e3, math.Inf(1)}
	round := must.Get(rdp.FixedSize(0.01, 2.5, orders))(t)
	for i, got := range round.Times(50).Values() {
		if got != want[i] && !(relative(got, want[i]) < 1e-4) {
			t.Errorf("order %v: divergence %v, published %v", orders[i], got, want[i])
		}
	}
}

// published is a result of a paper: epsilon as printed, with half a unit in its last digit.
type published struct {
	population, cohort, rounds int
	noise, delta               float64
	epsilon, half              float64
}

// Thakkar et al. 2020 (Understanding Unintended Memorization in Federated Learning), section 4.3,
// and Augenstein et al. 2020 (Generative Models for Effective ML on Private, Decentralized
// Datasets), section 5 and the tables of section 6 and appendix C.
var papers = []published{
	{392_000, 5_000, 7_840, 1, 1e-7, 18.8, 0.05},
	{392_000, 5_000, 784, 1, 1e-7, 5.6, 0.05},
	{250_000, 1_000, 1_000, 1, 4.00e-8, 2.38, 0.005},
	{1_250_000, 1_000, 1_000, 1, 8.00e-9, 1.48, 0.005},
	{500_000, 1_000, 1_000, 1, 2.00e-8, 1.79, 0.005},
	{1_708_824, 1_000, 1_000, 1, 5.85e-9, 1.47, 0.005},
	{1_964_706, 1_000, 1_000, 1, 5.09e-9, 1.40, 0.005},
	{2_000_000, 1_000, 1_000, 1, 5.00e-9, 1.39, 0.005},
	{1_930_588, 1_000, 1_000, 1, 5.18e-9, 1.40, 0.005},
	{342_477, 5_000, 2_000, 1, 2.92e-6, 9.22, 0.005},
	{425, 10, 1_000, 0.01, 2.35e-3, 9.99e6, 0.005e6},
	{2_125, 10, 1_000, 0.01, 4.71e-4, 9.99e6, 0.005e6},
	{850, 10, 1_000, 0.01, 1.18e-3, 9.99e6, 0.005e6},
	{2_905, 10, 1_000, 0.01, 3.44e-4, 9.99e6, 0.005e6},
	{3_340, 10, 1_000, 0.01, 2.99e-4, 9.99e6, 0.005e6},
	{3_400, 10, 1_000, 0.01, 2.94e-4, 9.99e6, 0.005e6},
	{3_282, 10, 1_000, 0.01, 3.05e-4, 9.99e6, 0.005e6},
}

// With sigma = z, the classic conversion and whole orders, all of them come out as printed.
func TestFixedSizeReproducesThePapers(t *testing.T) {
	t.Parallel()
	for _, p := range papers {
		round := must.Get(rdp.FixedSize(float64(p.cohort)/float64(p.population), p.noise, rdp.WholeOrders()))(t)
		got, order := round.Times(p.rounds).Epsilon(p.delta, rdp.Classic)
		if math.Abs(got-p.epsilon) > p.half {
			t.Errorf("%+v: epsilon %v at order %v", p, got, order)
		}
	}
}

func TestFixedSizeSamplingNeverHarms(t *testing.T) {
	t.Parallel()
	orders := rdp.DefaultOrders()
	for _, sigma := range []float64{0.01, 0.5, 1, 3, 50} {
		whole := must.Get(rdp.Gaussian(sigma, orders))(t)
		for _, q := range []float64{1e-6, 0.01, 0.5, 0.99, 1} {
			sampled := must.Get(rdp.FixedSize(q, sigma, orders))(t)
			for i, v := range sampled.Values() {
				if v > whole.Values()[i]*(1+1e-12) {
					t.Errorf("q %v, sigma %v, order %v: %v sampled, %v not", q, sigma, orders[i], v, whole.Values()[i])
				}
			}
		}
	}
}

func relative(got, want float64) float64 {
	switch {
	case got == want:
		return 0
	case math.IsNaN(got):
		return math.Inf(1)
	}
	return math.Abs(got-want) / math.Abs(want)
}

// Values of the integral in numbers of 50 digits (mpmath).
func TestReplacedPairMatchesHighPrecision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ q, sigma, order, want float64 }{
		{0.01, 1, 1.5, 0.00021018790715386804},
		{0.01, 0.5, 2, 0.0067874711676380032},
		{1e-6, 0.15, 3.5, 58.436062996627794},
		{0.5, 10, 64, 0.094957930534122788},
		{0.3, 0.7, 1.01, 0.17747281684285311},
		{0.0127551, 0.5, 2.3, 0.017918495071690789},
		{1e-4, 2, 1024, 118.78065636275307},
		{0.2, 0.05, 8, 1598.1606423857896},
		{1e-6, 10, 1.01, 5.4797809390044693e-15},
	} {
		curve := must.Get(rdp.ReplacedPair(c.q, c.sigma, []float64{c.order}))(t)
		if got := curve.Values()[0]; math.Abs(got-c.want) > 1e-10*c.want {
			t.Errorf("q %v, sigma %v, order %v: %v, want %v", c.q, c.sigma, c.order, got, c.want)
		}
	}
}

// The pair of some data is below the dominating pair, which is below the bound of the
// 2019 theorem at whole orders, the ones that it covers.
func TestReplacedPairIsBetweenPoissonAndFixedSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ q, sigma float64 }{{0.01, 1}, {0.3, 0.7}, {0.001, 2}, {0.5, 5}, {1e-6, 0.2}, {0.9, 0.1}} {
		values := func(curveOf func(q, sigma float64, orders []float64) (rdp.Curve, error)) []float64 {
			curve := must.Get(curveOf(c.q, c.sigma, rdp.WholeOrders()))(t)
			return curve.Values()
		}
		pair, wang, data := values(rdp.ReplacedPair), values(rdp.FixedSize), values(rdp.Poisson)
		for i, order := range rdp.WholeOrders() {
			if pair[i] > wang[i]*(1+1e-9) || pair[i] < data[i]*(1-1e-9) {
				t.Errorf("q %v, sigma %v, order %v: %v, want it from %v to %v", c.q, c.sigma, order, pair[i], data[i], wang[i])
			}
		}
	}
}

func TestReplacedPairAtRateZeroAndOne(t *testing.T) {
	t.Parallel()
	for q, want := range map[float64]float64{0: 0, 1: 4} {
		if curve, err := rdp.ReplacedPair(q, 0.5, []float64{2}); err != nil || curve.Values()[0] != want {
			t.Errorf("q %v: %v, %v; want %v", q, curve.Values(), err, want)
		}
	}
	if _, err := rdp.ReplacedPair(2, 1, []float64{2}); err == nil {
		t.Error("a sampling rate of 2 was accepted")
	}
}
