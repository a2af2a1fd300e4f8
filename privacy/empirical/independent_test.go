package empirical_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
)

// pair is the probabilities of a few outcomes with a member and, in reverse order, without: its curve is
// symmetric.
type pair []float64

// curve is exact: the convex function through the shares of the most likely outcomes.
func (p pair) curve() empirical.Curve {
	var order []int
	for i := range p {
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int {
		return int(math.Copysign(1, p[j]*p[len(p)-1-i]-p[i]*p[len(p)-1-j]))
	})
	return func(power float64) float64 {
		wrong := 0.0
		for _, i := range order {
			share := 1.0
			if p[i] > 0 {
				share = min(1, power/p[i])
			}
			if power <= 0 {
				break
			}
			wrong += share * p[len(p)-1-i]
			power -= share * p[i]
		}
		return wrong
	}
}

// atLeast enumerates the outcomes of m pairs and the rightness of the c most certain guesses.
func (p pair) atLeast(m, c, v int) float64 {
	total := 0.0
	var walk func(chosen []float64, mass float64)
	walk = func(chosen []float64, mass float64) {
		if len(chosen) < m {
			for i := range p {
				one, other := p[i], p[len(p)-1-i]
				if one+other > 0 {
					walk(append(slices.Clone(chosen), max(one, other)/(one+other)), mass*(one+other)/2)
				}
			}
			return
		}
		slices.Sort(chosen)
		for bits := range 1 << c {
			right, chance := 0, 1.0
			for j, a := range chosen[m-c:] {
				if bits>>j&1 == 1 {
					right, chance = right+1, chance*a
				} else {
					chance *= 1 - a
				}
			}
			if right >= v {
				total += mass * chance
			}
		}
	}
	walk(nil, 1)
	return total
}

func TestIndependentPValueMatchesEnumeration(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{{0.7, 0.3}, {0.5, 0.3, 0.2}, {0.4, 0.35, 0.15, 0.1}, {0.2, 0.5, 0.3, 0}, {1, 0}, {0.5, 0.5}} {
		for _, o := range []empirical.Outcome{{4, 4, 4}, {4, 4, 2}, {4, 2, 2}, {5, 3, 2}, {6, 1, 1}, {5, 4, 4}, {3, 2, 0}} {
			want := p.atLeast(o.Units, o.Guesses, o.Correct)
			if got := empirical.IndependentPValue(o, p.curve()); math.Abs(got-want) > 2e-5*want {
				t.Errorf("%v, %+v: p %v, of all outcomes %v", p, o, got, want)
			}
		}
	}
}

// Whatever holds for all mechanisms with a curve holds for independent ones.
func TestIndependenceRefutesMore(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewChaCha8([32]byte{5}))
	for range 60 {
		m := 1 + rng.IntN(600)
		c := 1 + rng.IntN(m)
		o := empirical.Outcome{Units: m, Guesses: c, Correct: c - rng.IntN(1+c/2)}
		curve := empirical.GaussianCurve(3 * rng.Float64())
		if independent, held := empirical.IndependentPValue(o, curve), empirical.CurvePValue(o, curve); independent > held*(1+1e-6)+1e-11 {
			t.Errorf("%+v: p %v, and %v without independence", o, independent, held)
		}
	}
}

// normalOutcome audits m coins by normal scores, mu deviations apart, by c guesses.
func normalOutcome(t *testing.T, rng *rand.Rand, m, c int, mu float64) empirical.Outcome {
	t.Helper()
	included, scores := make([]bool, m), make([]float64, m)
	for i := range included {
		included[i], scores[i] = rng.Float64() < 0.5, rng.NormFloat64()
		if included[i] {
			scores[i] += mu
		}
	}
	return must.Get(empirical.Guess(included, scores, c/2, c/2))(t)
}

// A bound with 95% confidence is above the truth in at most 5% of audits: of 500, in more than 43 with
// a probability below 3e-4. It is above 80% of it in most of them.
func TestTheIndependentBoundCovers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewChaCha8([32]byte{6}))
	const audits, mu = 500, 1.666
	for _, c := range []struct{ units, guesses, useful int }{{1000, 1000, 450}, {300, 200, 300}} {
		passed, useful := 0, 0
		for range audits {
			o := normalOutcome(t, rng, c.units, c.guesses, mu)
			if empirical.IndependentPValue(o, empirical.GaussianCurve(mu)) <= 0.05 {
				passed++
			}
			if empirical.IndependentPValue(o, empirical.GaussianCurve(0.8*mu)) <= 0.05 {
				useful++
			}
		}
		if passed > 43 || useful < c.useful {
			t.Errorf("%+v: of %d bounds %d are above the true mu, and %d above 80%% of it", c, audits, passed, useful)
		}
	}
}

// Without credit for sampling the training is one Gaussian mechanism.
func TestIndependentNoiseMatchesGaussianMechanism(t *testing.T) {
	t.Parallel()
	r := privacy.Recipe{Population: 1000, Cohort: 100, Rounds: 16, NoiseMultiplier: 4, Delta: 1e-5, Sampling: privacy.NoSampling}
	o := empirical.Outcome{Units: 500, Guesses: 400, Correct: 320}
	got := must.Get(empirical.MinNoiseIndependent([]empirical.Outcome{o}, r, 0.95))(t)
	mu := largestMu(func(curve empirical.Curve) bool { return empirical.IndependentPValue(o, curve) <= 0.05 })
	if want := 8 / mu; got.NoiseMultiplier < want*(1-1e-9) || got.NoiseMultiplier > want*1.06 {
		t.Errorf("noise multiplier %v is refuted, of the Gaussian curve %v", got.NoiseMultiplier, want)
	}
	held, err := empirical.MinNoise([]empirical.Outcome{o}, r, 0.95)
	if err != nil || !(held.NoiseMultiplier > 1.05*got.NoiseMultiplier) || !(held.PValue > got.PValue) {
		t.Errorf("%+v (%v) of any mechanism, %+v of independent canaries", held, err, got)
	}
}

func TestIdealAuditorsAreRightAsOftenAsSimulated(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewChaCha8([32]byte{7}))
	right := 0.0
	for range 200 {
		right += float64(normalOutcome(t, rng, 600, 300, 1.5).Correct) / 200
	}
	if want := empirical.IdealCorrect(600, 300, empirical.GaussianCurve(1.5)); math.Abs(right-want) > 2.5 {
		t.Errorf("%v right guesses in the mean, want %v", right, want)
	}
}

func TestRememberedSuccessProbabilitiesChangeNoPValue(t *testing.T) {
	t.Parallel()
	pValue := empirical.IndependentPValues(empirical.GaussianCurve(0.7))
	for _, o := range []empirical.Outcome{{60, 44, 30}, {60, 44, 35}, {60, 60, 40}, {1000, 750, 500}, {60, 44, 30}, {60, 60, 0}} {
		if got, want := pValue(o), empirical.IndependentPValue(o, empirical.GaussianCurve(0.7)); got != want {
			t.Errorf("%v: %v, alone %v", o, got, want)
		}
	}
}
