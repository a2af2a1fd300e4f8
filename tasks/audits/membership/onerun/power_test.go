package onerun

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
)

// The power of each bound equals the share found in 200 audits of drawn scores, of text and of vectors, by the
// functions that judge real audits, within three standard errors of both simulations. A right power misses that in one
// of 370 cases; there are four cases.
func TestPowerMatchesSimulatedAudits(t *testing.T) {
	t.Parallel()
	confidence := must.Get(numbers.ParseProbability("95%"))(t)
	const trials, users, leak, delta = 200, 1000, 4, 1e-5
	training := audits.Training{
		Sampling: privacy.Shuffled, Unit: "user", NoiseMultiplier: 2, Delta: delta,
		Recipe: privacy.Recipe{Cohort: 100, Rounds: 30, NoiseMultiplier: 2, Delta: delta, Sampling: privacy.Shuffled},
	}
	for _, c := range []struct {
		of       CanariesOf
		canaries int
		Guesses
		limits []float64 // of the two bounds
	}{
		{Text, 120, Guesses{KPlus: 15, KMinus: 15, Halvings: 1}, []float64{0.3, 0.6}},
		{Update, 60, Guesses{KPlus: 10, KMinus: 10}, []float64{0.3, 1.2}},
	} {
		t.Run(string(c.of), func(t *testing.T) {
			t.Parallel()
			f := &Fields{&Block{Canaries: c.canaries, CanariesOf: c.of, Delta: delta, Confidence: confidence, Guesses: c.Guesses, TradeOff: true}}
			s := &audits.Setting{Audits: []audits.Fields{f}, Training: training, Data: &audits.Data{Users: users}}
			p := BoundParams{KPlus: c.KPlus, KMinus: c.KMinus, Halvings: c.Halvings, Delta: delta, Confidence: 0.95, Unit: "user", Null: NewNull(&training)}
			p.Null.Independent = c.of == Update
			finds, drawn := judged(t, &p, c.limits, users), drawing(c.canaries, empirical.GaussianShift(leak, delta))
			var found [2]float64
			for range trials {
				for i, find := range finds(drawn()) {
					if find {
						found[i] += 1. / trials
					}
				}
			}
			for i, statement := range Audit.Power(s, nil) {
				want := statement.Power(audits.Question{Sizes: []int{c.canaries}, Leak: leak, Limit: &c.limits[i]})
				if math.Abs(found[i]-want) > 3*math.Sqrt(max(want*(1-want), 0.01)*(1./trials+1./audits.Trials)) {
					t.Errorf("%q: %g of %d audits find it; the power is %g", statement.Name, found[i], trials, want)
				}
				t.Logf("%q: power %g, audits %g", statement.Name, want, found[i])
			}
		})
	}
}

// Each share of another number of canaries is rounded up, like the default of an eighth.
func TestGuessesAreRoundedUp(t *testing.T) {
	t.Parallel()
	o := &Block{Canaries: 60, Guesses: Guesses{KPlus: 8, KMinus: 8}}
	for n, want := range map[int]Guesses{1: {KPlus: 1}, 5: {KPlus: 1, KMinus: 1}, 60: {KPlus: 8, KMinus: 8}, 61: {KPlus: 9, KMinus: 9}} {
		if got := o.scaled(n); len(got) != 1 || got[0] != want {
			t.Errorf("of %d canaries %+v, want %+v", n, got, want)
		}
	}
}

// The epsilon of papers on DP-FedAvg is below the one that is proved for fixed-size cohorts; a bound between them refutes
// neither claim.
func TestABoundIsComparedWithTheProvedEpsilon(t *testing.T) {
	t.Parallel()
	p := BoundParams{Delta: 1e-5, Null: &Null{Cohort: 20, Rounds: 9, Sampling: privacy.FixedSize, NoiseMultiplier: 1}}
	counts := population.PartitionMetrics{Counts: population.Counts{Users: 300}}
	report := must.Get(privacy.Account(p.Null.Recipe(p.Delta, "", counts)))(t)
	papers, proved := float64(report.Epsilon), float64(report.EpsilonProved)
	for lower, refuted := range map[float64]bool{(papers + proved) / 2: false, proved + 0.01: true} {
		v := &Outcome{EpsilonLower: lower, TradeOff: new(TradeOff)}
		must.Do(t, p.compare(v, counts))
		if v.TradeOff.EpsilonRefuted != refuted || papers >= proved {
			t.Errorf("a bound of %g refutes %g (%g in papers): %v", lower, proved, papers, v.TradeOff.EpsilonRefuted)
		}
	}
}

// drawing draws the coins and scores of audits: normal ones, to which heads add a shift.
func drawing(canaries int, shift float64) func() ([]audits.Unit, []float64) {
	rng := rand.New(rand.NewPCG(5, 6))
	return func() ([]audits.Unit, []float64) {
		units, scores := make([]audits.Unit, canaries), make([]float64, canaries)
		for i := range units {
			scores[i] = rng.NormFloat64()
			if units[i].Included = rng.IntN(2) == 1; units[i].Included {
				scores[i] += shift
			}
		}
		return units, scores
	}
}

// judged reports which of the two bounds of an audit are above their limits. The second is computed once for equal
// numbers of right guesses.
func judged(t *testing.T, p *BoundParams, limits []float64, users int) func([]audits.Unit, []float64) [2]bool {
	t.Helper()
	counts := population.PartitionMetrics{Counts: population.Counts{Users: users}}
	known := map[[2]int]bool{}
	return func(units []audits.Unit, scores []float64) [2]bool {
		t.Helper()
		v := must.Get(p.Judge(units, scores))(t)
		var outcomes []empirical.Outcome
		var right [2]int
		for i, k := range p.choices() {
			o := must.Get(empirical.Guess(coinsOf(units), scores, k.KPlus, k.KMinus))(t)
			outcomes, right[i] = append(outcomes, o), o.Correct
		}
		if _, done := known[right]; !done {
			bound := must.Get(p.minNoise()(outcomes, p.Null.Recipe(p.Delta, p.Unit, counts), p.Confidence))(t)
			known[right] = float64(bound.Epsilon) > limits[1]
		}
		return [2]bool{v.EpsilonLower > limits[0], known[right]}
	}
}

// A bound is above a limit if the training's curve at the limit is refuted, which depends on the population.
func TestAPowerAtALimitNeedsThePopulation(t *testing.T) {
	t.Parallel()
	training := audits.Training{Sampling: privacy.Separated, Recipe: privacy.Recipe{Cohort: 10, Rounds: 3, NoiseMultiplier: 1, Delta: 1e-5, Sampling: privacy.Separated}}
	f := &Fields{&Block{Canaries: 50, Delta: 1e-5, Guesses: Guesses{KPlus: 20, KMinus: 20}, TradeOff: true}}
	s := &audits.Setting{Audits: []audits.Fields{f}, Training: training}
	limit := 0.5
	question := audits.Question{Sizes: []int{50}, Leak: 100, Limit: &limit}
	if got := Audit.Power(s, nil)[1].Power(question); got != 0 {
		t.Errorf("power %g without a population", got)
	}
	s.Data = &audits.Data{Users: 1000}
	if got := Audit.Power(s, nil)[1].Power(question); got != 1 {
		t.Errorf("power %g of 40 right guesses", got)
	}
}

// The search for the fewest right guesses that refute evaluates the curve as often as one p-value does, so that
// the search for a number of canaries ends soon without power, too.
func TestThePowerEvaluatesACurveOnceForANumberOfGuesses(t *testing.T) {
	t.Parallel()
	evaluations := 0
	curve := func(power float64) float64 {
		evaluations++
		return empirical.GaussianCurve(0.5)(power)
	}
	outcome := empirical.Outcome{Units: 60, Guesses: 44, Correct: 30}
	empirical.IndependentPValue(outcome, curve)
	one := evaluations
	evaluations = 0
	o := &Block{CanariesOf: Update}
	s := &audits.Setting{Audits: []audits.Fields{&Fields{o}}, Training: audits.Training{Sampling: privacy.Shuffled}}
	found := above(o.refutes(s, curve, 0.05))
	for correct := range outcome.Guesses + 1 {
		found([]empirical.Outcome{{Units: 60, Guesses: 44, Correct: correct}})
	}
	if evaluations != one {
		t.Errorf("the curve is evaluated %d times; one p-value takes %d", evaluations, one)
	}
}

// All numbers of canaries share the curve at a limit: privacy.CalibrateNoise searches its noise once.
func TestThePowerSearchesTheNoiseOfALimitOnce(t *testing.T) {
	t.Parallel()
	searches := 0
	curve := once(func(limit float64) empirical.Curve {
		searches++
		return empirical.GaussianCurve(limit)
	})
	for _, limit := range []float64{0, 0, 0.5, 0.5, 0} {
		if got, want := curve(limit)(0.3), empirical.GaussianCurve(limit)(0.3); got != want {
			t.Errorf("limit %g: %g, want %g", limit, got, want)
		}
	}
	if searches != 3 {
		t.Errorf("%d searches for three changes of the limit", searches)
	}
}
