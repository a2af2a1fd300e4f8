package membership_test

import (
	"os"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

func chains(t *testing.T, sets ...string) int {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/complete/membership.yaml"))(t)
	spec := plantest.Resolve(t, string(text), []storage.Digest{storage.DigestOf([]byte("the text"))}, sets...)
	p := must.Get(compile.Plan(spec))(t)
	return len(p.Chains)
}

// Cells that differ in canaries share their reference models; those that differ in the training
// share none.
func TestCellsOfOneTrainingShareReferenceModels(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]int{
		"audit.membership.reference_models=4":                                   1 + 4,
		"audit.membership.reference_models=0":                                   1,
		"grid={axes: {canaries: [{words: 3}, {words: 4}]}}":                     2 + 4,
		"grid={axes: {data: [{partition: iid}, {partition: by-user}]}}":         2 + 8,
		"grid={axes: {training: [{client: {learning_rate: .1}}, {cohort: 5}]}}": 2 + 8,
		"grid={axes: {training: [{}, {algorithm: sgd, rounds: 1000}]}}":         2 + 8,
		"grid={axes: {audit: [{}, {membership: {reference_models: 6}}]}}":       1 + 6,
		"grid={axes: {training: [{rounds: 10}, {rounds: 20}]}}":                 1 + 4,
	} {
		if got := chains(t, set); got != want {
			t.Errorf("%s: %d trainings, want %d", set, got, want)
		}
	}
}
