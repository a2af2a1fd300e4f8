package pld

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
)

func epsilon(t must.T, delta float64, steps ...Step) Bounds {
	return must.Get(Epsilon(steps, delta))(t)
}

// Exact values by Balle and Wang's formula in 60-digit arithmetic.
func TestGaussianEpsilonIsExact(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sigma, delta, want float64 }{
		{0.5, 1e-5, 9.99725614643}, {1, 1e-5, 4.37717809568}, {1, 1e-6, 4.88655411746},
		{2, 1e-5, 1.99309140442}, {4, 1e-6, 1.06070186233}, {10, 1e-9, 0.535148231553},
		{4.530877117, 1e-6, 0.927392338},
		// Much noise, computed in privacy/conformance/exact.py.
		{1e60, 1e-300, 3.300622203817e-59}, {1e100, 1e-110, 6.070461369086e-100}, {1e200, 1e-205, 3.923561400271e-200},
	} {
		if got := GaussianEpsilon(c.sigma, c.delta); math.Abs(got/c.want-1) > 1e-9 {
			t.Errorf("sigma %v, delta %v: epsilon %v, expected %v", c.sigma, c.delta, got, c.want)
		}
	}
	// dp_accounting's PLD tests: three rounds at sqrt(3) have delta(1) of
	// 0.126936; noise 1/3 has delta(1) of 0.78760074.
	if got := GaussianDelta(1, 1); math.Abs(got-0.1269367375) > 1e-10 {
		t.Errorf("delta(1) of unit noise is %v", got)
	}
	if got := GaussianDelta(1.0/3, 1); math.Abs(got-0.78760074) > 1e-8 {
		t.Errorf("delta(1) of noise 1/3 is %v", got)
	}
}

// dp_accounting's tests print these of rounds without sampling; the last two are
// its calibrations, noise 1/3 for one query and 10 for 25 of sensitivity 6.
func TestGaussianEpsilonMatchesPublishedValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		noise            float64
		rounds           int
		delta, want, off float64
	}{
		"once per epoch":         {1, 5, 1e-6, 12.595, 5e-4},
		"no sampling":            {0.7, 2, 1e-5, 10.1224946, 1e-6},
		"neither":                {0.35, 2, 1e-5, 24.7160779, 1e-6},
		"one query":              {1.0 / 3, 1, 0.78760074, 1, 1e-7},
		"25 queries of 6, noise": {10.0 / 6, 25, 0.78760074, 1, 1e-7},
	} {
		if got := GaussianEpsilon(c.noise/math.Sqrt(float64(c.rounds)), c.delta); math.Abs(got-c.want) > c.off {
			t.Errorf("%s: epsilon %v, published %v", name, got, c.want)
		}
	}
}

func TestGaussianEpsilonInvertsDelta(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sigma := math.Exp(rapid.Float64Range(math.Log(0.005), math.Log(50)).Draw(t, "sigma"))
		delta := math.Exp(rapid.Float64Range(math.Log(1e-12), math.Log(0.3)).Draw(t, "delta"))
		e := GaussianEpsilon(sigma, delta)
		if got := GaussianDelta(sigma, e); got > delta || (e > 0 && got < delta*(1-1e-6)) {
			t.Errorf("sigma %v: epsilon %v has delta %v, asked for %v", sigma, e, got, delta)
		}
	})
}

// Published values, with the digits that are given. The published ones are
// upper bounds on a coarser grid than ours, or estimates within 0.01.
func TestBoundsMatchPublishedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		step             Step
		delta            float64
		want, above, low float64 // ours is within [want-low, want+above]
	}{
		// dp_accounting, dp_sgd example: 1.2 epochs at rate 0.01.
		{"dp_accounting example", Step{0.01, 0.7, 120}, 1e-5, 2.4612381, 2e-4, 2e-4},
		// TensorFlow Privacy's statement: 1.199 for 781.25 steps, rounded up.
		{"TensorFlow Privacy", Step{0.0064, 1, 782}, 1e-6, 1.199, 5e-4, 5e-4},
		// Opacus, PRV accountant with an error of 0.01.
		{"Opacus", Step{0.04, 1.5, 2249}, 1e-5, 6.777395712150674, 0, 0.011},
		// dp_accounting: the least noise for epsilon 1.
		{"one round", Step{0.01, 0.67379294682, 1}, 1e-5, 1, 1e-4, 1e-4},
		// The same example with microbatches, whose noise counts half.
		{"dp_accounting, microbatches", Step{0.01, 0.35, 120}, 1e-5, 18.6977407, 1e-4, 1e-4},
		// Opacus, noise for epsilon 8 by the PRV accountant, found to 0.01 or so.
		{"Opacus, 90 epochs", Step{0.04, 1.34765625, 2250}, 1e-5, 8, 0, 0.02},
		{"Opacus, 2000 steps", Step{0.04, 1.2915, 2000}, 1e-5, 8, 0, 0.02},
		{"25 rounds", Step{0.001, 3.20956502598 / 6, 25}, 1e-5, 1, 1e-4, 1e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := epsilon(t, c.delta, c.step)
			if !(got.Lower <= got.Upper) || got.Upper > c.want+c.above || got.Upper < c.want-c.low {
				t.Errorf("bounds %+v, published %v", got, c.want)
			}
			if apart := 0.0005 * math.Max(1, c.want/5); got.Upper > got.Lower*(1+apart) {
				t.Errorf("bounds %+v are further apart than %v of the lower one", got, apart)
			}
		})
	}
}

// Results of a second program, on a grid of losses.
func TestFixedSizeBoundsMatchSecondProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step        Step
		delta, want float64
	}{
		{Step{5000.0 / 392000, 0.5, 7840}, 1e-7, 71.70}, {Step{5000.0 / 392000, 0.5, 784}, 1e-7, 20.85},
		{Step{5000.0 / 342477, 0.5, 2000}, 2.92e-6, 32.12}, {Step{1000.0 / 250000, 0.5, 1000}, 4e-8, 10.56},
		{Step{1000.0 / 500000, 0.5, 1000}, 2e-8, 7.64}, {Step{1000.0 / 1250000, 0.5, 1000}, 8e-9, 5.79},
		{Step{1000.0 / 2000000, 0.5, 1000}, 5e-9, 5.21},
	} {
		got := must.Get(FixedSizeEpsilon([]Step{c.step}, c.delta))(t)
		if math.Abs(got.Upper-c.want) > 0.005+1e-9 || got.Lower > got.Upper || got.Upper > got.Lower*1.0005 {
			t.Errorf("%+v, delta %v: %+v, expected %v", c.step, c.delta, got, c.want)
		}
	}
}

// The pair that dominates replacements attains the losses above 0 of removing, and more
// of them are above 0.
func TestReplacingCostsMoreThanRemovingAtTheSameNoise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, delta := drawStep(t), drawDelta(t)
		fixed := must.Get(FixedSizeEpsilon([]Step{s}, delta))(t)
		if poisson := epsilon(t, delta, s); fixed.Upper < poisson.Lower*(1-1e-9) {
			t.Errorf("%+v, delta %v: replacing costs %+v, removing %+v", s, delta, fixed, poisson)
		}
		if d, err := FixedSizeDelta([]Step{s}, fixed.Upper); err != nil || d.Lower > delta*(1+1e-6) {
			t.Errorf("%+v: at the epsilon %v for delta %v, delta is %+v (%v)", s, fixed.Upper, delta, d, err)
		}
	})
}

func TestDeltaMatchesPublishedValue(t *testing.T) {
	t.Parallel()
	// dp_accounting: rate 0.2, noise 0.5, three rounds have delta(1) of 0.15594.
	got := must.Get(Delta([]Step{{0.2, 0.5, 3}}, 1))(t)
	if math.Abs(got.Upper-0.15594) > 1e-5 || got.Lower > got.Upper || got.Upper-got.Lower > 1e-5 {
		t.Errorf("delta(1) within %+v, published 0.15594", got)
	}
}

// When nearly everybody is sampled the loss is nearly normal, and the exact
// value is known, far below the rounding error of an untilted transform too.
func TestBoundsEncloseTheExactGaussian(t *testing.T) {
	t.Parallel()
	for _, delta := range []float64{0.1, 1e-5, 1e-12, 1e-30} {
		got := epsilon(t, delta, Step{Rate: 1 - 1e-12, Sigma: 4, Rounds: 16})
		want := GaussianEpsilon(1, delta)
		if got.Lower > want*(1+1e-9) || got.Upper < want*(1-1e-9) || got.Upper-got.Lower > 1e-3*want {
			t.Errorf("delta %v: bounds %+v, exact %v", delta, got, want)
		}
	}
}

func TestOneRoundBoundsEncloseTheHockeyStick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := math.Exp(rapid.Float64Range(math.Log(1e-3), math.Log(0.9)).Draw(t, "q"))
		sigma := math.Exp(rapid.Float64Range(math.Log(0.4), math.Log(3)).Draw(t, "sigma"))
		e := rapid.Float64Range(0, 2).Draw(t, "epsilon")
		s := Step{q, sigma, 1}
		got := deltaFor(partsOf([]Step{s}, removing), e)
		exact := must.Get(Delta([]Step{s}, e))(t)
		// The mixture exceeds exp(e) times the noise beyond one output.
		x := sigma*sigma*math.Log1p(math.Expm1(e)/q) + 0.5
		noise, shifted := upperTail(x/sigma), upperTail((x-1)/sigma)
		want := (1-q)*noise + q*shifted - math.Exp(e)*noise
		if got.Lower > want*(1+1e-6)+1e-15 || got.Upper < want*(1-1e-6)-1e-15 {
			t.Errorf("q %v, sigma %v, epsilon %v: delta within %+v, exact %v", q, sigma, e, got, want)
		}
		if math.Abs(exact.Upper-want) > 1e-9*want+1e-15 || exact.Lower != exact.Upper {
			t.Errorf("q %v, sigma %v, epsilon %v: delta %+v, exact %v", q, sigma, e, exact, want)
		}
	})
}

func TestRoundsMayDiffer(t *testing.T) {
	t.Parallel()
	whole := epsilon(t, 1e-6, Step{0.02, 1, 60})
	split := epsilon(t, 1e-6, Step{0.02, 1, 20}, Step{0.02, 1, 40})
	if math.Abs(split.Upper/whole.Upper-1) > 1e-9 {
		t.Errorf("60 rounds cost %+v, 20 and 40 of them %+v", whole, split)
	}
	more := epsilon(t, 1e-6, Step{0.02, 1, 60}, Step{0.1, 2, 10})
	if more.Lower <= whole.Upper {
		t.Errorf("ten more rounds cost nothing: %+v, then %+v", whole, more)
	}
}

func TestDegenerateSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []Step
		want  float64
	}{
		"nothing":      {nil, 0},
		"nobody":       {[]Step{{0, 1, 10}}, 0},
		"no rounds":    {[]Step{{0.5, 1, 0}}, 0},
		"no noise":     {[]Step{{0.5, 0, 1}}, math.Inf(1)},
		"no sampling":  {[]Step{{1, 2, 4}}, GaussianEpsilon(1, 1e-5)},
		"endless loud": {[]Step{{0.5, math.Inf(1), 1}}, 0},
	} {
		if got := epsilon(t, 1e-5, c.steps...); got.Lower != c.want || got.Upper != c.want {
			t.Errorf("%s: %+v, expected %v", name, got, c.want)
		}
	}
}

func TestBadArgumentsAreErrors(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func() (Bounds, error){
		"delta 0":         func() (Bounds, error) { return Epsilon(nil, 0) },
		"delta 1":         func() (Bounds, error) { return Epsilon(nil, 1) },
		"epsilon below 0": func() (Bounds, error) { return Delta(nil, -1) },
		"rate above 1":    func() (Bounds, error) { return Epsilon([]Step{{2, 1, 1}}, 0.1) },
		"negative noise":  func() (Bounds, error) { return Epsilon([]Step{{0.5, -1, 1}}, 0.1) },
		"negative rounds": func() (Bounds, error) { return Delta([]Step{{0.5, 1, -1}}, 1) },
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// With hardly any noise, every round that could show the member has the loss of its
// absence, and such rounds together have delta 1 - exp(epsilon) (1 - rate)^rounds.
func TestLossesThatNearlyAllAreTheSame(t *testing.T) {
	t.Parallel()
	const rate, delta = 1.3353e-4, 0.2269
	for _, rounds := range []int{1700, 1753, 1940, 2200} {
		want := math.Max(0, math.Log1p(-delta)-float64(rounds)*math.Log1p(-rate))
		got := epsilonFor(partsOf([]Step{{Rate: rate, Sigma: 0.056, Rounds: rounds}}, adding), delta, 0)
		if got.Lower > want || got.Upper < want || got.Upper-got.Lower > 1e-3*want {
			t.Errorf("%d rounds: %+v, expected %v", rounds, got, want)
		}
	}
	if low, high := newInversion(direction{}, setting{}).bounds(1); low != 0 || high != 1 {
		t.Errorf("without a setting: delta within %v and %v", low, high)
	}
}

// accountants are Epsilon and Delta, of Poisson samples and of such of fixed size.
var accountants = map[string]struct {
	epsilon func([]Step, float64) (Bounds, error)
	delta   func([]Step, float64) (Bounds, error)
}{"poisson": {Epsilon, Delta}, "fixed size": {FixedSizeEpsilon, FixedSizeDelta}}

// Delta at the epsilon found for a delta is that delta, to a ten-thousandth.
func TestDeltaInvertsEpsilon(t *testing.T) {
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
func TestDeltaAtZeroIsBoundedByRates(t *testing.T) {
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
