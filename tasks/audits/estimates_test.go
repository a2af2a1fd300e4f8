package audits

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// near reports whether two numbers agree to a relative 1e-9: gonum's quantiles of Student's t
// are good to 1e-10.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }

// Values of scipy.stats.t.interval.
func TestMeansHaveTheIntervalOfStudent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values              []float64
		mean, sd, low, high float64
	}{
		{[]float64{18.04, 19.48}, 18.76, 1.01823376490863, 9.61153258976888, 27.9084674102311},
		{[]float64{24.99, 21.98, 15.08}, 20.6833333333333, 5.08065284518961, 8.06229199981155, 33.3043746668551},
		{[]float64{19.98, 18.13, 20.45, 15.18, 20.73}, 18.894, 2.31024457579712, 16.0254524831872, 21.7625475168128},
		{
			[]float64{20.71, 24.73, 20.95, 21.53, 15.52, 26.76, 14.25, 23.31, 19.01, 17.36},
			20.413, 3.97423661432817, 17.5700023920508, 23.2559976079492,
		},
	} {
		m := NewEstimate(c.values)
		if m.N != len(c.values) || !near(float64(m.Mean), c.mean) || !near(*m.SD, c.sd) || !near(*m.Low, c.low) || !near(*m.High, c.high) {
			t.Errorf("%v: %v, sd %v, %v to %v; want %+v", c.values, m.Mean, *m.SD, *m.Low, *m.High, c)
		}
	}
}

func TestOneMeasurementHasNoSpread(t *testing.T) {
	t.Parallel()
	if m := NewEstimate([]float64{3}); m.N != 1 || m.Mean != 3 || m.SD != nil || m.Low != nil || m.High != nil {
		t.Errorf("%+v", m)
	}
	if m := NewEstimate(nil); m != nil {
		t.Errorf("%+v", m)
	}
	if m := NewEstimate([]float64{0.1, 0.1, 0.1}); *m.SD != 0 || m.Mean != 0.1 || m.Low != nil || m.High != nil {
		t.Errorf("%+v", m)
	}
}

// Of 1000 intervals of five normal numbers at least 925 contain their mean: with a coverage
// of 95%, fewer do with probability 3e-4. The seed is fixed.
func TestTheIntervalOfAMeanCoversTheTruth(t *testing.T) {
	t.Parallel()
	rng, covered := rand.New(rand.NewPCG(7, 3)), 0
	for range 1000 {
		values := make([]float64, 5)
		for i := range values {
			values[i] = 20 + 3*rng.NormFloat64()
		}
		if m := NewEstimate(values); *m.Low <= 20 && 20 <= *m.High {
			covered++
		}
	}
	if covered < 925 {
		t.Errorf("%d of 1000 intervals contain the truth", covered)
	}
}

func TestEstimatesOfNumbersNearTheEndOfTheFloatRange(t *testing.T) {
	t.Parallel()
	small, large := NewEstimate([]float64{1, 2, 3}), NewEstimate([]float64{0x1p1000, 2 * 0x1p1000, 3 * 0x1p1000})
	if large.Mean != 0x1p1000*small.Mean || *large.SD != 0x1p1000**small.SD || *large.Low != 0x1p1000**small.Low || large.Infinite {
		t.Errorf("%+v is not 2^1000 times %+v", large, small)
	}
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{1, math.Inf(1), 3}, `{"n":3,"mean":null,"sd":null,"low":null,"high":null,"infinite":true}`},
		{[]float64{math.Inf(1)}, `{"n":1,"mean":null,"sd":null,"low":null,"high":null,"infinite":true}`},
		{[]float64{0x1p1023, 0x1.8p1023}, `{"n":2,"mean":1.1235582092889474e+308,"sd":3.177902515384116e+307,"low":null,"high":null,"infinite":true}`},
		{[]float64{1, 2, 3}, `{"n":3,"mean":2,"sd":1,"low":-0.48413771175033027,"high":4.48413771175033}`},
	} {
		data, err := json.Marshal(NewEstimate(c.values))
		if err != nil || string(data) != c.want {
			t.Errorf("%v: %s (%v), want %s", c.values, data, err, c.want)
		}
	}
}

func TestClipBoundsIntervalsToRange(t *testing.T) {
	t.Parallel()
	for _, values := range [][]float64{{0.5, 0.65}, {0.001, 0.005}, {0.4, 0.5, 0.6}, {0.5, 0.5}, {1}} {
		e, whole := NewEstimate(values), NewEstimate(values)
		e.Clip(0, 1)
		if e.Mean != whole.Mean || (e.Low == nil) != (whole.Low == nil) {
			t.Errorf("%v: %+v of %+v", values, e, whole)
		}
		if e.Low != nil && (*e.Low != max(0, *whole.Low) || *e.High != min(1, *whole.High)) {
			t.Errorf("%v: %g to %g of %g to %g", values, *e.Low, *e.High, *whole.Low, *whole.High)
		}
	}
}

// The answers to questions with Enough are those of the whole simulation, by fewer audits; a statement about the same
// evidence draws none again.
func TestASimulationEndsWhenItsAnswerIsKnown(t *testing.T) {
	t.Parallel()
	drawn := 0
	draw := func(sizes []int, leak float64) func(*rand.Rand) float64 {
		return func(rng *rand.Rand) float64 { drawn++; return rng.Float64() + leak }
	}
	above := func(_ []int, limit float64) func(float64) bool {
		return func(x float64) bool { return x > limit }
	}
	for _, leak := range []float64{0, 0.3, 0.79, 0.8, 0.81, 1} {
		whole := Simulated(Trials, 1, draw, above)(Question{Sizes: []int{3}, Leak: leak})
		drawn = 0
		s := NewSimulation(Trials, draw)
		power := s.Power(1, above)
		enough := func(power float64) bool { return power >= 0.8 }
		found := power(Question{Sizes: []int{3}, Leak: leak, Enough: enough})
		if enough(found) != enough(whole) {
			t.Errorf("leak %g: power %g by %d audits, %g by all", leak, found, drawn, whole)
		}
		if few := leak == 0 || leak == 0.3 || leak == 1; few && drawn > Trials*9/10 {
			t.Errorf("leak %g: %d audits of %d decide that the power is %g", leak, drawn, Trials, whole)
		}
		if again := power(Question{Sizes: []int{3}, Leak: leak}); again != whole {
			t.Errorf("leak %g: power %g after the question, want %g", leak, again, whole)
		}
		if s.Power(2, above)(Question{Sizes: []int{3}, Leak: leak}); drawn != Trials {
			t.Errorf("leak %g: %d audits are drawn for two statements, want %d", leak, drawn, Trials)
		}
	}
}
