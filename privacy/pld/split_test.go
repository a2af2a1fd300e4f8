package pld

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// rare lists steps whose epsilon depends on rare large losses, with deltas that they reach.
func rare(rounds int, check func(s Step, seen change, delta, guess float64)) {
	random := rand.New(rand.NewPCG(1, uint64(rounds)))
	log := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	for i := range rareSteps {
		s := Step{Rate: log(1e-6, 1e-3), Sigma: log(0.3, 2), Rounds: rounds}
		delta := log(1e-7, 0.3) * totalVariation([]Step{s})
		check(s, []change{removing, replacing}[i%2], delta, log(0.9, 1.5)*s.epsilonOnce(delta/float64(rounds)))
	}
}

// rareSteps are few, since each takes tens of milliseconds.
const rareSteps = 24

// bySplit bounds epsilon by a split alone.
func bySplit(s Step, seen change, delta, guess float64) Bounds {
	return newDirection(partsOf([]Step{s}, seen), tailError*delta, 1).epsilonBySplit(guess, delta, delta)
}

func TestASplitOfOneRoundEnclosesItsClosedForm(t *testing.T) {
	t.Parallel()
	close := 0
	rare(1, func(s Step, seen change, delta, guess float64) {
		want, got := s.epsilonOnce(delta), bySplit(s, seen, delta, guess)
		if got.Lower > want*(1+1e-9) || got.Upper < want*(1-1e-9) {
			t.Errorf("%+v, delta %v: bounds %+v, exact %v", s, delta, got, want)
		}
		if got.Upper < want*(1+1e-4) && got.Lower > want*(1-1e-4) {
			close++
		}
	})
	if close*10 < rareSteps*9 {
		t.Errorf("%d of %d intervals are within 1e-4 of the exact epsilon, want nine tenths", close, rareSteps)
	}
}

func TestASplitOfTwoRoundsEnclosesThemIntegratedDirectly(t *testing.T) {
	t.Parallel()
	rare(2, func(s Step, seen change, delta, guess float64) {
		got := bySplit(s, seen, delta, guess)
		if most := s.deltaOfTwo(got.Upper, []change{seen}); most > delta*(1+1e-6)+1e-14 {
			t.Errorf("%+v, delta %v: bounds %+v, but delta at the upper one is %v", s, delta, got, most)
		}
		if least := s.deltaOfTwo(got.Lower, []change{seen}); got.Lower > 0 && least < delta*(1-1e-6)-1e-14 {
			t.Errorf("%+v, delta %v: bounds %+v, but delta at the lower one is %v", s, delta, got, least)
		}
	})
}

// If the inversion of all sums is accurate, that of a subset gives the same result.
func TestASplitAgreesWithTheInversionOfAllSums(t *testing.T) {
	t.Parallel()
	for _, s := range []Step{{0.01, 0.5, 800}, {0.2, 3, 30}, {1e-4, 0.4, 5000}, {0.003, 0.7, 40}, {0.05, 1.5, 7000}} {
		for _, seen := range []change{removing, replacing} {
			all := epsilonFor(partsOf([]Step{s}, seen), 1e-7, 0)
			got := bySplit(s, seen, 1e-7, all.Upper)
			if got.Lower > all.Upper*(1+1e-12) || got.Upper < all.Lower*(1-1e-12) {
				t.Errorf("%+v: bounds %+v, by all sums %+v", s, got, all)
			}
		}
	}
}

// Of the recipes with rare samples these had bounds that were farthest apart. A grid of losses that is
// refined until its seventh digit stays gives the same.
func TestRareSamplesHaveCloseBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step        Step
		delta, want float64
	}{
		{Step{1.36e-5, 0.4625, 6}, 5.1e-8, 0.0790991}, {Step{7.9e-6, 0.655, 21}, 1.3e-7, 0.00185714},
		{Step{1.14e-6, 0.78, 457}, 9.1e-11, 0.00119813}, {Step{7.65e-5, 0.855, 3}, 1.3e-9, 0.01681706},
	} {
		got, err := FixedSizeEpsilon([]Step{c.step}, c.delta)
		if err != nil || got.Upper > got.Lower*(1+1e-4) || got.Upper < c.want*(1-1e-5) || got.Lower > c.want*(1+1e-5) {
			t.Errorf("%+v, delta %v: bounds %+v, %v, expected about %v", c.step, c.delta, got, err, c.want)
		}
	}
}

// Rounds with rare samples beside others, whose losses are cut together.
func TestASplitOfUnlikeRoundsEnclosesEqualOnes(t *testing.T) {
	t.Parallel()
	s, delta := Step{1.4e-6, 0.58, 900}, 3e-11
	one := bySplit(s, replacing, delta, 0.1)
	a, b := s, s
	a.Rounds, b.Rounds = 300, 600
	two := newDirection(partsOf([]Step{a, b}, replacing), tailError*delta, 1).epsilonBySplit(0.1, delta, delta)
	if !(one.Lower > 0) || math.Abs(two.Upper/one.Upper-1) > 1e-6 || math.Abs(two.Lower/one.Lower-1) > 1e-6 {
		t.Errorf("bounds %+v in one step, %+v in two", one, two)
	}
}

func TestLogarithmsAreAsExactAsTheirArguments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := cmplx.Rect(math.Exp(rapid.Float64Range(-40, -0.4).Draw(t, "log")), rapid.Float64Range(-math.Pi, math.Pi).Draw(t, "angle"))
		if back := log1p(expm1(z)); cmplx.Abs(back-z) > 1e-14*cmplx.Abs(z) {
			t.Errorf("log(1 + exp(z) - 1) = %v, expected %v", back, z)
		}
		if got := expm1(z); cmplx.Abs(got-(cmplx.Exp(z)-1)) > 1e-15 {
			t.Errorf("exp(%v) - 1 = %v", z, got)
		}
	})
}

// If hardly any member is left out, losses far below 0 are common, and near epsilon 0 they cancel
// those above it: the bound on sums with a high loss must count both.
func TestSplitOfFrequentSamplesEnclosesIntegral(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	log := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	check := func(s Step, seen change, epsilon float64) {
		want := s.deltaOfTwo(epsilon, []change{seen})
		if want < 1e-12 {
			return
		}
		d := newDirection(partsOf([]Step{s}, seen), tailError*want, 1)
		v := d.invertedBySplit(epsilon, math.Log(want), 0)
		if v == nil {
			return
		}
		if lower, upper := v.bounds(epsilon); lower > want*(1+1e-5) || upper < want*(1-1e-5) {
			t.Errorf("%+v, change %d, epsilon %v: delta within %v and %v, integrated %v", s, seen, epsilon, lower, upper, want)
		}
	}
	check(Step{Rate: 0.950212931632136, Sigma: 1.0000610370189331, Rounds: 2}, removing, 0.00025745970976324826)
	for range 40 {
		s := Step{Rate: 1 - log(1e-3, 0.5), Sigma: log(0.3, 3), Rounds: 2}
		check(s, []change{removing, adding, replacing}[random.IntN(3)], log(1e-6, 1))
	}
}
