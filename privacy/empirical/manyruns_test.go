package empirical_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
)

// gaussianRuns are trainings whose scores are normal, mu deviations apart.
func gaussianRuns(rng *rand.Rand, n int, mu float64) []empirical.Run {
	runs := make([]empirical.Run, n)
	for i := range runs {
		runs[i] = empirical.Run{Score: rng.NormFloat64(), Included: i%2 == 1}
		if runs[i].Included {
			runs[i].Score += mu
		}
	}
	return runs
}

// Of 500 audits of 200 trainings each, more than 43 have a bound above the truth with a probability below 3e-4 if
// 5% of bounds are. The rules are chosen on one half and judged on the other.
func TestTheManyRunBoundCovers(t *testing.T) {
	t.Parallel()
	const audits, delta, confidence = 500, 1e-5, 0.95
	rng := rand.New(rand.NewChaCha8([32]byte{8}))
	epsilon := remembered(func(r empirical.Rates) float64 { return r.Epsilon(delta, confidence) })
	shift := remembered(func(r empirical.Rates) float64 { return r.Shift(confidence) })
	for _, mu := range []float64{0, 0.5, 1.666} {
		truth := must.Get(empirical.Epsilon(empirical.Normal{Deviation: 1}, empirical.Normal{Mean: mu, Deviation: 1}, delta))(t)
		epsilons, shifts := 0, 0
		for range audits {
			runs := gaussianRuns(rng, 200, mu)
			if epsilon(empirical.ChooseRule(runs[:100], epsilon).Rates(runs[100:])) > truth {
				epsilons++
			}
			if shift(empirical.ChooseRule(runs[:100], shift).Rates(runs[100:])) > mu {
				shifts++
			}
		}
		if epsilons > 43 || shifts > 43 {
			t.Errorf("mu %g: of %d audits %d bounds of epsilon and %d of mu are above the truth", mu, audits, epsilons, shifts)
		}
	}
}

// remembered computes a value once for equal rates.
func remembered(value func(empirical.Rates) float64) func(empirical.Rates) float64 {
	values := map[empirical.Rates]float64{}
	return func(r empirical.Rates) float64 {
		v, known := values[r]
		if !known {
			v = value(r)
			values[r] = v
		}
		return v
	}
}

// 50 of 50 and 0 of 50: the ends are 0.025^(1/50) and one less that, as a binomial tail says.
func TestRatesOfPerfectRecognition(t *testing.T) {
	t.Parallel()
	r := empirical.Rates{Right: 3, Of: 50, Wrong: 7, Others: 50}.Perfect()
	right := math.Pow(0.025, 1./50)
	if got, want := r.Epsilon(1e-5, 0.95), math.Log((right-1e-5)/(1-right)); math.Abs(got-want) > 1e-9 {
		t.Errorf("epsilon %v, want %v", got, want)
	}
	if got := (empirical.Rates{Of: 50, Others: 50}).Epsilon(1e-5, 0.95); got != 0 {
		t.Errorf("epsilon %v of a rule that recognizes nothing", got)
	}
	if got := (empirical.Rates{Right: 50, Of: 50, Wrong: 50, Others: 50}).Shift(0.95); got != 0 {
		t.Errorf("shift %v of a rule that recognizes everything", got)
	}
}

func TestRulesOfBothSidesAreChosen(t *testing.T) {
	t.Parallel()
	runs := []empirical.Run{{1, false}, {2, false}, {3, true}, {4, true}}
	value := func(r empirical.Rates) float64 { return float64(r.Right - r.Wrong) }
	if got := empirical.ChooseRule(runs, value); got != (empirical.Rule{Threshold: 2.5}) {
		t.Errorf("rule %+v", got)
	}
	below := empirical.Rule{Threshold: 1, Below: true}
	if got := below.Rates(runs); got != (empirical.Rates{Right: 1, Of: 2, Others: 2}) {
		t.Errorf("rates %+v", got)
	}
}

// Without credit for sampling the training is one Gaussian mechanism, of the shift sqrt(rounds) / z.
func TestNoiseOfRatesMatchesGaussianMechanism(t *testing.T) {
	t.Parallel()
	recipe := privacy.Recipe{Population: 1000, Cohort: 100, Rounds: 16, NoiseMultiplier: 4, Delta: 1e-5, Sampling: privacy.NoSampling}
	r := empirical.Rates{Right: 45, Of: 50, Wrong: 4, Others: 50}
	got := must.Get(r.MinNoise(recipe, 0.95))(t)
	if want := 8 / r.Shift(0.95); got.NoiseMultiplier < want*(1-1e-9) || got.NoiseMultiplier > want*1.01 {
		t.Errorf("noise multiplier %v is refuted, of the Gaussian curve %v", got.NoiseMultiplier, want)
	}
	if _, err := (empirical.Rates{Right: 2, Of: 1, Others: 1}).MinNoise(recipe, 0.95); err == nil {
		t.Error("2 of 1 trainings are recognized")
	}
}

// The mean over 500 audits is within four of its standard errors, and a bias of second order, of the truth; the
// stated standard error is within 15% of the deviation of the estimates, whose own relative error is 3%.
func TestTheGaussianEstimateHasItsStandardError(t *testing.T) {
	t.Parallel()
	const audits, mu, delta = 500, 1.666, 1e-5
	truth := must.Get(empirical.Epsilon(empirical.Normal{Deviation: 1}, empirical.Normal{Mean: mu, Deviation: 1}, delta))(t)
	rng := rand.New(rand.NewChaCha8([32]byte{9}))
	var mean, squares, stated float64
	for range audits {
		var included []bool
		var scores []float64
		for _, run := range gaussianRuns(rng, 1000, mu) {
			included, scores = append(included, run.Included), append(scores, 3*run.Score-7)
		}
		e := must.Get(empirical.EstimateGaussian(included, scores, delta))(t)
		mean, squares, stated = mean+e.Epsilon/audits, squares+e.Epsilon*e.Epsilon/audits, stated+e.StandardError/audits
	}
	deviation := math.Sqrt(squares - mean*mean)
	if math.Abs(mean-truth) > 4*deviation/math.Sqrt(audits)+0.02 {
		t.Errorf("mean %g of the estimates, want %g", mean, truth)
	}
	if math.Abs(stated/deviation-1) > 0.15 {
		t.Errorf("standard error %g, and estimates deviate by %g", stated, deviation)
	}
	if _, err := empirical.EstimateGaussian([]bool{true, true, false}, []float64{1, 2, 3}, delta); err == nil {
		t.Error("an estimate from one canary that is out")
	}
}
