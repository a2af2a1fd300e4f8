package empirical_test

import (
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
)

// Without credit for sampling, rounds are one Gaussian mechanism, with mu = 2 sqrt(rounds) /
// z under replacement of a member, and the least noise follows from its bound.
func TestLeastNoiseIsThatOfTheGaussianMechanism(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 1000, Cohort: 100, Rounds: 16, NoiseMultiplier: 4, Delta: 1e-5, Sampling: privacy.NoSampling}
	o := empirical.Outcome{Units: 500, Guesses: 120, Correct: 110}
	got := must.Get(empirical.MinNoise([]empirical.Outcome{o}, r, 0.95))(t)
	mu := must.Get(empirical.GaussianBound(o, 0.95))(t)
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
