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

func TestMoreCoinsThanUsersAreRefused(t *testing.T) {
	t.Parallel()
	_, err := resolved(t, 59)
	if want := "x.yaml:4:29: audit.one_run.canaries: is 60; expected at most 59, the balanced users of a.jsonl: each carries one"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
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
