package manyruns_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/privacy/empirical"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/membership/manyruns"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/workflows/plan/plantest"
)

// file is a small training of 74 users.
const file = `
name: many-runs
data: {source: none.jsonl, vocabulary: {size: 40}, users: {words: 300}}
model: {embedding: 4, units: 4}
training:
  rounds: 1
  cohort: 37
  client: {learning_rate: 1}
  sampling: shuffled
  privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-3}
audit:
  utility: false
  many_runs: {runs: 60}
`

func audited(t *testing.T, sets string) *manyruns.Outcome {
	t.Helper()
	r := plantest.CellReport(t, file, strings.Fields(sets)...)
	v := new(manyruns.Outcome)
	plantest.Outcome(t, &r, "many_runs", v)
	return v
}

// Almost without noise every vector of a user shows. Of records, some take part in no step.
func TestCanariesShowWithoutNoise(t *testing.T) {
	t.Parallel()
	for name, sets := range map[string]string{
		"update":   "training.cohort=74 audit.many_runs.canaries_of=update training.privacy.noise_multiplier=1e-3",
		"gradient": "training={algorithm:sgd,rounds:8,cohort:400,sampling:shuffled,client:{learning_rate:1},privacy:{clip:0.1,noise_multiplier:0.01,delta:1e-3}} audit.many_runs.canaries_of=gradient",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := audited(t, sets)
			if name == "update" && v.EpsilonLower != v.EpsilonLargest || !(v.EpsilonLower > 0.5) || v.TradeOff == nil || v.TradeOff.NoiseMultiplier == nil {
				t.Errorf("%+v, %+v", v, v.TradeOff)
			}
			check(t, v)
		})
	}
}

// check computes the rates again, from the trainings that prove.
func check(t *testing.T, v *manyruns.Outcome) {
	t.Helper()
	var proving []empirical.Run
	included := 0
	for _, training := range v.Trainings {
		if !training.Chooses {
			proving = append(proving, empirical.Run{Score: training.Score, Included: training.Included})
		}
		if training.Included {
			included++
		}
	}
	if len(proving) != v.Runs/2 || included != v.Included || v.Rates != v.Rule.Rates(proving) || v.EpsilonLower != v.Rates.Epsilon(v.Delta, v.Confidence) {
		t.Errorf("%+v does not follow from its trainings", v)
	}
}

// The seed is fixed. With 40 times the noise a bound above 0.2 comes with a probability of 0.05 at most.
func TestHeavyNoiseHidesCanaries(t *testing.T) {
	t.Parallel()
	v := audited(t, "audit.many_runs.runs=40 training.privacy.noise_multiplier=40")
	if v.EpsilonLower > 0.2 || v.TradeOff != nil && v.TradeOff.Refuted || v.Score != "loss-difference" {
		t.Errorf("%+v, %+v", v, v.TradeOff)
	}
	check(t, v)
}

// Trainings are nodes of their own: of 40 all are in a plan of 60, and none is the cell's.
func TestMoreRunsReuseTrainings(t *testing.T) {
	t.Parallel()
	digest := storage.DigestOf([]byte("text"))
	few, many := plantest.Compiled(t, file, digest, "audit.many_runs.runs=40"), plantest.Compiled(t, file, digest)
	for recipe := range few.Chains {
		if many.Chains[recipe] == nil {
			t.Errorf("training %s is another with 60", recipe)
		}
	}
	if len(few.Chains) != 41 || len(many.Chains) != 61 {
		t.Errorf("%d and %d trainings, want one more than the repetitions", len(few.Chains), len(many.Chains))
	}
}

func TestTheLimitJudgesTheBoundWithoutACurve(t *testing.T) {
	t.Parallel()
	v := &manyruns.Outcome{Runs: 200, EpsilonLower: 1.5, Delta: 1e-5, Confidence: 0.95, Neighbouring: "replace-one", TradeOff: &manyruns.TradeOff{Noise: onerun.Noise{EpsilonLower: 4}}}
	auditstest.CheckLimit(t, &manyruns.Audit, v, new(manyruns.Outcome), map[float64][]string{
		1.5: nil, 1: {"many_runs_epsilon_lower (replace-one, at delta 1e-05 with 95% confidence) is 1.5, above the limit of 1"},
	})
	if v.EpsilonAtLeast() != 4 {
		t.Errorf("epsilon at least %v", v.EpsilonAtLeast())
	}
	if got := auditstest.Value(&manyruns.Audit, v, "many_runs_p_value"); got != nil {
		t.Errorf("p-value %v of a training that claims nothing", got)
	}
	text := v.Note(new(audits.Cell))
	if math.IsNaN(v.EpsilonLower) || !strings.Contains(text, "epsilon at least 1.50 at delta 1e-05 with 95% confidence") {
		t.Errorf("note %q", text)
	}
}
