package rdp_test

import (
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/rdp"
)

// Values of the integral in numbers of 50 digits (mpmath).
func TestTheDivergenceOfAReplacementIsThatOfItsPair(t *testing.T) {
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
func TestTheDivergenceOfAReplacementIsBetweenThatOfDataAndTheTheorem(t *testing.T) {
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

func TestAReplacementOfAllOrNobodyIsPlain(t *testing.T) {
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
