package skewnormal

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/must"
)

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
func TestTheCalibratedPTellsOtherDistributionsAndOnlyThese(t *testing.T) {
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

func TestWithoutCalibrationThePIsThatOfTheTest(t *testing.T) {
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
