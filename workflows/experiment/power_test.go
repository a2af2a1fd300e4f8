package experiment

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// Ten canaries of which each is memorized with probability 0.1: 1 - 0.9^10; with two seeds, 1 - 0.9^20.
func TestThePowerOfCountedCanaries(t *testing.T) {
	t.Parallel()
	for replicates, want := range map[string]float64{"1": 0.6513215599, "2": 0.8784233454} {
		spec := parse(t, minimal, "canaries={user_probability: [1/4], example_probability: [1/2], per_configuration: 10}", "audit={random_sampling: {references: 100000}}", "grid.replicates="+replicates)
		powers := spec.Powers()
		if len(powers) == 0 {
			t.Fatal("no statement")
		}
		p := powers[0]
		if got := p.PowerAt(p.Numbers(), p.Leak.Default); p.Audit != "random_sampling" || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s seeds: %s has the power %v; want %v", replicates, p.Audit, got, want)
		}
		for _, p := range powers {
			for _, size := range p.Sizes {
				if strings.HasSuffix(size.Unit, "s") {
					t.Errorf("%s counts %q, the plural of a noun", p.Audit, size.Unit)
				}
			}
		}
	}
}

// One canary among ten references has rank 1 by chance with 1/11.
func TestTooFewCanariesWarn(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "canaries={user_probability: [1/4], example_probability: [1/2], per_configuration: 1}", "audit={random_sampling: {references: 10}}")
	if got := strings.Join(spec.Cells[0].Warnings(), "\n"); !strings.Contains(got, "audit.random_sampling has no power") {
		t.Errorf("warnings %q", got)
	}
}

// By scipy, of 31 trainings with 9 heads: log((0.025 ** (1 / 9) - 1e-5) / (1 - 0.025 ** (1 / 22))) = 1.458, the most
// for any number of heads. 10 right guesses prove log(p / (1 - p)) = 1.052 with p = 0.05 ** (1 / 10).
func TestUnreachableLimitWarns(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]string{
		"many_runs_epsilon_lower: 1.4": "", "many_runs_epsilon_lower: 1.5": "audit.fail_if.many_runs_epsilon_lower: 1.5 cannot fail: with 62 trainings the value is at most 1.46",
		"epsilon_lower: 1": "", "epsilon_lower: 1.1": "audit.fail_if.epsilon_lower: 1.1 cannot fail: with 40 canaries the value is at most 1.05",
	} {
		spec := parse(t, minimal, "training.privacy={clip: 0.1, noise_multiplier: 1, delta: 1e-5}", "audit={one_run: {canaries: 40}, many_runs: {runs: 62}, fail_if: {"+limit+"}}")
		if got := strings.Join(spec.Cells[0].Warnings(), "\n"); strings.Contains(got, "cannot fail") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %q, want %q", limit, got, want)
		}
	}
}

// The replay of a larger model looks at more elements of the noise, and so has more power; the fields of the audit and
// its sizes are equal.
func TestPowerDependsOnModelSize(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "training.privacy={clip: 0.1, noise_multiplier: 1, delta: 1e-5}", "audit={neighbours: {repeats: 20}}", "data.vocabulary.size=20", "model.embedding=2", "grid={axes: {model.units: [2, 16]}}")
	powers := spec.Powers()
	if len(powers) != 2 {
		t.Fatalf("%d statements, want one for each model", len(powers))
	}
	small, large := &powers[0], &powers[1]
	if a, b := small.PowerAt(small.Numbers(), 0.99), large.PowerAt(large.Numbers(), 0.99); !(a < b) {
		t.Errorf("power %v with 2 units, %v with 16", a, b)
	}
}

// A limit of epsilon lies below the epsilon of the half noise and above that of the double noise. All else of the
// cells is equal.
func TestPowerUnderLimitDependsOnNoise(t *testing.T) {
	t.Parallel()
	facts := plenty
	facts.Users = 157
	spec := parse(t, minimal, "training.sampling=poisson", "training.cohort=20", "training.rounds=1", "audit={neighbours: {repeats: 20}, fail_if: {neighbours_epsilon: 1.8}}",
		"grid={axes: {training.privacy: [{clip: 0.1, noise_multiplier: 0.5, delta: 1e-5}, {clip: 0.1, noise_multiplier: 2, delta: 1e-5}]}}")
	must.Do(t, spec.Resolve(factsFor(spec, facts)))
	var gated []float64
	for _, p := range spec.Powers() {
		if p.Gate != "" {
			gated = append(gated, p.PowerAt(p.Numbers(), 1))
		}
	}
	if len(gated) != 2 || gated[0] < 0.99 || gated[1] > 0.01 {
		t.Errorf("powers %v under the limit, want about 1 of noise 0.5 and 0 of noise 2", gated)
	}
}

// The audit of words read from updates has neither an interval nor a test.
func TestAuditsWithoutPowerAreListed(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal, "training.record={layers: [output.bias]}", "audit={update_words: {}}")
	if got := spec.Powerless(); len(got) != 1 || got[0].Audit != "update_words" || len(spec.Powers()) != 0 {
		t.Errorf("%+v, with %d powers", got, len(spec.Powers()))
	}
	if got := parse(t, minimal, "audit={}").Powerless(); got != nil {
		t.Errorf("%+v of no audit", got)
	}
}

const gated = `
name: gated
data: {source: a.jsonl, vocabulary: {size: 2000}}
canaries: {words: 3, per_configuration: 4, user_probability: 1/50, example_probability: [10%, 1], held_back: 5}
training: {cohort: 5, rounds: 5}
audit:
  random_sampling: {references: 200000}
  beam_search: {}
  one_run: {canaries: 100, confidence: 95%}
  search: {prefix: 2}
  fail_if: {search_extracted: 1, random_sampling_memorized: 2, beam_search_memorized: 0, exposure: 15, epsilon_lower: 0.5}
grid: {axes: {training.rounds: [5, 6, 7]}}
`

// An unmemorized canary passes T bits with the probability 2^-T, so that one of n does
// with 1 - (1 - 2^-T)^n; canaries that are held back do not count.
func TestFalseAlarmsOfGate(t *testing.T) {
	t.Parallel()
	spec := must.Get(Parse("gated.yaml", []byte(gated), Options{}))(t)
	want := []FalseAlarm{
		{Limit: "audit.fail_if.random_sampling_memorized", Allowed: 2, Cells: 3, Trials: 24, Unit: "canaries", Probability: 3 * 8 * 7 * 6 / (200001.0 * 200002 * 200003)},
		{Limit: "audit.fail_if.beam_search_memorized", Allowed: 0, Cells: 3, Trials: 24, Unit: "canaries", Probability: 1 - math.Pow(1-1.0/4_000_000, 24)},
		{Limit: "audit.fail_if.search_extracted", Allowed: 1, Cells: 3, Trials: 24, Unit: "canaries", Probability: 2.0957892941209654e-05},
		{Limit: "audit.fail_if.exposure", Allowed: 15, Cells: 3, Trials: 24, Unit: "canaries", Probability: 1 - math.Pow(1-math.Exp2(-15), 24)},
		{Limit: "audit.fail_if.epsilon_lower", Allowed: 0.5, Cells: 3, Trials: 3, Unit: "audits", Probability: 1 - 0.95*0.95*0.95},
	}
	found := map[string]FalseAlarm{}
	for _, f := range spec.FalseAlarms() {
		found[f.Limit] = f
	}
	for _, w := range want {
		got := found[w.Limit]
		near := math.Abs(got.Probability-w.Probability) < 1e-8*w.Probability
		if got.Probability = w.Probability; got != w || !near {
			t.Errorf("got %+v, want %+v", found[w.Limit], w)
		}
	}
	if len(found) != len(want) {
		t.Errorf("%d false alarms: %v", len(found), found)
	}
}

func TestFalseAlarmsDependOnLimit(t *testing.T) {
	t.Parallel()
	spec, err := Parse("gated.yaml", []byte(gated), Options{Sets: []string{
		"audit.fail_if=null", "grid={axes: {training.rounds: null, audit.fail_if: [{exposure: 1}, {exposure: 0}], seed: [1, 2]}}",
	}})
	must.Do(t, err)
	got := spec.FalseAlarms()
	if len(got) != 2 || got[0].Allowed != 1 || got[0].Cells != 2 || got[1].Allowed != 0 || got[1].Probability != 1 {
		t.Errorf("false alarms %+v, want two limits of two cells, the second certain", got)
	}
	const sentence = "audit.fail_if.exposure: 1 gives a false alarm with a probability of at most 1 (canaries in total: 16, cells: 2, nothing memorized)"
	if got[0].String() != sentence {
		t.Errorf("got %q, want %q", got[0].String(), sentence)
	}
	if spec, err = Parse("gated.yaml", []byte(gated), Options{Sets: []string{"audit.fail_if=null"}}); err != nil || len(spec.FalseAlarms()) != 0 {
		t.Errorf("%v, without limits: %v", err, spec.FalseAlarms())
	}
}

// With too few users for a limit plan states no false alarm: 0.1 would be wrong.
func TestGateOfTooFewUsersHasNoFalseAlarm(t *testing.T) {
	t.Parallel()
	for heldOut, want := range map[int]string{
		3: "audit.fail_if.membership_auc: 0.6 cannot pass with 3 users, because it needs 8; the gate fails by design, not by a false alarm, unless the upper bound of the value is below the limit (cells: 1)",
		8: "audit.fail_if.membership_auc: 0.6 gives a false alarm with a probability of at most 0.12 (AUCs in total: 5, cells: 1, the measured number at the limit)",
	} {
		spec, facts := parse(t, minimal, "data.held_out_users.fraction=1/10", "audit={membership: {}, fail_if: {membership_auc: 0.6}}", "canaries=null"), plenty
		facts.HeldOutUsers = heldOut
		must.Do(t, spec.Resolve(factsFor(spec, facts)))
		if got := spec.FalseAlarms(); len(got) != 1 || got[0].String() != want {
			t.Errorf("%d held out: %v, want %s", heldOut, got, want)
		}
	}
}
