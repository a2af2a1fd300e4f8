package skewnormal

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// logcdf.csv was computed by mpmath with 30 digits, see testdata/vectors.py.
func TestLogCDFMatchesHighPrecision(t *testing.T) {
	t.Parallel()
	f := must.Get(os.Open("testdata/logcdf.csv"))(t)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 50 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	number := func(text string) float64 {
		return must.Get(strconv.ParseFloat(text, 64))(t)
	}
	for _, row := range rows[1:] {
		z, shape, want := number(row[0]), number(row[1]), number(row[2])
		got := Distribution{Location: 3, Scale: 2, Shape: shape}.LogCDF(3 + 2*z)
		if !(math.Abs(got-want) <= 1e-11*math.Abs(want)) {
			t.Errorf("z %v, shape %v: %v, want %v, off by a relative %.1e", z, shape, got, want, math.Abs(got/want-1))
		}
	}
}

// Shape 0 is the normal distribution, and the mirror image of a shape has the shape of the
// other sign.
func TestTheCDFHasItsSymmetries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		z := rapid.Float64Range(-30, 30).Draw(rt, "z")
		shape := rapid.Float64Range(-200, 200).Draw(rt, "shape")
		if got, want := (Distribution{Scale: 1}).LogCDF(z), logNormalCDF(z); math.Abs(got-want) > 1e-12*math.Abs(want)+1e-300 {
			rt.Errorf("normal at %v: %v, want %v", z, got, want)
		}
		sum := Distribution{Scale: 1, Shape: shape}.CDF(z) + Distribution{Scale: 1, Shape: -shape}.CDF(-z)
		if math.Abs(sum-1) > 1e-12 {
			rt.Errorf("shape %v: the two sides of %v add up to %v", shape, z, sum)
		}
		higher := z + rapid.Float64Range(1e-6, 5).Draw(rt, "step")
		if d := (Distribution{Scale: 1, Shape: shape}); d.LogCDF(higher) < d.LogCDF(z) {
			rt.Errorf("shape %v: the CDF falls from %v at %v to %v at %v", shape, d.LogCDF(z), z, d.LogCDF(higher), higher)
		}
	})
}

func TestTheQuantileInvertsTheCDF(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{1e-300, 1e-3, 0.3, 0.9} {
		d := Distribution{Location: 50, Scale: 4, Shape: -3}
		if got := d.CDF(d.Quantile(p)); math.Abs(got/p-1) > 1e-6 {
			t.Errorf("the quantile of %v has the CDF %v", p, got)
		}
	}
}

func TestDerivativesMatchFiniteDifferences(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	l := likelihood{make([]float64, 50)}
	for i := range l.data {
		l.data[i] = rng.NormFloat64()
	}
	for _, p := range []point{{0.2, 0.1, 0.5}, {-0.5, 0.3, 2}, {1, -0.2, -8}, {0, 0, 0}} {
		const h = 1e-4
		_, gradient, curvature := l.at(p)
		for i := range 3 {
			step, back := make([]float64, 3), make([]float64, 3)
			step[i], back[i] = h, -h
			high, above, _ := l.at(p.plus(step))
			low, below, _ := l.at(p.plus(back))
			if want := (high - low) / (2 * h); math.Abs(gradient[i]-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("%+v: derivative %d is %v, by differences %v", p, i, gradient[i], want)
			}
			for j := range 3 {
				if want := -(above[j] - below[j]) / (2 * h); math.Abs(curvature.At(i, j)-want) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("%+v: curvature %d, %d is %v, by differences %v", p, i, j, curvature.At(i, j), want)
				}
			}
		}
	}
}

// fits.json has the results of scipy.stats.skewnorm.fit on some data sets. Scipy climbs
// without derivatives and stops early: a fit is as likely as its own, or more, and the
// exposure that TensorFlow Privacy extrapolates by it, -log2 of the CDF, is about the same.
func TestFitsMatchSciPy(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/fits.json"))(t)
	var all []struct {
		Data          []float64
		LogLikelihood float64 `json:"log_likelihood"`
		Distribution
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d fits: %v", len(all), err)
	}
	for i, want := range all {
		got := must.Get(FitDistribution(want.Data))(t)
		sum := 0.0
		for _, x := range want.Data {
			sum += got.LogDensity(x)
		}
		if sum < want.LogLikelihood-1e-9*math.Abs(sum) || sum > want.LogLikelihood+1e-4 {
			t.Errorf("data %d: %+v has the log-likelihood %v, scipy's %+v %v", i, got, sum, want.Distribution, want.LogLikelihood)
		}
		if x := want.Quantile(1e-6); math.Abs(got.LogCDF(x)/want.LogCDF(x)-1) > 1e-3 {
			t.Errorf("data %d: log CDF %v, scipy's %v", i, got.LogCDF(x), want.LogCDF(x))
		}
	}
}

// Where data come from is found again, wherever they lie: the fit moves and scales with
// them.
func TestAFitMovesWithItsData(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		data, moved := make([]float64, 300), make([]float64, 300)
		shift, scale := rapid.Float64Range(-100, 100).Draw(rt, "shift"), rapid.Float64Range(0.01, 100).Draw(rt, "scale")
		for i := range data {
			data[i] = rng.NormFloat64() + 2*math.Abs(rng.NormFloat64())
			moved[i] = shift - scale*data[i]
		}
		a, errA := FitDistribution(data)
		b, errB := FitDistribution(moved)
		must.Do(rt, errors.Join(errA, errB))
		for _, off := range []float64{a.Shape + b.Shape, b.Scale/scale - a.Scale, (b.Location-shift)/scale + a.Location} {
			if math.Abs(off) > 1e-4*(1+math.Abs(a.Shape)) {
				rt.Errorf("%+v, of the mirror image %+v", a, b)
			}
		}
	})
}

func TestFitRejectsDegenerateData(t *testing.T) {
	t.Parallel()
	if _, err := FitDistribution([]float64{5, 5, 5}); !errors.Is(err, ErrConstant) {
		t.Errorf("equal data: %v", err)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := FitDistribution([]float64{1, 2, bad}); err == nil {
			t.Errorf("%v was fitted", bad)
		}
	}
	// Exponential data lie on one side of 0 and want an infinite shape.
	rng, data := rand.New(rand.NewPCG(3, 4)), make([]float64, 200)
	for i := range data {
		data[i] = rng.ExpFloat64()
	}
	if d, err := FitDistribution(data); err != nil || !(d.Shape > 20) || d.Shape > MaxShape || math.IsNaN(d.Location+d.Scale) {
		t.Errorf("exponential data: %+v, %v", d, err)
	}
}

func BenchmarkFit(b *testing.B) {
	rng, data := rand.New(rand.NewPCG(1, 2)), make([]float64, 5000)
	for i := range data {
		data[i] = 50 + 4*rng.NormFloat64() + 5*math.Abs(rng.NormFloat64())
	}
	for b.Loop() {
		must.Get(FitDistribution(data))(b)
	}
}

// The moments are Azzalini's (1985), over 200,000 draws: each is off by more than five of its
// standard errors with a probability of 6e-7.
func TestDrawsAreSkewNormal(t *testing.T) {
	t.Parallel()
	d := Distribution{Location: -3, Scale: 2, Shape: 4}
	x := draws(rand.New(rand.NewPCG(7, 7)), d, 200_000)
	delta := d.Shape / math.Sqrt(1+d.Shape*d.Shape)
	shift := delta * math.Sqrt(2/math.Pi)
	mean, deviation := stat.MeanStdDev(x, nil)
	if want := d.Location + d.Scale*shift; math.Abs(mean-want) > 5*deviation/math.Sqrt(200_000) {
		t.Errorf("mean %v, want %v", mean, want)
	}
	if want := d.Scale * math.Sqrt(1-shift*shift); math.Abs(deviation/want-1) > 0.012 {
		t.Errorf("standard deviation %v, want %v", deviation, want)
	}
	some := slices.Sorted(slices.Values(x[:2000]))
	if ks := kolmogorovSmirnov(some, d.CDF); significance(ks, len(some)) < 1e-6 {
		t.Errorf("Kolmogorov and Smirnov's statistic is %v", ks)
	}
}

func calibrated(t testing.TB, costs []float64, times int) *Fit {
	t.Helper()
	fit := must.Get(newFit(costs))(t)
	p := Params{Seed: 3, Calibration: times}
	must.Do(t, p.calibrate(t.Context(), &fit))
	return &fit
}

// References of two humps fail against every simulation. Of 40 sets that are skew-normal, as
// many as ten have a p-value of 0.1 or less with a probability of 5e-3; by the plain p about
// nine do on average.
func TestCalibratedPRejectsOtherDistributionsOnly(t *testing.T) {
	t.Parallel()
	d := Distribution{Location: 60, Scale: 5, Shape: -2}
	rng := rand.New(rand.NewPCG(5, 1))
	humps := draws(rng, d, 600)
	for i := range humps {
		if i%4 == 0 {
			humps[i] += 40
		}
	}
	if fit := calibrated(t, humps, 39); *fit.CalibratedP != 1.0/40 || fit.Significance() != 1.0/40 {
		t.Errorf("p %v of two humps, want 1/40", *fit.CalibratedP)
	}
	low := 0
	for range 40 {
		if *calibrated(t, draws(rng, d, 100), 19).CalibratedP <= 0.1 {
			low++
		}
	}
	if low >= 10 {
		t.Errorf("%d of 40 skew-normal sets have a p of 0.1 or less", low)
	}
}

func TestSignificanceWithoutCalibrationIsPlainP(t *testing.T) {
	t.Parallel()
	fit := calibrated(t, draws(rand.New(rand.NewPCG(5, 1)), Distribution{Scale: 1, Shape: 1}, 100), 0)
	if fit.CalibratedP != nil || fit.Significance() != fit.P {
		t.Errorf("fit %+v", fit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&Params{Calibration: 1}).calibrate(ctx, fit); !errors.Is(err, context.Canceled) {
		t.Errorf("a calibration whose context has ended: %v", err)
	}
}

// How often skew-normal references fail the test, by the plain p-value and the calibrated
// one: 2,000 sets of 400, 39 simulations each. Right are 5% and 2.5%.
func BenchmarkCalibration(b *testing.B) {
	d := Distribution{Location: 60, Scale: 5, Shape: -2}
	for b.Loop() {
		const sets = 2000
		rng := rand.New(rand.NewPCG(1, 1))
		var plain, known [sets]float64
		for i := range sets {
			fit := calibrated(b, draws(rng, d, 400), 39)
			plain[i], known[i] = fit.P, *fit.CalibratedP
		}
		for name, p := range map[string][]float64{"plain": plain[:], "calibrated": known[:]} {
			for limit, of := range map[float64]string{0.025: "2.5%", 0.05: "5%", 0.5: "50%"} {
				b.ReportMetric(100*float64(len(slices.DeleteFunc(slices.Clone(p), func(x float64) bool { return x > limit+1e-12 })))/sets, name+"-%-to-"+of)
			}
		}
	}
}
