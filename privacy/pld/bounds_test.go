package pld

import (
	"encoding/csv"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// The smoothed payoff lies between the payoff and the payoff plus the subtracted rise.
func TestSmoothingRaiseIsBounded(t *testing.T) {
	t.Parallel()
	for _, h := range []float64{1e-3, 0.03, 0.3, widest} {
		for x := -12 * h; x <= 12*h; x += h / 37 {
			payoff := math.Max(0, -math.Expm1(-x))
			smooth := upperTail(-x/h-h/2) - math.Exp(-x)*upperTail(-x/h+h/2)
			most := h * math.Exp(-x*x/(2*h*h)-x/2) / math.Sqrt(2*math.Pi)
			if rise := smooth - payoff; rise < -1e-15 || rise > most+1e-15 {
				t.Fatalf("width %v: the payoff at %v rises by %v, expected 0 to %v", h, x, rise, most)
			}
		}
	}
}

func TestSpectrumIsTheSumOfExponentials(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	offsets, masses := make([]float64, 300), make([]float64, 300)
	total := 0.0
	for i := range offsets {
		offsets[i] = 20 * random.NormFloat64()
		masses[i] = random.ExpFloat64()
		total += masses[i]
	}
	for i := range masses {
		masses[i] /= total
	}
	const spacing, n = 0.37, 100
	distance := 0.0
	for i, m := range masses {
		distance += m * math.Abs(offsets[i])
	}
	for k, got := range spectrum(offsets, masses, spacing, n) {
		want := complex(0, 0)
		for i, m := range masses {
			want += complex(m, 0) * cmplx.Exp(complex(0, float64(k)*spacing*offsets[i]))
		}
		if cmplx.Abs(got-want) > transformError+rounding*distance*spacing*float64(k) {
			t.Fatalf("frequency %d: %v, expected %v", k, got, want)
		}
	}
}

// Panels that are laid for a frequency give the same transform as panels that
// are laid for eight times as much.
func TestQuadratureHasConverged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := func(name string, low, high float64) float64 {
			return math.Exp(rapid.Float64Range(math.Log(low), math.Log(high)).Draw(t, name))
		}
		d := pair{rate: log("rate", 1e-6, 0.99), sigma: log("sigma", 0.05, 20), change: rapid.SampledFrom([]change{adding, removing, replacing}).Draw(t, "change"), unit: 1}
		one := direction{parts: []part{{pair: d, rounds: 1, rough: d.points(1e-10, resolution{})}}}
		spread := math.Sqrt(one.cumulants(0).variance)
		if spread < 1e-6 {
			return // with little noise and a high rate the loss is one number, and no tilt moves it
		}
		r := resolution{tilt: log("tilt", 0.1, 3) / spread, frequency: log("frequency", 1, 300) / spread}
		r.logMoment, _ = tilted(d.points(1e-10, r), r.tilt)
		fine := r
		fine.frequency *= 8
		mean := one.cumulants(r.tilt).mean
		got, want := transformAt(d.points(1e-10, r), r, mean), transformAt(d.points(1e-10, fine), r, mean)
		points := d.points(1e-10, r)
		logMoment, masses := tilted(points, r.tilt)
		fixed, perFrequency := transformErrors(points, masses, r.tilt, logMoment)
		if cmplx.Abs(got-want) > fixed/2+perFrequency*r.frequency {
			t.Errorf("%+v at %+v: %v, expected %v", d, r, got, want)
		}
	})
}

// transformAt returns the mean of exp(i x frequency x (loss - centre)) under the tilt.
func transformAt(points []point, r resolution, centre float64) (mean complex128) {
	_, masses := tilted(points, r.tilt)
	for i, m := range masses {
		mean += complex(m, 0) * cmplx.Exp(complex(0, r.frequency*(points[i].loss-centre)))
	}
	return mean
}

func drawStep(t *rapid.T) Step {
	log := func(name string, low, high float64) float64 {
		return math.Exp(rapid.Float64Range(math.Log(low), math.Log(high)).Draw(t, name))
	}
	return Step{Rate: log("rate", 1e-4, 0.9), Sigma: log("sigma", 0.3, 10), Rounds: int(log("rounds", 1, 1e5))}
}

func drawDelta(t *rapid.T) float64 {
	return math.Exp(rapid.Float64Range(math.Log(1e-10), math.Log(1e-3)).Draw(t, "delta"))
}

// One round has a closed form, which the composition of one must enclose.
func TestCompositionOfOneRoundEnclosesItsClosedForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, delta := drawStep(t), drawDelta(t)
		s.Rounds = 1
		want := s.epsilonOnce(delta)
		if want < 1e-9 {
			t.Skip("nothing to compare")
		}
		got := epsilonFor(partsOf([]Step{s}, rapid.SampledFrom([]change{removing, replacing}).Draw(t, "change")), delta, 0)
		if got.Lower > want*(1+1e-9) || got.Upper < want*(1-1e-9) {
			t.Errorf("%+v, delta %v: bounds %+v, exact %v", s, delta, got, want)
		}
	})
}

// The whole chain against the exact formula: nobody is left out, so that the
// losses of all rounds together are normal.
func TestCompositionEnclosesTheExactGaussian(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, delta := drawStep(t), drawDelta(t)
		s.Rate = 1
		want := GaussianEpsilon(s.Sigma/math.Sqrt(float64(s.Rounds)), delta)
		for _, seen := range []change{removing, adding, replacing} {
			got := epsilonFor(partsOf([]Step{s}, seen), delta, 0)
			if got.Lower > want*(1+1e-9) || got.Upper < want*(1-1e-9) || got.Upper-got.Lower > 2e-3*want {
				t.Errorf("%+v, delta %v: bounds %+v, exact %v", s, delta, got, want)
			}
		}
	})
}

// Losses that are counted in units larger than 1 are bounded from either side by different deltas.
func TestLargeLossesEncloseTheExactGaussian(t *testing.T) {
	t.Parallel()
	for _, s := range []Step{{1, 0.3456, 24333}, {1, 0.3, 1000000}, {1, 0.01, 50}, {1, 1e-6, 3}} {
		for _, delta := range []float64{1e-10, 1e-3} {
			want := GaussianEpsilon(s.Sigma/math.Sqrt(float64(s.Rounds)), delta)
			got := epsilonFor(partsOf([]Step{s}, removing), delta, 0)
			if got.Lower > want*(1+1e-12) || got.Upper < want*(1-1e-12) || got.Upper-got.Lower > 2e-3*want {
				t.Errorf("%+v, delta %v: bounds %+v, exact %v", s, delta, got, want)
			}
		}
	}
}

func TestEpsilonIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, delta := drawStep(t), drawDelta(t)
		more, moreDelta := s, delta
		switch rapid.SampledFrom([]string{"rounds", "rate", "noise", "delta"}).Draw(t, "what") {
		case "rounds":
			more.Rounds++
		case "rate":
			more.Rate *= 1.1
		case "noise":
			more.Sigma /= 1.1
		case "delta":
			moreDelta /= 2
		}
		less := epsilon(t, delta, s)
		if got := epsilon(t, moreDelta, more); got.Lower > got.Upper || less.Lower > got.Upper*(1+1e-9) {
			t.Errorf("%+v at %v costs %+v, but %+v at %v %+v", s, delta, less, more, moreDelta, got)
		}
	})
}

// With next to no noise every round reveals whether it contains the member, and
// epsilon is the cost of the largest number of rounds that is not too unlikely.
func TestTinyNoiseMatchesBinomial(t *testing.T) {
	t.Parallel()
	for _, sigma := range []float64{1e-5, 1e-9, 1e-30} {
		for _, c := range []struct {
			rate   float64
			rounds int
		}{{0.5, 10}, {0.1, 20}, {0.001, 1000}} {
			most := distuv.Binomial{N: float64(c.rounds), P: c.rate}
			k := 0
			for most.Survival(float64(k)) > 1e-7 {
				k++
			}
			want := float64(k) / 2 / sigma / sigma
			got := epsilon(t, 1e-7, Step{c.rate, sigma, c.rounds})
			if got.Lower > want*(1+1e-3) || got.Upper < want*(1-1e-3) || got.Upper > want*1.01 || got.Lower < want*0.99 {
				t.Errorf("sigma %v, %+v: %+v, expected about %v", sigma, c, got, want)
			}
		}
	}
}

func TestEpsilonBeyondMaxFloat64IsBoundedBelow(t *testing.T) {
	t.Parallel()
	for _, s := range []Step{{0.1, 1e-200, 1}, {0.1, 1e-200, 100}, {1, 1e-200, 1}} {
		if got := epsilon(t, 1e-7, s); got.Lower != math.MaxFloat64 || !math.IsInf(got.Upper, 1) {
			t.Errorf("%+v: %+v, expected from the largest number to infinite", s, got)
		}
	}
}

// Corner cases of valid input: the bounds are finite and close.
func TestBoundsAreCloseInCorners(t *testing.T) {
	t.Parallel()
	for _, s := range []Step{
		{0.999, 0.01, 1000000}, {1e-7, 1, 1000000}, {0.9999, 0.1, 1000000}, {0.01, 0.001, 1000}, {1e-5, 10, 100000}, {0.1, 0.3, 100000},
	} {
		if got := epsilon(t, 1e-7, s); !(got.Lower > 0 && got.Upper <= got.Lower*1.002) {
			t.Errorf("%+v: %+v, expected bounds within 0.2%%", s, got)
		}
	}
}

// For a delta near the largest, the tilt must not vanish; for a delta near the
// smallest number, and if all losses are equal, the search must end.
func TestBoundsAtExtremeDeltas(t *testing.T) {
	t.Parallel()
	for _, s := range []Step{{0.5, 1, 1000000}, {0.5, 0.3, 1000000}} {
		if got := epsilon(t, 0.5, s); !(got.Lower > 0 && got.Upper <= got.Lower*1.001) {
			t.Errorf("%+v: %+v, expected bounds within 0.1%%", s, got)
		}
	}
	for _, s := range []Step{{1e-7, 1e-300, 1 << 40}, {1e-300, 1e-300, 2}, {0.01, 1, 1000}} {
		for _, delta := range []float64{1e-300, 1e-190, 0.5} {
			if got := epsilon(t, delta, s); !(got.Lower >= 0 && got.Lower <= got.Upper) {
				t.Errorf("%+v, delta %v: %+v", s, delta, got)
			}
		}
	}
}

// The bounds on the pair that dominates samples of fixed size hold its epsilon in numbers of 170
// bits between them (testdata/reference.py), and are within 1e-4 of it.
func TestFixedSizeBoundsEncloseReference(t *testing.T) {
	t.Parallel()
	for _, row := range references(t, "testdata/replacing.csv", 43) {
		rate, sigma, rounds, delta, want := row[0], row[1], int(row[2]), row[3], row[4]
		got, err := FixedSizeEpsilon([]Step{{rate, sigma, rounds}}, delta)
		const rounded = 1e-13 // of closed forms, whose bounds are one number
		if err != nil || got.Lower > want*(1+rounded) || got.Upper < want*(1-rounded) || got.Upper > want*(1+1e-4) || got.Lower < want*(1-1e-4) {
			t.Errorf("rate %v, sigma %v, %d rounds, delta %v: %+v, %v, want %v between them", rate, sigma, rounds, delta, got, err, want)
		}
	}
}

// The epsilons of 200 random recipes, by a grid of losses (testdata/grid.py), which is good to 1e-6.
func TestFixedSizeBoundsEncloseGrid(t *testing.T) {
	t.Parallel()
	for _, row := range references(t, "testdata/grid.csv", 200) {
		rate, sigma, rounds, delta, want := row[0], row[1], int(row[2]), row[3], row[4]
		got, err := FixedSizeEpsilon([]Step{{rate, sigma, rounds}}, delta)
		const off = 1e-6
		if err != nil || got.Lower > want*(1+off) || got.Upper < want*(1-off) || got.Upper > want*(1+1e-4) || got.Lower < want*(1-1e-4) {
			t.Errorf("rate %v, sigma %v, %d rounds, delta %v: %+v, %v, want %v between them", rate, sigma, rounds, delta, got, err, want)
		}
	}
}

func references(t *testing.T, name string, count int) (numbers [][5]float64) {
	file := must.Get(os.Open(name))(t)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 1+count {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		var parsed [5]float64
		for i, text := range row {
			if parsed[i], err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(parsed[i]) {
				t.Fatalf("%v: %v", row, err)
			}
		}
		numbers = append(numbers, parsed)
	}
	return numbers
}
