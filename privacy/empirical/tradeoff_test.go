package empirical_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
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
		mu := largestMu(func(curve empirical.Curve) bool { return empirical.Refutes(o, curve, 0.05/float64(c.thresholds)) })
		if got := pld.GaussianEpsilon(1/mu, 1e-6); math.Abs(got/c.want-1) > 1e-5 {
			t.Errorf("%d of %d: epsilon %v, published %v", c.correct, c.guesses, got, c.want)
		}
	}
}

func largestMu(refuted func(empirical.Curve) bool) float64 {
	low, high := 0.0, 64.0
	for range 60 {
		if mu := (low + high) / 2; refuted(empirical.GaussianCurve(mu)) {
			low = mu
		} else {
			high = mu
		}
	}
	return low
}

// The same tests print these for the theorem of Steinke et al.
func TestLowerBoundMatchesPublishedScores(t *testing.T) {
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
		if empirical.Refutes(outcome, empirical.GaussianCurve(mu), 0.05) {
			passed++
		}
		if empirical.Refutes(outcome, empirical.GaussianCurve(mu/2), 0.05) {
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

// Without credit for sampling, rounds are one Gaussian mechanism, with mu = 2 sqrt(rounds) /
// z under replacement of a member, and the least noise follows from its bound.
func TestLeastNoiseMatchesGaussianMechanism(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 1000, Cohort: 100, Rounds: 16, NoiseMultiplier: 4, Delta: 1e-5, Sampling: privacy.NoSampling}
	o := empirical.Outcome{Units: 500, Guesses: 120, Correct: 110}
	got := must.Get(empirical.MinNoise([]empirical.Outcome{o}, r, 0.95))(t)
	mu := largestMu(func(curve empirical.Curve) bool { return empirical.Refutes(o, curve, 0.05) })
	// The curve is known at 24 points, which lie on or below the Gaussian's.
	if want := 8 / mu; got.NoiseMultiplier < want*(1-1e-9) || got.NoiseMultiplier > want*1.05 {
		t.Errorf("noise multiplier %v is refuted, of the Gaussian curve %v", got.NoiseMultiplier, want)
	}
	if exact := empirical.CurvePValue(o, empirical.GaussianCurve(2)); got.PValue < exact || got.PValue > 3*exact {
		t.Errorf("p %v, of the Gaussian curve %v", got.PValue, exact)
	}
	r.NoiseMultiplier = got.NoiseMultiplier
	if report, err := privacy.Account(r); err != nil || report.EpsilonProved != got.Epsilon {
		t.Errorf("epsilon %v (%v), accounted %v", got.Epsilon, err, report.EpsilonProved)
	}
}

// A recipe with more noise than is refuted is refuted by its p-value, one with less is not.
func TestTheClaimIsRefutedByItsNoise(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 2000, Cohort: 100, Rounds: 30, Delta: 1e-5, Sampling: privacy.Shuffled}
	o := empirical.Outcome{Units: 400, Guesses: 100, Correct: 75}
	free, err := empirical.MinNoise([]empirical.Outcome{o}, r, 0.95)
	if err != nil || free.PValue != 1 {
		t.Fatalf("without noise: %+v (%v)", free, err)
	}
	for _, factor := range []float64{0.9, 1.1} {
		r.NoiseMultiplier = factor * free.NoiseMultiplier
		got, err := empirical.MinNoise([]empirical.Outcome{o}, r, 0.95)
		if err != nil || got.NoiseMultiplier != free.NoiseMultiplier || (got.PValue <= 0.05) != (factor > 1) {
			t.Errorf("%v times the noise: %+v (%v), without noise %+v", factor, got, err, free)
		}
	}
}

// With 5% of the users in a round a third of the noise hides them as well as all of it hides all users.
func TestSamplingCountsForTheCurve(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 2000, Cohort: 100, Rounds: 30, Delta: 1e-5, Sampling: privacy.NoSampling}
	o := empirical.Outcome{Units: 400, Guesses: 100, Correct: 75}
	full := must.Get(empirical.MinNoise([]empirical.Outcome{o}, r, 0.95))(t)
	r.Sampling = privacy.FixedSize
	sampled, err := empirical.MinNoise([]empirical.Outcome{o}, r, 0.95)
	if err != nil || !(sampled.NoiseMultiplier < full.NoiseMultiplier/3) || !(sampled.Epsilon > 0.2) {
		t.Errorf("of samples %+v (%v), of all users %+v", sampled, err, full)
	}
}

// Several numbers of guesses share the level, and the best of them is found.
func TestSeveralNumbersOfGuessesShareTheLevel(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 1000, Cohort: 100, Rounds: 16, Delta: 1e-5, NoiseMultiplier: 20, Sampling: privacy.NoSampling}
	few, chance := empirical.Outcome{Units: 500, Guesses: 30, Correct: 30}, empirical.Outcome{Units: 500, Guesses: 120, Correct: 60}
	together := must.Get(empirical.MinNoise([]empirical.Outcome{chance, few}, r, 0.9))(t)
	alone, err := empirical.MinNoise([]empirical.Outcome{few}, r, 0.95)
	if err != nil || together.By != 1 || together.NoiseMultiplier != alone.NoiseMultiplier || together.PValue != 2*alone.PValue {
		t.Errorf("together %+v, the better alone at half of the level %+v (%v)", together, alone, err)
	}
}

func TestGuessesByChanceRefuteNoNoise(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 1000, Cohort: 100, Rounds: 3, NoiseMultiplier: 1, Delta: 1e-5}
	got, err := empirical.MinNoise([]empirical.Outcome{{Units: 100, Guesses: 40, Correct: 22}}, r, 0.95)
	if err != nil || !math.IsInf(got.NoiseMultiplier, 1) || got.Epsilon != 0 || got.PValue < 0.05 {
		t.Errorf("%+v (%v)", got, err)
	}
	if _, err := empirical.MinNoise([]empirical.Outcome{{}}, r, 0.95); err == nil {
		t.Error("an outcome without guesses was accepted")
	}
	if _, err := empirical.MinNoise(nil, r, 0.95); err == nil {
		t.Error("no outcomes were accepted")
	}
	r.Cohort = 5000
	if _, err := empirical.MinNoise([]empirical.Outcome{{Units: 100, Guesses: 40, Correct: 40}}, r, 0.95); err == nil {
		t.Error("a cohort above the population was accepted")
	}
}
