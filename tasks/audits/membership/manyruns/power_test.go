package manyruns

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
)

// The power equals the share found in 200 audits of drawn scores by judge, within three standard errors of both
// simulations. A right power misses that in one of 370 cases; there are four cases.
func TestPowerMatchesSimulatedAudits(t *testing.T) {
	t.Parallel()
	const audited, delta = 200, 1e-5
	for _, c := range []struct {
		runs  int
		leak  float64
		limit *float64
	}{{60, 8, nil}, {400, 4, new(0.5)}} {
		recipe := privacy.Recipe{Population: 100, Cohort: 100, Rounds: 1, NoiseMultiplier: 1, Delta: delta, Sampling: privacy.Separated}
		rng, shift := rand.New(rand.NewPCG(7, 8)), empirical.GaussianShift(c.leak, delta)
		var found [2]float64
		for range audited {
			v := Outcome{Delta: delta, Confidence: 0.95}
			for i, run := range drawn(c.runs, shift, rng) {
				v.Trainings = append(v.Trainings, Training{Score: run.Score, Included: run.Included, Chooses: i%2 == 0})
			}
			must.Do(t, v.judge(recipe))
			if c.limit == nil && v.EpsilonLower > 0 || c.limit != nil && v.EpsilonLower > *c.limit {
				found[0] += 1. / audited
			}
			if v.TradeOff != nil && v.TradeOff.EpsilonLower > 0 {
				found[1] += 1. / audited
			}
		}
		for i, statement := range Audit.Power(setting(t, c.runs), nil) {
			q := audits.Question{Sizes: []int{c.runs}, Leak: c.leak}
			if i == 0 {
				q.Limit = c.limit
			}
			want := statement.Power(q)
			if math.Abs(found[i]-want) > 3*math.Sqrt(max(want*(1-want), 0.01)*(1./audited+1./trials)) {
				t.Errorf("%d runs, %q: %g of %d audits find it; the power is %g", c.runs, statement.Name, found[i], audited, want)
			}
			t.Logf("%d runs, %q: power %g, audits %g", c.runs, statement.Name, want, found[i])
		}
	}
}

func setting(t *testing.T, runs int) *audits.Setting {
	t.Helper()
	confidence := must.Get(numbers.ParseProbability("95%"))(t)
	return &audits.Setting{Audits: []audits.Fields{&Fields{&Block{Runs: runs, Delta: 1e-5, Confidence: confidence}}}}
}

// Ten of 20 trainings prove, which is too few, because 0.025^(1/5) is below one half. With 24 it is not.
func TestTooFewTrainingsProveNothing(t *testing.T) {
	t.Parallel()
	for runs, none := range map[int]bool{20: true, 24: false} {
		for _, statement := range Audit.Power(setting(t, runs), nil) {
			most := statement.Power(audits.Question{Sizes: []int{runs}, Leak: statement.Leak.Max})
			if (statement.None != "") != none || !none && most < 0.5 {
				t.Errorf("%d trainings: %q; power %g for the largest leak", runs, statement.None, most)
			}
		}
	}
}

// 15 trainings that prove cannot tell the curve of two normal distributions two deviations apart, by the claim for z =
// 0.5, from a steeper one: with 7 of 7 and 0 of 8 the shift is 0.6. 100 tell it, and 15 that for z = 4.
func TestPlanWarnsOfTooFewTrainingsToContradict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs      int
		z         float64
		powerless bool
	}{{30, 0.5, true}, {200, 0.5, false}, {30, 4, false}, {20, 0.5, false}, {30, 0, false}} {
		s := setting(t, c.runs)
		s.Training.Recipe = privacy.Recipe{
			Population: 100, Cohort: 100, Rounds: 1, NoiseMultiplier: c.z, Delta: 1e-5, Sampling: privacy.Separated, Separation: 1, Participations: 1,
		}
		warnings := strings.Join(s.Audits[0].(audits.Warner).Warnings(s, &audits.Data{Users: 100}), "\n")
		if strings.Contains(warnings, "audit.many_runs is powerless against the proved epsilon of") != c.powerless {
			t.Errorf("%+v: warnings %q", c, warnings)
		}
		if c.z == 0 || c.runs == 20 {
			continue
		}
		rates := empirical.Rates{Right: c.runs / 8, Of: c.runs / 4, Wrong: c.runs / 9, Others: (c.runs/2 + 1) / 2}
		v := &Outcome{Rates: rates, Delta: 1e-5, Confidence: 0.95, TradeOff: &TradeOff{Rates: rates}}
		report := must.Get(privacy.Account(s.Training.Recipe))(t)
		note := v.Note(&audits.Cell{Privacy: &report})
		if strings.Contains(note, "POWERLESS against epsilon_proved") != c.powerless {
			t.Errorf("%+v: note %q", c, note)
		}
	}
}
