package results_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

// A cell goes on: after round 3 all is measured, after round 6 only the utility, and after
// the last round nothing yet.
func TestCurveOfRunningCellHasMeasuredRounds(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	spec := plantest.Resolve(t, sampledOften, []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	run := &runs.Run{ID: "often-1", Spec: runs.Spec{Experiment: spec.Canonical()}}
	before, err := results.LoadCurve(t.Context(), archive, run, "c01", 10)
	if err != nil || len(before.Audited) != 0 || before.Audited == nil || before.Rounds == nil || before.Steps != 9 || before.Unit != "round" {
		t.Fatalf("before anything is done: %+v, %v", before, err)
	}
	report := p.Nodes[p.Cells[0].Report.Key]
	measure := func(audit string, round int, metrics string) {
		key := report.Input(reports.AuditInput(audit, round))
		if _, _, err := archive.Commit(t.Context(), &storage.Commit{Key: key, Kind: "audits/x", Attempt: "1", Metrics: json.RawMessage(metrics)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, round := range []int{3, 6} {
		measure(reports.Utility, round, fmt.Sprintf(`{"perplexity":%d}`, 100-round))
	}
	measure("probabilistic_extraction", 3, `{"extractable":2}`)
	curve := must.Get(results.LoadCurve(t.Context(), archive, run, "c01", 10))(t)
	got, err := json.Marshal(curve.Audited)
	const want = `[{"round":3,"utility":{"perplexity":97},"extractable":2},{"round":6,"utility":{"perplexity":94}}]`
	if err != nil || string(got) != want {
		t.Errorf("measured is %s, %v; want %s", got, err, want)
	}
	checkSoFar(t, archive, p, run)
}

// checkSoFar looks at the results of a cell that has come to round 7 of 9.
func checkSoFar(t *testing.T, archive *storage.Archive, p *plan.Plan, run *runs.Run) {
	t.Helper()
	commit(t, archive, p.Cells[0].Chain.Key(1), tasks.RowsBlob, []checkpoints.Row{})
	if r := loaded(t, archive, run); r.Cells[0].Interim != nil {
		t.Errorf("after round 1 there is %+v", r.Cells[0].Interim)
	}
	for step := 2; step <= 7; step++ {
		commit(t, archive, p.Cells[0].Chain.Key(step), tasks.RowsBlob, []checkpoints.Row{})
	}
	r := loaded(t, archive, run)
	data, err := json.Marshal(r.Cells[0].Interim)
	const want = `{"unit":"round","steps":9,"measured":{"round":6,"utility":{"perplexity":94}},"audit":{}}`
	if err != nil || string(data) != want || r.Cells[0].State != results.Pending {
		t.Errorf("so far there is %s, %v; want %s", data, err, want)
	}
	table, err := r.Table()
	if err != nil || table.Rows[0].SoFar != "so far: round 6 of 9" || !strings.Contains(strings.Join(table.Rows[0].Texts, ","), "(so far: round 6 of 9)") || !slices.Contains(table.Rows[0].Texts, "94.0") {
		t.Errorf("the table has %+v, %v", table.Rows[0], err)
	}
	told, err := r.InterimMeasurements()
	if line := told["c01"].String(); err != nil || !strings.HasPrefix(line, "so far: round 6 of 9: ") || !strings.Contains(line, "perplexity 94.0") {
		t.Errorf("it is told by %q, %v", line, err)
	}
	if grown, err := r.Stale(t.Context(), archive); grown || err != nil {
		t.Errorf("the results have grown while nothing was measured: %v", err)
	}
	key := p.Nodes[p.Cells[0].Report.Key].Input(reports.AuditInput("probabilistic_extraction", 6))
	outcome := must.Get(archive.PutBlob(t.Context(), key, audits.OutcomeBlob, []byte(`{"extractable":5,"curves":[{}]}`), storage.Durable))(t)
	if _, _, err := archive.Commit(t.Context(), &storage.Commit{Key: key, Kind: "audits/x", Attempt: "1", Blobs: []storage.Blob{outcome}, Metrics: json.RawMessage(`{"extractable":5}`)}); err != nil {
		t.Fatal(err)
	}
	if grown, err := r.Stale(t.Context(), archive); !grown || err != nil {
		t.Errorf("the results have not grown with a measurement: %v", err)
	}
	if outcome, _ := loaded(t, archive, run).Cells[0].Interim.Audit.Get("probabilistic_extraction"); !strings.Contains(string(outcome), `"extractable":5`) {
		t.Errorf("the verdict is %s", outcome)
	}
}

func loaded(t *testing.T, archive *storage.Archive, run *runs.Run) *results.Results {
	t.Helper()
	return must.Get(results.Load(t.Context(), archive, run))(t)
}

// Of the open segment the last round has the time.
func TestCurveReportsTimesOfRounds(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	spec := plantest.Resolve(t, sampledOften, []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	commit := func(key storage.Key, after int) {
		rows := must.Get(archive.PutBlob(t.Context(), key, tasks.RowsBlob, []byte("[]"), storage.Durable))(t)
		c := &storage.Commit{Key: key, Kind: "x", Attempt: "1", Blobs: []storage.Blob{rows}, Provenance: storage.Provenance{Started: began.Add(time.Duration(after) * time.Minute), Seconds: 30}}
		if _, _, err := archive.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	cell := &p.Cells[0]
	commit(cell.Initial.Key, 0)
	commit(cell.Chain.Key(1), 5)
	commit(cell.Chain.Key(2), 9)
	curve := must.Get(results.LoadCurve(t.Context(), archive, &runs.Run{ID: "often-1", Spec: runs.Spec{Experiment: spec.Canonical()}}, "c01", 10))(t)
	var got []string
	for _, tick := range curve.Clock {
		got = append(got, fmt.Sprint(tick.Round, " ", tick.Time.Sub(began)))
	}
	if want := "0 30s, 1 5m30s, 2 9m30s"; strings.Join(got, ", ") != want {
		t.Errorf("the clock is %q, want %q", got, want)
	}
}

// Rounds 2 and 3 take two minutes each. When round 1 began nobody knows.
func TestCurveReportsRatesOfRounds(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	spec := plantest.Resolve(t, strings.Replace(sampledOften, "{learning_rate: 0.1}", "{learning_rate: 0.1, schedule: {kind: step, every: 2, factor: 0.5}}", 1), []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	commit := func(key storage.Key, after int, rows ...checkpoints.Row) {
		var b bytes.Buffer
		must.Do(t, json.NewEncoder(&b).Encode(rows))
		blob := must.Get(archive.PutBlob(t.Context(), key, tasks.RowsBlob, b.Bytes(), storage.Durable))(t)
		c := &storage.Commit{Key: key, Kind: "x", Attempt: "1", Blobs: []storage.Blob{blob}, Provenance: storage.Provenance{Started: began.Add(time.Duration(after) * time.Minute), Seconds: 30}}
		if _, _, err := archive.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	row := func(round int64) checkpoints.Row {
		return checkpoints.Row{Round: round, Clients: 2, Tokens: 1200 * round}
	}
	cell := &p.Cells[0]
	commit(cell.Initial.Key, 0)
	commit(cell.Chain.Key(1), 5, row(1))
	commit(cell.Chain.Key(2), 7, row(1), row(2))
	commit(cell.Chain.Key(3), 9, row(1), row(2), row(3))
	curve := must.Get(results.LoadCurve(t.Context(), archive, &runs.Run{ID: "often-1", Spec: runs.Spec{Experiment: spec.Canonical()}}, "c01", 10))(t)
	var got []results.Rates
	for i := range curve.Rounds {
		got = append(got, curve.Rounds[i].Rates)
	}
	want := []results.Rates{{LearningRate: 0.1, ServerLearningRate: 1}, {0.1, 1, 20}, {0.05, 1, 30}}
	if !slices.Equal(got, want) {
		t.Errorf("rates %+v, want %+v", got, want)
	}
}

func TestCurveOfUnknownCellListsCells(t *testing.T) {
	t.Parallel()
	spec := plantest.Resolve(t, sampledOften, []storage.Digest{storage.DigestOf([]byte("source"))})
	run := &runs.Run{ID: "often-1", Spec: runs.Spec{Experiment: spec.Canonical()}}
	_, err := results.LoadCurve(t.Context(), storage.NewArchive(storagetest.NewMemory()), run, "c09", 10)
	if !errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), "c01") {
		t.Errorf("got %v", err)
	}
}

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
	spec := plantest.Resolve(t, rankedOften, []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	run = &runs.Run{ID: "ranked-1", Spec: runs.Spec{Experiment: spec.Canonical()}}
	return storage.NewArchive(storagetest.NewMemory()), run, p.Nodes[p.Cells[0].Report.Key].Input
}

// After round 3 both audits have looked, after round 6 one, after the last none.
func TestCanaryLivesOfRunningCell(t *testing.T) {
	t.Parallel()
	archive, run, input := rankedRun(t)
	before, err := results.LoadCanaryLives(t.Context(), archive, run, "c01", 10)
	if err != nil || before.Canaries == nil || before.Rounds == nil || len(before.Canaries) != 0 || before.Unit != "round" {
		t.Fatalf("before anything is done: %+v, %v", before, err)
	}
	placed := []population.Placement{
		{Canary: population.Canary{Number: 0, Words: []string{"a", "b"}, UserProbability: "1/5", ExampleProbability: "1/2"}, Insertions: 7},
		{Canary: population.Canary{Number: 1, Words: []string{"c", "d"}, HeldBack: true}},
	}
	commit(t, archive, input(reports.PlacementsInput), population.CanariesBlob, placed)
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

func TestMismatchedCanaryOutcomesAreCorrupt(t *testing.T) {
	t.Parallel()
	archive, run, input := rankedRun(t)
	commit(t, archive, input(reports.PlacementsInput), population.CanariesBlob, []population.Placement{{Canary: population.Canary{HeldBack: true}}})
	commit(t, archive, input(reports.AuditInput("random_sampling", 9)), audits.CanaryOutcomesBlob, []map[string]any{{}, {}})
	if _, err := results.LoadCanaryLives(t.Context(), archive, run, "c01", 10); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if _, err := results.LoadCanaryLives(t.Context(), archive, run, "c07", 10); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("of no cell: %v", err)
	}
}
