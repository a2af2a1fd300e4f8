package compile_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/workflows/plan/plantest"
)

// peopleOf counts the users of a source.
func peopleOf(t *testing.T, source []byte) int {
	t.Helper()
	names := map[string]bool{}
	for line := range bytes.Lines(source) {
		var record struct{ User string }
		must.Do(t, json.Unmarshal(line, &record))
		names[record.User] = true
	}
	return len(names)
}

// Users of 0 words are those of the data: sampling, accounting and the guarantee use them,
// under either partition.
func TestUnbalancedUsersAreUnitOfPrivacy(t *testing.T) {
	t.Parallel()
	people := peopleOf(t, plantest.Text())
	for partition, unit := range map[string]string{"by-user": "user", "iid": "synthetic user"} {
		report := outcome(t, onePrivate, "data.users.words=0", "data.partition="+partition, "training.cohort=2")
		want := must.Get(privacy.Account(privacy.Recipe{Population: people, Cohort: 2, Rounds: 4, NoiseMultiplier: 2, Delta: 1e-5, Sampling: privacy.FixedSize}))(t)
		r := report.Privacy
		if r.Unit != unit || r.Population != people || report.Training.Users != people || r.Epsilon != want.Epsilon || r.EpsilonProved != want.EpsilonProved {
			t.Errorf("%s: %d users cost %v (%s); want %d users and %v (%s)", partition, r.Population, r.EpsilonProved, r.Unit, people, want.EpsilonProved, unit)
		}
	}
}

// The population of users as they are is known before it is shuffled, so that a budget
// allows the same number of rounds under either partition.
func TestBudgetCountsUnbalancedUsers(t *testing.T) {
	t.Parallel()
	steps := map[string]int{}
	for _, partition := range []string{"by-user", "iid"} {
		p := compiled(t, onePrivate, storage.DigestOf(nil), "data.users.words=0", "data.partition="+partition,
			"training.rounds=1000000", "training.privacy.budget={epsilon: 40}")
		steps[partition] = p.Cells[0].Chain.Steps
	}
	if steps["by-user"] != steps["iid"] || steps["iid"] == 1000000 {
		t.Errorf("the budget allows %v rounds", steps)
	}
}

func TestPlanNamesUnbalancedUsers(t *testing.T) {
	t.Parallel()
	p := compiled(t, onePrivate, storage.DigestOf(nil), "data.users.words=0")
	for _, n := range p.Nodes {
		if n.Label == "users as they are" {
			return
		}
	}
	t.Errorf("no node of %d says so", len(p.Nodes))
}
