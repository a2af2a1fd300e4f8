package onerun

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/numbers"
	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
)

// The power is that of 200 audits of drawn scores by Judge: within three standard errors of both simulations,
// which a right power misses in one of 370 cases.
func TestThePowerIsThatOfAudits(t *testing.T) {
	t.Parallel()
	const trials = 200
	confidence, err := numbers.ParseProbability("95%")
	if err != nil {
		t.Fatal(err)
	}
	f := &Fields{&Block{Canaries: 120, Delta: 1e-5, Confidence: confidence, Guesses: Guesses{KPlus: 15, KMinus: 15, Halvings: 1}}}
	s := &audits.Setting{Audits: []audits.Fields{f}}
	limit := 0.3
	p := BoundParams{KPlus: 15, KMinus: 15, Halvings: 1, Delta: 1e-5, Confidence: 0.95}
	rng, found, shift := rand.New(rand.NewPCG(5, 6)), 0, empirical.GaussianShift(4, 1e-5)
	for range trials {
		units, scores := make([]audits.Unit, 120), make([]float64, 120)
		for i := range units {
			scores[i] = rng.NormFloat64()
			if units[i].Included = rng.IntN(2) == 1; units[i].Included {
				scores[i] += shift
			}
		}
		v, err := p.Judge(units, scores)
		if err != nil {
			t.Fatal(err)
		}
		if v.EpsilonLower > limit {
			found++
		}
	}
	got := float64(found) / trials
	want := power(s, nil)[0].Power(audits.Question{Sizes: []int{120}, Leak: 4, Limit: &limit})
	if math.Abs(got-want) > 3*math.Sqrt(max(want*(1-want), 0.01)*(1./trials+1./audits.Trials)) {
		t.Errorf("%g of %d audits find it; the power is %g", got, trials, want)
	}
	t.Logf("power %g, audits %g", want, got)
}
