package onerun_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
)

// oneRunFile is audited by 60 coins. Without privacy it trains until its canaries
// are learned by heart; with noise 40 times the clip norm it learns nothing.
const oneRunFile = `
name: one-run
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 8, units: 16}
training:
  rounds: 40
  cohort: 20
  chunks: 2
  client: {learning_rate: 4}
audit:
  utility: false
  one_run: {canaries: 60, guesses: {k_plus: 10, k_minus: 10}}
`

const heavyNoise = "training.privacy={clip: 0.1, noise_multiplier: 40, delta: 1e-5}"

func oneRun(t *testing.T, sets ...string) *onerun.Outcome {
	t.Helper()
	r := plantest.CellReport(t, oneRunFile, sets...)
	v := new(onerun.Outcome)
	plantest.Outcome(t, &r, "one_run", v)
	return v
}

func TestAnOverfittedModelHasAPositiveLowerBound(t *testing.T) {
	t.Parallel()
	for sampling, relation := range map[string]privacy.Neighbouring{"fixed-size": privacy.ReplaceOne, "poisson": privacy.AddOrRemoveOne} {
		v := oneRun(t, "training.sampling="+sampling)
		if !(v.EpsilonLower > 0.5) || v.Neighbouring != relation || v.Unit != "balanced user" {
			t.Errorf("%s: %+v, want a bound above 0.5 under %s", sampling, v, relation)
		}
		if v.EpsilonLower > v.EpsilonLargest || v.EpsilonLargest > v.EpsilonLargestCanaries {
			t.Errorf("%s: bound %v, at most %v, with all guessed %v", sampling, v.EpsilonLower, v.EpsilonLargest, v.EpsilonLargestCanaries)
		}
	}
}

// The seed is fixed. Without a trace of the coins in the model, a bound above 0
// at 95% confidence comes with probability 0.05 at most.
func TestRandomModelHasZeroLowerBound(t *testing.T) {
	t.Parallel()
	for _, sampling := range []string{"fixed-size", "poisson"} {
		v := oneRun(t, heavyNoise, "training.sampling="+sampling)
		if v.EpsilonLower != 0 || v.Correct >= v.KPlus+v.KMinus {
			t.Errorf("%s: %+v of a model that is noise", sampling, v)
		}
		if v.Delta != 1e-5 || v.Confidence != 0.95 {
			t.Errorf("%s: bound at delta %v with confidence %v", sampling, v.Delta, v.Confidence)
		}
	}
}

func TestCentralTrainingIsAuditedByRecords(t *testing.T) {
	t.Parallel()
	for _, partition := range []string{"by-user", "iid"} {
		v := oneRun(t, "training={algorithm: sgd, rounds: 20, cohort: 16, chunks: null}", "data.partition="+partition)
		if v.Unit != "record" || v.Neighbouring != privacy.ReplaceOne || v.Canaries != 60 {
			t.Errorf("%s: %+v", partition, v)
		}
	}
}

// A training that learns its canaries by heart refutes every noise that would hide them.
func TestAnOverfittedModelRefutesNoise(t *testing.T) {
	t.Parallel()
	v := oneRun(t, "audit.one_run.trade_off=true", "audit.one_run.guesses={k_plus: 20, k_minus: 20, halvings: 2}")
	b := v.TradeOff
	if b == nil || b.NoiseMultiplier == nil || !(b.EpsilonLower > 0.5) || b.Refuted || b.PValue != 1 {
		t.Fatalf("without a claim: %+v", b)
	}
	if v.Choices != 3 || v.KPlus > 20 || b.KPlus > 20 || b.Correct > b.KPlus+b.KMinus {
		t.Errorf("of 3 numbers of guesses: %+v, %+v", v, b)
	}
}

// What a training with noise claims is not refuted by a model that knows nothing.
func TestHeavyNoiseIsNotRefuted(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"training.sampling=fixed-size", "training.sampling=poisson", "training.sampling=separated"} {
		v := oneRun(t, heavyNoise, more, "audit.one_run.trade_off=true")
		if b := v.TradeOff; b == nil || b.Refuted || b.PValue < 0.05 || b.NoiseMultiplier != nil && *b.NoiseMultiplier < 40 {
			t.Errorf("%s: %+v", more, b)
		}
	}
}

// Canary clients of another audit are users, too: the null is a training that samples from all.
func TestNullCountsCanaryClientsOfOneShot(t *testing.T) {
	t.Parallel()
	r := plantest.CellReport(t, oneRunFile, "training.sampling=poisson", "training.privacy={clip: 2, noise_multiplier: 0.01, delta: 1e-5}",
		"audit.one_run.trade_off=true", "audit.one_run.guesses={k_plus: 20, k_minus: 20, halvings: 2}", "audit.one_shot={canaries: 60}")
	var v onerun.Outcome
	plantest.Outcome(t, &r, "one_run", &v)
	b := v.TradeOff
	if b.NoiseMultiplier == nil {
		t.Fatalf("nothing is refuted: %+v", v)
	}
	of, err := privacy.Account(privacy.Recipe{
		Population: 74 + 60, Cohort: 20, Rounds: 40, NoiseMultiplier: *b.NoiseMultiplier, Delta: 1e-5, Sampling: privacy.Poisson,
	})
	if err != nil || b.EpsilonLower != of.EpsilonProved {
		t.Errorf("by the trade-off curve %v; noise multiplier %v proves %v (%v)", b.EpsilonLower, *b.NoiseMultiplier, of.EpsilonProved, err)
	}
}

// vectorFile is audited by 70 vectors; with so little noise all that take part are found.
const vectorFile = `
name: one-run
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 60}}
model: {embedding: 8, units: 16}
training: {rounds: 20, cohort: 37, chunks: 2, client: {learning_rate: 1}, privacy: {clip: 0.1, noise_multiplier: 0.2, delta: 1e-5}}
audit:
  utility: false
  one_run: {canaries: 70, canaries_of: update}
`

// trainings are by users and by records.
var trainings = [][]string{nil, {"training={algorithm: sgd, rounds: 20, cohort: 200, chunks: null}", "audit.one_run.canaries_of=gradient"}}

func withNoise(sampling string, noise float64) []string {
	return []string{"training.sampling=" + sampling, fmt.Sprintf("training.privacy={clip: 0.1, noise_multiplier: %g, delta: 1e-5}", noise)}
}

func vectors(t *testing.T, sets ...string) *onerun.Outcome {
	t.Helper()
	r := plantest.CellReport(t, vectorFile, sets...)
	v := new(onerun.Outcome)
	plantest.Outcome(t, &r, "one_run", v)
	return v
}

// The seed is fixed. A claim that is right is refuted with a probability of at most 5%.
func TestVectorsProveMostOfAnEpsilon(t *testing.T) {
	t.Parallel()
	for _, sets := range trainings {
		for sampling, relation := range map[string]privacy.Neighbouring{"poisson": privacy.AddOrRemoveOne, "shuffled": privacy.ReplaceOne, "fixed-size": privacy.ReplaceOne} {
			if sampling == "fixed-size" && sets != nil {
				continue // both units have its curve, which takes seconds
			}
			v := vectors(t, append(withNoise(sampling, 1), sets...)...)
			b := v.TradeOff
			if v.Neighbouring != relation || v.Score != onerun.ScoreLikelihood || b == nil || b.Refuted || b.Independent != (sampling != "fixed-size") {
				t.Errorf("%s %v: %+v, %+v", sampling, sets, v, b)
				continue
			}
			if z := b.NoiseMultiplier; z != nil && *z < 1 || b.Independent && (z == nil || *z > 4 || b.EpsilonLargest < b.EpsilonLower) {
				t.Errorf("%s %v: noise multipliers from %v on are refuted, of 1: %+v", sampling, sets, z, b)
			}
		}
	}
}

func TestVectorsFindMissingNoise(t *testing.T) {
	t.Parallel()
	v := vectors(t, append(withNoise("poisson", 4), "audit.control=no-noise")...)
	if b := v.TradeOff; b == nil || !b.Refuted || b.PValue > 1e-3 {
		t.Errorf("%+v, %+v", v, v.TradeOff)
	}
}

func TestTheChangeOfTheModelIsAWeakerScore(t *testing.T) {
	t.Parallel()
	for _, sets := range trainings {
		sets := slices.Concat(withNoise("poisson", 0.01), sets, []string{"audit.one_run.trade_off=false"})
		v, all := vectors(t, append(sets, "audit.one_run.statistic=final")...), vectors(t, sets...)
		if v.Score != onerun.ScoreChange || v.Correct > all.Correct || all.Correct < (v.KPlus+v.KMinus)*8/10 {
			t.Errorf("%v: %d of %d guesses are right, of all rounds %d", sets, v.Correct, v.KPlus+v.KMinus, all.Correct)
		}
	}
}

// With own-word every canary repeats a word of its own; both designs take rare words.
func TestDesignsChooseRareWords(t *testing.T) {
	t.Parallel()
	words := func(design string) (all []string, differing int) {
		for _, u := range oneRun(t, "training.rounds=1", "audit.one_run.canaries=40", "audit.one_run.design="+design).Units {
			own := slices.Compact(slices.Clone(u.Words))
			all = append(all, own...)
			differing += len(own) - 1
		}
		slices.Sort(all)
		return slices.Compact(all), differing
	}
	random, _ := words("random")
	rare, _ := words("rare-words")
	if len(random) < 50 || len(rare) > 6 {
		t.Errorf("%d random words, %d rare ones: %q", len(random), len(rare), rare)
	}
	if own, differing := words("own-word"); differing != 0 || len(own) != 40 || slices.ContainsFunc(rare, func(w string) bool { return !slices.Contains(own, w) }) {
		t.Errorf("own words %q, of which %d differ within a canary", own, differing)
	}
}

// What a seeded model and its coins do not share with the guesses stays cached.
func TestOnlyTheCoinsChangeTheTraining(t *testing.T) {
	t.Parallel()
	digest := storage.DigestOf(nil)
	recipe := func(p *plan.Plan) storage.Key { return p.Cells[0].Chain.Recipe }
	base := recipe(plantest.Compiled(t, oneRunFile, digest))
	for set, same := range map[string]bool{
		"audit.one_run.guesses={k_plus: 20, k_minus: 5}": true,
		"audit.one_run.confidence=99%":                   true,
		"audit.one_run.delta=1e-6":                       true,
		"audit.one_run.trade_off=true":                   true,
		"audit.one_run.guesses.halvings=1":               true,
		"audit.utility=true":                             true,
		"audit.one_run.canaries=61":                      false,
		"audit.one_run.words=6":                          false,
		"audit.one_run=null":                             false,
	} {
		sets := []string{set}
		if strings.HasSuffix(set, "=null") {
			sets = append(sets, "audit.utility=true")
		}
		if other := recipe(plantest.Compiled(t, oneRunFile, digest, sets...)); (other == base) != same {
			t.Errorf("--set %s: the training is the same: %v, want %v", set, other == base, same)
		}
	}
}

// Both designs stand side by side: their canaries share no user, and each audit
// sees its own alone.
func TestOneRunRunsAlongsideSecretSharer(t *testing.T) {
	t.Parallel()
	sets := []string{
		"canaries={words: 4, per_configuration: 2, user_probability: 1/20, example_probability: 1, held_back: 1}",
		"audit.beam_search={width: 2}", "audit.one_run.canaries=40", "training.rounds=2",
	}
	for _, partition := range []string{"by-user", "iid"} {
		r := plantest.CellReport(t, oneRunFile, append(sets, "data.partition="+partition, "canaries.user_probability=1/100")...)
		var v onerun.Outcome
		plantest.Outcome(t, &r, "one_run", &v)
		roles := map[audits.Role]int{}
		for _, c := range r.Audit.Canaries() {
			roles[c.Role]++
		}
		if roles[audits.Inserted]+roles[audits.NeverInserted] != 2 || roles[audits.HeldBack] != 1 || v.Canaries != 40 || len(v.Units) != 40 {
			t.Errorf("%s: %v beside %+v", partition, roles, v)
		}
	}
}

// At the byte level the canaries keep to the alphabet of the others.
func TestCanariesOfBytesKeepToTheAlphabet(t *testing.T) {
	t.Parallel()
	for _, u := range oneRun(t, "data={level: byte, sequence: 40, users: {words: 600}, vocabulary: null}", "training.rounds=2", "audit.one_run={canaries: 20, words: 30}",
		"canaries={alphabet: digits, user_probability: 1/100, example_probability: 1}").Units {
		if text := strings.Join(u.Words, ""); len(text) != 30 || strings.Trim(text, "0123456789") != "" {
			t.Errorf("canary %q, want 30 digits", text)
		}
	}
}
