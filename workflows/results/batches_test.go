package results_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/reports"
	"coalmine/tasks/training"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

// Of two users one has 2 examples, the other 4, and a batch has 4.
func TestResultsReportEffectiveRateOfShortBatches(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	spec := plantest.Resolve(t, `
name: short
data: {source: a.jsonl, vocabulary: {size: 60}}
training: {rounds: 9, cohort: 2, client: {learning_rate: 2, batch: 4}}
`, []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	run := &runs.Run{ID: "short-1", Spec: runs.Spec{Experiment: spec.Canonical()}, State: runs.State{Outcomes: map[string]runs.Phase{"c01": runs.Done}}}
	commit(t, archive, p.Cells[0].Report.Key, reports.CellBlob, map[string]any{"utility": map[string]any{"perplexity": 9}, "curve": []map[string]any{{"round": 9}}})
	if b := loaded(t, archive, run).Cells[0].Batches; b != nil {
		t.Errorf("without a population: %v", b)
	}
	inputs := p.Cells[0].Chain.Part.Inputs
	at := slices.IndexFunc(inputs, func(in tasks.Input) bool { return in.Name == training.PopulationInput })
	index := []byte("coalmine index 1\n")
	for _, x := range []uint64{1 << 20, 2, 0, 9, 2, 4, 0, 20, 4, 9} {
		index = binary.AppendUvarint(index, x)
	}
	commitBytes(t, archive, inputs[at].Key, population.MembersIndexBlob, index)
	r := loaded(t, archive, run)
	if b := r.Cells[0].Batches; b == nil || b.Clients != 2 || b.Short != 1 || b.EffectiveLearningRate != 1.5 {
		t.Errorf("short batches are %+v", b)
	}
	table, err := r.Table()
	if err != nil || !strings.Contains(strings.Join(table.Notes, "\n"), "clients train at 1.5 on average in place of 2") {
		t.Errorf("notes %q, %v", table.Notes, err)
	}
}
