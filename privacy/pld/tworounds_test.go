package pld

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Two rounds cost the mean, over the loss of the first, of what the second costs at
// the epsilon that is left, for which there is a formula.
func TestBoundsEncloseTwoRoundsIntegratedDirectly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := func(name string, low, high float64) float64 {
			return math.Exp(rapid.Float64Range(math.Log(low), math.Log(high)).Draw(t, name))
		}
		rate, delta := log("rate", 1e-6, 0.5), log("delta", 1e-10, 0.5)
		if rapid.Bool().Draw(t, "nearly all") {
			rate = 1 - rate
		}
		s := Step{Rate: rate, Sigma: log("sigma", 0.15, 30), Rounds: 2}
		got := epsilon(t, delta, s)
		if most := s.deltaOfTwo(got.Upper); most > delta*(1+1e-6)+1e-14 {
			t.Errorf("%+v, delta %v: bounds %+v, but delta at the upper one is %v", s, delta, got, most)
		}
		if least := s.deltaOfTwo(got.Lower); got.Lower > 0 && least < delta*(1-1e-6)-1e-14 {
			t.Errorf("%+v, delta %v: bounds %+v, but delta at the lower one is %v", s, delta, got, least)
		}
	})
}

// deltaOfTwo integrates by the trapezoid rule.
func (s Step) deltaOfTwo(epsilon float64) (delta float64) {
	for _, removing := range []bool{true, false} {
		d, total := pair{rate: s.Rate, sigma: s.Sigma, removing: removing, unit: 1}, 0.0
		for _, c := range d.components() {
			const spacing = 1.0 / 200
			for g := -10.0; g <= 10; g += spacing {
				mass := c.weight * spacing * math.Exp(-g*g/2) / math.Sqrt(2*math.Pi)
				total += mass * d.deltaOnce(epsilon-d.loss(c.ratio+g/s.Sigma))
			}
		}
		delta = math.Max(delta, total)
	}
	return delta
}

// deltaOnce is P(loss > epsilon) less exp(epsilon) times that under q, at any
// epsilon: all outputs on one side of a log ratio have such a loss.
func (d pair) deltaOnce(epsilon float64) float64 {
	sign := 1.0
	if !d.removing {
		sign = -1
	}
	ratio := math.Expm1(sign*epsilon)/d.rate + 1 // of the densities with the member and without
	switch {
	case ratio <= 0 && d.removing: // all losses are above epsilon
		return -math.Expm1(epsilon)
	case ratio <= 0: // none is
		return 0
	}
	log := math.Log(ratio)
	noise := upperTail(sign * (log*d.sigma + 0.5/d.sigma))
	with := upperTail(sign * (log*d.sigma - 0.5/d.sigma))
	mixture := (1-d.rate)*noise + d.rate*with
	if d.removing {
		return mixture - math.Exp(epsilon)*noise
	}
	return noise - math.Exp(epsilon)*mixture
}
