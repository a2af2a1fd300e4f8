package pld

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// Losses of a round with hardly any noise are counted in large units, and the bounds hold even next to
// an epsilon of 0, less than a unit.
func TestDeltaOfQuietAndLoudRoundsEnclosesIntegral(t *testing.T) {
	t.Parallel()
	loud, quiet := Step{0.3358991, 0.2657493, 1}, Step{0.0437484, 0.00176857, 1}
	for name, of := range accountants {
		changes := []change{removing, adding}
		if name == "fixed size" {
			changes = []change{replacing}
		}
		for _, epsilon := range []float64{0, 0.036077, 0.5, 20} {
			want := deltaOfBoth(loud, quiet, epsilon, changes, 40_000)
			got, err := of.delta([]Step{quiet, loud}, epsilon)
			if err != nil || got.Lower > want*(1+1e-4) || got.Upper < want*(1-1e-4) || epsilon < 1 && got.Upper > 1.1*want {
				t.Errorf("%s, epsilon %v: delta %+v (%v), integrated %v", name, epsilon, got, err, want)
			}
		}
	}
}

// In a round of all members, the component of absent members has no mass and gets no panels.
func TestRoundsOfEverybodyComposeWithSampledOnes(t *testing.T) {
	t.Parallel()
	steps := []Step{{7.938651677e-6, 1.410016795, 1}, {1, 0.00292963818, 1}}
	for name, of := range accountants {
		got, err := of.delta(steps, 865.73841428)
		least := GaussianDelta(steps[1].Sigma, 865.73841428)
		if err != nil || got.Upper < least*(1-1e-9) || got.Lower > got.Upper {
			t.Errorf("%s: delta %+v, %v; that of the round of everybody is %v", name, got, err, least)
		}
	}
	p := pair{rate: 1, sigma: 0.1, change: removing, unit: 1}
	if n := len(p.points(1e-12, resolution{})); n > 10*panelOrder {
		t.Errorf("a round of everybody has %d points", n)
	}
}

// A round without noise gives away who is in it, which may be nobody.
func TestRoundsWithoutNoiseRevealSampling(t *testing.T) {
	t.Parallel()
	for name, of := range accountants {
		steps := []Step{{0.01, 0, 1}}
		if got, err := of.delta(steps, 1); err != nil || got != (Bounds{0.01, 0.01}) {
			t.Errorf("%s: delta %+v (%v), want 0.01", name, got, err)
		}
		if got, err := of.epsilon(steps, 0.1); err != nil || got != (Bounds{}) {
			t.Errorf("%s: epsilon %+v (%v) at a delta of more than the rate, want 0", name, got, err)
		}
		if got, err := of.epsilon(steps, 0.001); err != nil || !math.IsInf(got.Lower, 1) {
			t.Errorf("%s: epsilon %+v (%v) at a delta of less than the rate, want +Inf", name, got, err)
		}
	}
}

func TestGaussianDeltaIsExactOnBothSidesOfZero(t *testing.T) {
	t.Parallel()
	if got, want := GaussianDelta(1e16, 0), 0.3989422804014327e-16; math.Abs(got/want-1) > 1e-12 {
		t.Errorf("delta at 0 with much noise is %v, want %v", got, want)
	}
	// delta(-x) is 1 - exp(-x) (1 - delta(x)).
	for _, epsilon := range []float64{0.5, 3, 1e4} {
		got, want := GaussianDelta(0.7, -epsilon), 1-math.Exp(-epsilon)*(1-GaussianDelta(0.7, epsilon))
		if !(math.Abs(got-want) < 1e-14) {
			t.Errorf("delta at %v is %v, want %v", -epsilon, got, want)
		}
	}
}

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
