package rdp_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/privacy/rdp"
)

// setting is a random recipe over the whole range that users may ask for.
type setting struct {
	q, sigma, delta float64
	rounds          int
	conversion      rdp.Conversion
	mechanism       func(q, sigma float64, orders []float64) (rdp.Curve, error)
}

func drawSetting(t *rapid.T) setting {
	logUniform := func(low, high float64, name string) float64 {
		return math.Exp(rapid.Float64Range(math.Log(low), math.Log(high)).Draw(t, name))
	}
	s := setting{
		q: math.Min(1, logUniform(1e-7, 1, "q")), sigma: logUniform(0.005, 100, "sigma"), delta: logUniform(1e-12, 0.5, "delta"),
		rounds:     int(logUniform(1, 1e6, "rounds")),
		conversion: rapid.SampledFrom([]rdp.Conversion{rdp.Classic, rdp.Improved}).Draw(t, "conversion"),
		mechanism:  rdp.FixedSize,
	}
	if rapid.Bool().Draw(t, "poisson") {
		s.mechanism = rdp.Poisson
	}
	return s
}

// fewOrders keeps the tests fast.
var fewOrders = []float64{1.05, 1.5, 2, 2.5, 3, 4, 6.5, 8, 16, 32, 64, 200, 1024}

func (s setting) epsilon(t *rapid.T) float64 {
	round, err := s.mechanism(s.q, s.sigma, fewOrders)
	if err != nil {
		t.Fatal(err)
	}
	epsilon, _ := round.Times(s.rounds).Epsilon(s.delta, s.conversion)
	if math.IsNaN(epsilon) || math.IsInf(epsilon, 0) || epsilon < 0 {
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
