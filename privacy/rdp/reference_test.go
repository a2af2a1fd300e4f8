package rdp_test

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/rdp"
)

// readRows returns the rows of a CSV file in testdata below its header.
func readRows(t *testing.T, name string) [][]string {
	t.Helper()
	f := must.Get(os.Open("testdata/" + name))(t)
	defer f.Close()
	rows := must.Get(csv.NewReader(f).ReadAll())(t)
	return rows[1:]
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	return must.Get(strconv.ParseFloat(text, 64))(t)
}

// testdata/reference.py computes reference.csv and conversions.csv from the theorems, in high precision. The logs name the
// largest relative differences.
func TestCurvesMatchHighPrecision(t *testing.T) {
	t.Parallel()
	type key struct{ mechanism, q, sigma string }
	type point struct{ order, want float64 }
	points := map[key][]point{}
	for _, r := range readRows(t, "reference.csv") {
		k := key{r[0], r[1], r[2]}
		points[k] = append(points[k], point{number(t, r[3]), number(t, r[4])})
	}
	worst := 0.0
	for k, ps := range points {
		var orders []float64
		for _, p := range ps {
			orders = append(orders, p.order)
		}
		curve := must.Get(mechanisms[k.mechanism](number(t, k.q), number(t, k.sigma), orders))(t)
		for i, got := range curve.Values() {
			off := relative(got, ps[i].want)
			if worst = max(worst, off); off > 1e-11 {
				t.Errorf("%+v order %v: divergence %v, high precision %v", k, orders[i], got, ps[i].want)
			}
		}
	}
	t.Logf("divergences: %.2g", worst)
}

// mechanisms are the sampled ones, by the names in testdata/reference.csv.
var mechanisms = map[string]func(q, sigma float64, orders []float64) (rdp.Curve, error){
	"fixed-size": rdp.FixedSize, "poisson": rdp.Poisson,
}

var conversions = []rdp.Conversion{rdp.Classic, rdp.Improved}

// A row of conversions.csv has the least epsilon of the curve a x rho over these orders a.
func TestConversionsMatchHighPrecision(t *testing.T) {
	t.Parallel()
	worst, orders := 0.0, []float64{1.01, 1.5, 2, 2.3, 3, 4, 9, 10.9, 64, 128, 257, 1024}
	for _, r := range readRows(t, "conversions.csv") {
		curve := must.Get(rdp.ZeroConcentrated(number(t, r[0]), orders))(t)
		got, order := curve.Epsilon(number(t, r[1]), rdp.Conversion(r[2]))
		off := relative(got, number(t, r[3]))
		if worst = max(worst, off); off > 1e-11 {
			t.Errorf("%v: epsilon %v at order %v", r, got, order)
		}
	}
	t.Logf("epsilons: %.2g", worst)
}

// testdata/autodp-poisson-rdp.csv is the table in autodp's
// unit_test_dp_sgd_poisson_sampling_add_remove.py, which TensorFlow Privacy
// computed. Its fractional orders are a truncated series.
func TestPoissonMatchesAutodp(t *testing.T) {
	t.Parallel()
	for _, r := range readRows(t, "autodp-poisson-rdp.csv") {
		order, q, sigma, rounds, want := number(t, r[0]), number(t, r[1]), number(t, r[2]), number(t, r[3]), number(t, r[4])
		curve := must.Get(rdp.Poisson(q, sigma, []float64{order}))(t)
		tolerance := 2e-11
		if order != math.Trunc(order) {
			tolerance = 1e-8
		}
		if got := curve.Times(int(rounds)).Values()[0]; relative(got, want) > tolerance {
			t.Errorf("%v: divergence %v", r, got)
		}
	}
}

func TestPoissonMatchesTensorFlowPrivacy(t *testing.T) {
	t.Parallel()
	orders := []float64{1.5, 2.5, 5, 50, 100, math.Inf(1)}
	// rdp_accountant_test.py, test_compute_rdp_sequence; the tolerance is its own.
	want := []float64{6.5007e-04, 1.0854e-03, 2.1808e-03, 2.3846e-02, 1.6742e+02, math.Inf(1)}
	curve := must.Get(rdp.Poisson(0.01, 2.5, orders))(t)
	for i, got := range curve.Times(50).Values() {
		if got != want[i] && !(relative(got, want[i]) < 1e-4) {
			t.Errorf("order %v: divergence %v, published %v", orders[i], got, want[i])
		}
	}
}

// TensorFlow Privacy checks its series at these points, at which others failed;
// the two ways to compute a whole order must agree as the order nears it.
func TestPoissonIsContinuousAtWholeOrders(t *testing.T) {
	t.Parallel()
	for _, p := range []struct{ q, sigma, order float64 }{
		{1e-6, 0.1, 256}, {1e-6, 1, 27}, {1e-3, 1, 2}, {0.01, 10, 20}, {0.99, 0.1, 256}, {0.4, 12, 59}, {1e-7, 0.001, 11},
	} {
		beside := p.order * (1 + 1e-12)
		curve := must.Get(rdp.Poisson(p.q, p.sigma, []float64{p.order, beside}))(t)
		if v := curve.Values(); !(v[0] > 0) || relative(v[1], v[0]) > 1e-9 {
			t.Errorf("%+v: divergence %v, beside it %v", p, v[0], v[1])
		}
	}
}
