package empirical_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/empirical"
	"coalmine/privacy/pld"
)

// The tests of jax_privacy (tests/auditing_test.py, epsilon_one_run_close) print an epsilon at
// delta 1e-6 of 10,000 scores with the canary and as many without, at evenly spaced quantiles
// of normal distributions apart by 1, 2 and 4. It tries the thresholds on the convex hull of
// both counts (386, 374 and 140 of them), each at 0.05 over their number; these are the counts
// above the best.
func TestGaussianBoundMatchesPublishedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		thresholds, guesses, correct int
		want                         float64
	}{
		{386, 406, 379, 2.164749}, {374, 938, 934, 4.7218075}, {140, 5436, 5436, 9.133752},
	} {
		o := empirical.Outcome{Units: 20_000, Guesses: c.guesses, Correct: c.correct}
		mu := must.Get(empirical.GaussianBound(o, 1-0.05/float64(c.thresholds)))(t)
		if got := pld.GaussianEpsilon(1/mu, 1e-6); math.Abs(got/c.want-1) > 1e-5 {
			t.Errorf("%d of %d: epsilon %v, published %v", c.correct, c.guesses, got, c.want)
		}
	}
}

// The same tests print these for the theorem of Steinke et al.
func TestLowerBoundMatchesThatOfTheSameScores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		thresholds, guesses, correct int
		want                         float64
	}{
		{386, 3376, 2807, 1.13346}, {374, 4666, 4499, 2.311945}, {140, 8233, 8223, 4.395568},
	} {
		o := empirical.Outcome{Units: 20_000, Guesses: c.guesses, Correct: c.correct}
		got, err := empirical.LowerBound(o, 1e-6, 1-0.05/float64(c.thresholds))
		if err != nil || math.Abs(got.Epsilon/c.want-1) > 1e-5 {
			t.Errorf("%d of %d: epsilon %v (%v), published %v", c.correct, c.guesses, got.Epsilon, err, c.want)
		}
	}
}

// randomizedResponse is the curve of a mechanism that tells the truth with odds
// exp(epsilon) to 1.
func randomizedResponse(epsilon float64) empirical.Curve {
	return func(power float64) float64 {
		return max(0, math.Exp(-epsilon)*power, math.Exp(epsilon)*power-math.Expm1(epsilon))
	}
}

// The number of right guesses about randomized response is binomial: no bound may be below
// that, and the curve loses little by averaging over coins.
func TestPValuesHoldForRandomizedResponse(t *testing.T) {
	t.Parallel()
	for _, epsilon := range []float64{0, 0.5, 1, 3} {
		for _, o := range []empirical.Outcome{{100, 60, 40}, {100, 60, 55}, {60, 60, 58}, {500, 10, 10}, {20, 20, 0}} {
			exact := empirical.PValue(o, epsilon, 0) // a binomial tail, at delta 0
			got := empirical.CurvePValue(o, randomizedResponse(epsilon))
			if got < exact*(1-1e-9) || exact < 0.1 && got > 20*exact {
				t.Errorf("%+v at epsilon %v: p %v, exact %v", o, epsilon, got, exact)
			}
		}
	}
}

// With the normal scores of 400 coins, the bound passes the true mu in at most 5% of audits:
// of 200, more than 21 with probability below 0.0002. It finds half of it in most of them.
func TestTheBoundHoldsForNormalScores(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewChaCha8([32]byte{2}))
	const mu = 2.0
	passed, useful := 0, 0
	for range 200 {
		included, scores := make([]bool, 400), make([]float64, 400)
		for i := range included {
			included[i], scores[i] = rng.Float64() < 0.5, rng.NormFloat64()
			if included[i] {
				scores[i] += mu
			}
		}
		outcome := must.Get(empirical.Guess(included, scores, 50, 50))(t)
		bound := must.Get(empirical.GaussianBound(outcome, 0.95))(t)
		if bound > mu {
			passed++
		}
		if bound > mu/2 {
			useful++
		}
	}
	if passed > 21 || useful < 150 {
		t.Errorf("of 200 bounds %d are above the true mu, and %d above half of it", passed, useful)
	}
}

func TestMoreRightGuessesRefuteMore(t *testing.T) {
	t.Parallel()
	last := 2.0
	for correct := range 61 {
		o := empirical.Outcome{Units: 200, Guesses: 60, Correct: correct}
		p := empirical.CurvePValue(o, empirical.GaussianCurve(0.7))
		if p > last || p <= 0 {
			t.Errorf("%d right guesses: p %v, one fewer %v", correct, p, last)
		}
		if last = p; p < 1 && (!empirical.Refutes(o, empirical.GaussianCurve(0.7), p*1.001) || empirical.Refutes(o, empirical.GaussianCurve(0.7), p*0.999)) {
			t.Errorf("%d right guesses: the curve is not refuted from p %v on", correct, p)
		}
	}
	if last > 1e-3 {
		t.Errorf("60 of 60 right guesses at mu 0.7: p %v", last)
	}
}
