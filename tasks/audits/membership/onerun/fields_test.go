package onerun_test

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/experiment"
)

// resolved is the smallest experiment with coins, resolved by data of the given number of
// users.
func resolved(t *testing.T, users int, sets ...string) (*experiment.Spec, error) {
	t.Helper()
	const file = "name: x\ndata: {source: a.jsonl}\ntraining: {cohort: 50, rounds: 100}\naudit: {one_run: {canaries: 60}}\n"
	spec := must.Get(experiment.Parse("x.yaml", []byte(file), experiment.Options{Sets: sets}))(t)
	return spec, spec.Resolve([]experiment.Facts{{
		Files: []storage.Digest{storage.DigestOf([]byte("text"))}, Users: users, Examples: 93_000_000, DistinctWords: 500_000, TestExamples: 16_000_000,
	}})
}

func TestMoreCoinsThanUsersAreRejected(t *testing.T) {
	t.Parallel()
	_, err := resolved(t, 59)
	if want := "x.yaml:4:29: audit.one_run.canaries: is 60; expected at most 59, the balanced users of a.jsonl: each carries one"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// By default as many canaries are guessed out as k_plus leaves.
func TestFewCanariesAreGuessedOnce(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"audit.one_run.canaries=1":                       "audit.one_run.guesses: are 1, and were all of them right, no epsilon above 0 would be certified with 95% confidence at delta 1e-05; make more guesses, or use more canaries",
		"audit.one_run={canaries: 3, canaries_of: text}": "audit.one_run.guesses: are 2, and were all of them right, no epsilon",
		"audit.one_run.guesses={k_plus: 58}":             "",
		"audit.one_run.guesses={k_plus: 61}":             "audit.one_run.guesses: are 61 (k_plus 61, k_minus 0); expected from 1 to 60, the canaries of the audit",
	} {
		_, err := experiment.Parse("x.yaml", []byte("name: x\ndata: {source: a.jsonl}\ntraining: {cohort: 50, rounds: 100}\naudit: {one_run: {canaries: 60}}\n"), experiment.Options{Sets: []string{set}})
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", set, err, want)
		}
	}
}

func TestManyCoinsGiveAWarning(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]int{
		"audit.one_run.canaries=7840": 0, "audit.one_run.canaries=7900": 1,
		"audit.one_run.canaries=7900 training.algorithm=sgd": 0,
	} {
		spec := must.Get(resolved(t, 392_000, strings.Fields(sets)...))(t)
		if got := spec.Cells[0].Warnings(); len(got) != want {
			t.Errorf("%s: got %q, want %d warnings", sets, got, want)
		}
	}
}

// 8 right guesses of each kind prove log(p / (1 - p)) = 1.582 with p = 0.05 ** (1 / 16), which a claim above cannot contradict.
// The claims are those of coalmine account --population 392000 --cohort 50 --rounds 100 --delta 1e-5 --sampling shuffled.
func TestAnAuditThatCannotContradictTheClaimGivesAWarning(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		"training.privacy.noise_multiplier=2": "audit.one_run is powerless against the proved epsilon of 4.38", "training.privacy.noise_multiplier=6": "",
		"training.privacy.noise_multiplier=2 audit.one_run.trade_off=true":                                                                                                 "the bound is 1.58, and the trade-off curve is not refuted; use more canaries or guesses",
		"training.privacy.noise_multiplier=2 audit.one_run.trade_off=true audit.one_run.canaries=600":                                                                      "",
		"training.privacy.noise_multiplier=2 audit.one_run.trade_off=true training.sampling=poisson":                                                                       "",
		"training.cohort=40000 training.rounds=9 training.privacy.noise_multiplier=0.5 audit.one_run.trade_off=true training.sampling=poisson":                             "and the trade-off curve is not refuted",
		"training.cohort=40000 training.rounds=9 training.privacy.noise_multiplier=0.5 audit.one_run.trade_off=true training.sampling=fixed-size":                          "and the trade-off curve is not refuted",
		"training.cohort=40000 training.rounds=9 training.privacy.noise_multiplier=0.5 audit.one_run.trade_off=true audit.one_run.canaries=6000 training.sampling=poisson": "",
		"training.privacy.noise_multiplier=2 audit.one_run.canaries_of=update":                                                                                             "",
		"training.privacy.noise_multiplier=0.4 audit.one_run.canaries_of=update audit.one_run.canaries=16":                                                                 "and the trade-off curve is not refuted",
		"training.privacy.noise_multiplier=0": "",
	} {
		sets := append([]string{"training.sampling=shuffled", "training.privacy.clip=1", "training.privacy.delta=1e-5"}, strings.Fields(sets)...)
		spec := must.Get(resolved(t, 392_000, sets...))(t)
		if got := strings.Join(spec.Cells[0].Warnings(), "\n"); strings.Contains(got, "powerless") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", sets, got, want)
		}
	}
}
