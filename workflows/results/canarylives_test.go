package results_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/compile/compiletest"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

const rankedOften = `
name: ranked
data: {source: a.jsonl, vocabulary: {size: 60}}
canaries: {words: 4, user_probability: 20%, example_probability: 50%, held_back: 1}
training: {rounds: 9, cohort: 2, client: {learning_rate: 0.1}}
audit: {every: 3, random_sampling: {references: 100}, beam_search: {width: 2}}
`

// rankedRun is a run of which nothing is stored yet, and its report's node.
func rankedRun(t *testing.T) (archive *storage.Archive, run *runs.Run, input func(name string) storage.Key) {
	t.Helper()
	spec := compiletest.Resolve(t, rankedOften, []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	run = &runs.Run{ID: "ranked-1", Spec: runs.Spec{Experiment: spec.Canonical()}}
	return storage.NewArchive(storagetest.NewMemory()), run, p.Nodes[p.Cells[0].Report.Key].Input
}

// After round 3 both audits have looked, after round 6 one, after the last none.
func TestCanariesLiveWhileTheCellGoesOn(t *testing.T) {
	t.Parallel()
	archive, run, input := rankedRun(t)
	before, err := results.LoadCanaryLives(t.Context(), archive, run, "c01", 10)
	if err != nil || before.Canaries == nil || before.Rounds == nil || len(before.Canaries) != 0 || before.Unit != "round" {
		t.Fatalf("before anything is done: %+v, %v", before, err)
	}
	placed := []datasets.Placement{
		{Canary: datasets.Canary{Number: 0, Words: []string{"a", "b"}, UserProbability: "1/5", ExampleProbability: "1/2"}, Insertions: 7},
		{Canary: datasets.Canary{Number: 1, Words: []string{"c", "d"}, HeldBack: true}},
	}
	commit(t, archive, input(reports.PlacementsInput), datasets.CanariesBlob, placed)
	ranks := func(round int) {
		canaryOutcomes := []map[string]any{{"exposure": round, "memorized": round > 3}, {"exposure": 0, "memorized": false}}
		commit(t, archive, input(reports.AuditInput("random_sampling", round)), audits.CanaryOutcomesBlob, canaryOutcomes)
	}
	ranks(3)
	ranks(6)
	commit(t, archive, input(reports.AuditInput("beam_search", 3)), audits.CanaryOutcomesBlob, []map[string]any{{"beam_found": true}, {"beam_found": false}})
	lives := must.Get(results.LoadCanaryLives(t.Context(), archive, run, "c01", 10))(t)
	got, err := json.Marshal(lives.Rounds)
	const want = `[{"round":3,"outcomes":[{"exposure":3,"memorized":false,"beam_found":true},{"exposure":0,"memorized":false,"beam_found":false}]},` +
		`{"round":6,"outcomes":[{"exposure":6,"memorized":true},{"exposure":0,"memorized":false}]}]`
	if err != nil || string(got) != want {
		t.Errorf("rounds are %s, %v; want %s", got, err, want)
	}
	first := lives.Canaries[0]
	exposure, _ := first.Canary.Outcomes.Get("exposure")
	found, _ := first.Canary.Outcomes.Get("beam_found")
	if fmt.Sprintf("%s %s %s %d", first.Role, exposure, found, first.Canary.Insertions) != "inserted 6 true 7" || lives.Canaries[1].Role != audits.HeldBack {
		t.Errorf("the canaries are %+v", lives.Canaries)
	}
}

func TestOutcomesOfOtherCanariesAreCorrupt(t *testing.T) {
	t.Parallel()
	archive, run, input := rankedRun(t)
	commit(t, archive, input(reports.PlacementsInput), datasets.CanariesBlob, []datasets.Placement{{Canary: datasets.Canary{HeldBack: true}}})
	commit(t, archive, input(reports.AuditInput("random_sampling", 9)), audits.CanaryOutcomesBlob, []map[string]any{{}, {}})
	if _, err := results.LoadCanaryLives(t.Context(), archive, run, "c01", 10); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if _, err := results.LoadCanaryLives(t.Context(), archive, run, "c07", 10); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("of no cell: %v", err)
	}
}
