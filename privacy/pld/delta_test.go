package pld

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
)

// accountants are Epsilon and Delta, of Poisson samples and of such of fixed size.
var accountants = map[string]struct {
	epsilon func([]Step, float64) (Bounds, error)
	delta   func([]Step, float64) (Bounds, error)
}{"poisson": {Epsilon, Delta}, "fixed size": {FixedSizeEpsilon, FixedSizeDelta}}

// Delta at the epsilon found for a delta is that delta, to a ten-thousandth.
func TestDeltaIsNoLooserThanEpsilon(t *testing.T) {
	t.Parallel()
	check := func(s Step, delta float64) {
		for name, of := range accountants {
			b, err := of.epsilon([]Step{s}, delta)
			above, errAbove := of.delta([]Step{s}, b.Upper)
			below, errBelow := of.delta([]Step{s}, b.Lower)
			if err != nil || errAbove != nil || errBelow != nil {
				t.Fatal(err, errAbove, errBelow)
			}
			if above.Upper > delta*(1+1e-4) || b.Lower > 0 && below.Lower < delta*(1-1e-4) {
				t.Errorf("%s, %+v: epsilon %+v at delta %v, where delta is %+v and %+v", name, s, b, delta, below, above)
			}
		}
	}
	drawn := 0
	rare(60, func(s Step, _ change, delta, _ float64) {
		if drawn++; drawn%4 == 0 { // each takes a fifth of a second
			check(s, delta)
		}
	})
	random := rand.New(rand.NewPCG(3, 4))
	log := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	for range 12 {
		check(Step{Rate: log(1e-6, 0.5), Sigma: log(0.15, 10), Rounds: int(log(1, 1e5))}, log(1e-12, 1e-5))
	}
}

// Of these recipes rounding errors hide delta from an inversion of all sums.
func TestDeltaOfRareSamplesHasCloseBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step           Step
		epsilon, delta float64
	}{
		{Step{1.36e-5, 0.4625, 6}, 0.0790991, 5.1e-8}, {Step{7.9e-6, 0.655, 21}, 0.00185714, 1.3e-7},
		{Step{1.14e-6, 0.78, 457}, 0.00119813, 9.1e-11}, {Step{7.65e-5, 0.855, 3}, 0.01681706, 1.3e-9},
	} {
		got, err := FixedSizeDelta([]Step{c.step}, c.epsilon)
		if err != nil || got.Upper > got.Lower*(1+2e-4) || math.Abs(got.Upper/c.delta-1) > 1e-4 {
			t.Errorf("%+v, epsilon %v: delta %+v, %v, expected about %v", c.step, c.epsilon, got, err, c.delta)
		}
	}
}

func TestDeltaOfTwoRoundsEnclosesThemIntegratedDirectly(t *testing.T) {
	t.Parallel()
	rare(2, func(s Step, seen change, delta, guess float64) {
		want, got := s.deltaOfTwo(guess, []change{seen}), deltaFor(partsOf([]Step{s}, seen), guess)
		if got.Lower > want*(1+1e-5) || got.Upper < want*(1-1e-5) {
			t.Errorf("%+v, epsilon %v: delta %+v, integrated %v", s, guess, got, want)
		}
	})
}

// Rounding errors at epsilon 0 exceed the whole cost of rare samples.
func TestDeltaIsAtMostWhatItIsAtZero(t *testing.T) {
	t.Parallel()
	for _, rounds := range []int{1, 2, 50} {
		s := Step{Rate: 1e-6, Sigma: 0.15, Rounds: rounds}
		most := float64(rounds) * 1e-6
		for name, of := range accountants {
			got, err := of.delta([]Step{s}, 0)
			if err != nil || got.Upper > most || got.Lower > got.Upper || got.Lower < 0.9e-6 {
				t.Errorf("%s, %d rounds: delta %+v (%v) at epsilon 0, at most %v", name, rounds, got, err, most)
			}
		}
	}
}

// An epsilon next to 0 is a share of losses that no quadrature resolves.
func TestEpsilonNextToZeroTakesNoTime(t *testing.T) {
	t.Parallel()
	s := Step{Rate: 0.002, Sigma: 0.5, Rounds: 2}
	for name, of := range accountants {
		atZero := must.Get(of.delta([]Step{s}, 0))(t)
		for _, epsilon := range []float64{1e-66, 1e-12, 1e-6} {
			if got, err := of.delta([]Step{s}, epsilon); err != nil || got.Upper < atZero.Lower*(1-1e-5) || got.Lower > atZero.Upper {
				t.Errorf("%s: delta %+v (%v) at epsilon %v, %+v at 0", name, got, err, epsilon, atZero)
			}
		}
		if got, err := of.epsilon([]Step{s}, atZero.Lower*(1-1e-9)); err != nil || got.Upper > 1e-3 {
			t.Errorf("%s: epsilon %+v (%v) at a delta next to %v", name, got, err, atZero)
		}
	}
}

// By mpmath with 400 digits, from Balle and Wang 2018, Theorem 8: deltas that are subnormal, and noise
// beside which the two tails of the formula are nearly one.
func TestGaussianEpsilonAtTheEndsOfTheNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sigma, delta, epsilon float64 }{
		{0.5, 5e-324, 78.778434937946879}, {0.5, 1e-310, 77.167470846165642}, {0.5, 1e-300, 75.933749958764132},
		{2, 5e-324, 19.302060535217306}, {0.01, 5e-324, 8845.8944963024982}, {100, 5e-324, 0.38257457212642163},
		{1e6, 1e-9, 2.7178059287972228e-6}, {1e12, 1e-13, 9.0234634751028046e-13}, {1e15, 1e-16, 9.0234634751003478e-16},
	} {
		if got := GaussianEpsilon(c.sigma, c.delta); math.Abs(got/c.epsilon-1) > 1e-9 {
			t.Errorf("sigma %v, delta %v: epsilon %v, want %v", c.sigma, c.delta, got, c.epsilon)
		}
	}
}
