package pld

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// Two rounds cost the mean, over the loss of the first, of the second round's cost
// at the remaining epsilon, which has a closed form.
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
		bound, changes := Epsilon, []change{removing, adding}
		if rapid.Bool().Draw(t, "fixed size") {
			bound, changes = FixedSizeEpsilon, []change{replacing}
		}
		got := must.Get(bound([]Step{s}, delta))(t)
		if most := s.deltaOfTwo(got.Upper, changes); most > delta*(1+1e-6)+1e-14 {
			t.Errorf("%+v, delta %v: bounds %+v, but delta at the upper one is %v", s, delta, got, most)
		}
		if least := s.deltaOfTwo(got.Lower, changes); got.Lower > 0 && least < delta*(1-1e-6)-1e-14 {
			t.Errorf("%+v, delta %v: bounds %+v, but delta at the lower one is %v", s, delta, got, least)
		}
	})
}

// deltaOfTwo integrates by the trapezoid rule.
func (s Step) deltaOfTwo(epsilon float64, changes []change) (delta float64) {
	return deltaOfBoth(s, s, epsilon, changes, 4000)
}

// deltaOfBoth integrates two rounds over the outputs of the first, in a number of cells.
func deltaOfBoth(first, second Step, epsilon float64, changes []change, cells int) (delta float64) {
	for _, seen := range changes {
		p, q := pair{rate: first.Rate, sigma: first.Sigma, change: seen, unit: 1}, pair{rate: second.Rate, sigma: second.Sigma, change: seen, unit: 1}
		total := p.atom() * q.deltaOnce(epsilon)
		for _, c := range p.components() {
			start := max(-10, (c.above-c.ratio)*first.Sigma)
			spacing := max(0, 10-start) / float64(cells)
			for i := range cells + 1 {
				g, mass := start+float64(i)*spacing, c.weight*spacing/math.Sqrt(2*math.Pi)
				if i == 0 || i == cells {
					mass /= 2
				}
				total += mass * math.Exp(-g*g/2) * q.deltaOnce(epsilon-p.loss(c, c.ratio+g/first.Sigma))
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
	switch {
	case d.change == adding:
		sign = -1
	case d.change == replacing && epsilon < 0: // the two change places
		d.change = removing
		return -math.Expm1(epsilon) + math.Exp(epsilon)*d.deltaOnce(-epsilon)
	}
	ratio := math.Expm1(sign*epsilon)/d.rate + 1 // of the densities with the member and without
	switch {
	case ratio <= 0 && d.change != adding: // all losses are above epsilon
		return -math.Expm1(epsilon)
	case ratio <= 0: // none is
		return 0
	}
	log := math.Log(ratio)
	noise := upperTail(sign * (log*d.sigma + 0.5/d.sigma))
	with := upperTail(sign * (log*d.sigma - 0.5/d.sigma))
	mixture := (1-d.rate)*noise + d.rate*with
	if d.change != adding {
		return mixture - math.Exp(epsilon)*noise
	}
	return noise - math.Exp(epsilon)*mixture
}
