package results_test

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

const sampledOften = `
name: often
data: {source: a.jsonl, vocabulary: {size: 60}}
canaries: {words: 4, insertions: [1]}
training: {rounds: 9, cohort: 2, client: {learning_rate: 0.1}}
audit: {every: 3, probabilistic_extraction: {}}
`

// Of round 6 storage has nothing anymore.
func TestTheCurveHasTheVerdictsOfEveryRound(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	spec := plantest.Resolve(t, sampledOften, []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	report := p.Nodes[p.Cells[0].Report.Key]
	for _, round := range []int{3, 9} {
		outcome := probabilisticextraction.Outcome{Extractable: round, Curves: []probabilisticextraction.Curve{{Canaries: 2}}}
		commit(t, archive, report.Input(reports.AuditInput("probabilistic_extraction", round)), audits.OutcomeBlob, &outcome)
	}
	commit(t, archive, p.Cells[0].Report.Key, reports.CellBlob, map[string]any{"curve": []map[string]any{{"round": 3}, {"round": 6}, {"round": 9}}})

	r := must.Get(results.Load(t.Context(), archive, &runs.Run{ID: "often-1", Spec: runs.Spec{Experiment: spec.Canonical()}}))(t)
	for _, point := range r.Cells[0].Curve {
		raw, there := point.Metrics.Get("probabilistic_extraction")
		if there != (point.Round != 6) {
			t.Errorf("round %d: %s", point.Round, raw)
		}
		if there && string(raw[:len(`{"extractable":3`)]) != map[int]string{3: `{"extractable":3`, 9: `{"extractable":9`}[point.Round] {
			t.Errorf("round %d has %s", point.Round, raw)
		}
	}
}
