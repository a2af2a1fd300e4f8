package rdp_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/privacy/rdp"
)

// setting is a random recipe over all that users may ask for, and its corners.
type setting struct {
	sampling        string
	q, sigma, delta float64
	rounds          int
	conversion      rdp.Conversion
}

func drawSetting(t *rapid.T) setting {
	return setting{
		sampling:   rapid.SampledFrom([]string{"fixed-size", "poisson"}).Draw(t, "sampling"),
		q:          orCorner(t, "q", math.Min(1, logUniform(t, "q", 1e-7, 1)), 1e-12, 0.5, 1-1e-9, 1),
		sigma:      orCorner(t, "sigma", logUniform(t, "sigma", 0.005, 100), 1e-9, 1e-6, 1.0001e-6, 1e6),
		delta:      orCorner(t, "delta", logUniform(t, "delta", 1e-12, 0.5), 1e-300, 0.999999),
		rounds:     int(orCorner(t, "rounds", logUniform(t, "rounds", 1, 1e6), 0, 1, 1<<40)),
		conversion: rapid.SampledFrom(conversions).Draw(t, "conversion"),
	}
}

func logUniform(t *rapid.T, name string, low, high float64) float64 {
	return math.Exp(rapid.Float64Range(math.Log(low), math.Log(high)).Draw(t, name))
}

// orCorner is, one time in four, one of the corners.
func orCorner(t *rapid.T, name string, usual float64, corners ...float64) float64 {
	if rapid.IntRange(0, 3).Draw(t, name+" at a corner") == 0 {
		return rapid.SampledFrom(corners).Draw(t, name)
	}
	return usual
}

// fewOrders keeps the tests fast.
var fewOrders = []float64{1.05, 1.5, 2, 2.5, 3, 4, 6.5, 8, 16, 32, 64, 200, 1024}

func (s setting) epsilon(t *rapid.T) float64 {
	round := must.Get(mechanisms[s.sampling](s.q, s.sigma, fewOrders))(t)
	epsilon, _ := round.Times(s.rounds).Epsilon(s.delta, s.conversion)
	if math.IsNaN(epsilon) || epsilon < 0 || math.IsInf(epsilon, 0) != (s.sigma == 0 && s.rounds > 0) {
		t.Fatalf("%+v: epsilon %v", s, epsilon)
	}
	return epsilon
}

func TestEpsilonIsFiniteAndMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := drawSetting(t)
		factor := rapid.Float64Range(1.001, 5).Draw(t, "factor")
		atLeast := func(name string, change func(*setting)) {
			worse := base
			change(&worse)
			if was, is := base.epsilon(t), worse.epsilon(t); is < was*(1-1e-9) {
				t.Errorf("%s: epsilon fell from %v to %v; from %+v to %+v", name, was, is, base, worse)
			}
		}
		atLeast("more rounds", func(s *setting) { s.rounds = int(float64(s.rounds)*factor) + 1 })
		atLeast("a higher rate", func(s *setting) { s.q = math.Min(1, s.q*factor) })
		atLeast("less noise", func(s *setting) { s.sigma /= factor })
		atLeast("no noise", func(s *setting) { s.sigma = 0 })
		atLeast("everybody", func(s *setting) { s.q = 1 })
		atLeast("hardly less noise", func(s *setting) { s.sigma /= 1 + 1e-6 })
		atLeast("a smaller delta", func(s *setting) { s.delta /= factor })
	})
}

func TestImprovedConversionIsNeverLarger(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSetting(t)
		s.conversion = rdp.Classic
		classic := s.epsilon(t)
		s.conversion = rdp.Improved
		if improved := s.epsilon(t); improved > classic {
			t.Errorf("%+v: improved %v, classic %v", s, improved, classic)
		}
	})
}
