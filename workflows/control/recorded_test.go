package control_test

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

const grid = `
name: grid
seed: 1
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 100}}
model: {embedding: 6, units: 8}
training: {rounds: 4, cohort: 5}
grid: {axes: {seed: [1, 2, 3]}}
`

func TestListReadsEachRecordOnce(t *testing.T) {
	t.Parallel()
	specs := &storagetest.Fault{Op: storagetest.Get, Name: "runs/*/spec"}
	logs := &storagetest.Fault{Op: storagetest.Children, Name: "runs/*/log"}
	archive := storage.NewArchive(storagetest.WithFaults(storagetest.NewMemory(), specs, logs))
	service, api := runs.NewService(archive, nil), control.New(archive, nil, nil)
	spec := plantest.Resolve(t, grid, []storage.Digest{storage.DigestOf(nil)})
	record := runs.Spec{Name: spec.Name, Digest: spec.Digest(), Experiment: spec.Canonical()}
	submit := func() string {
		t.Helper()
		run, _, err := service.Submit(t.Context(), record, "somebody", false)
		must.Do(t, err)
		return run.ID
	}
	list := func() *status.Run {
		t.Helper()
		all, err := api.List(t.Context())
		if err != nil || len(all) != 1 || len(all[0].Cells) != len(spec.Cells) {
			t.Fatalf("list %+v, %v, want one run of %d cells", all, err, len(spec.Cells))
		}
		return all[0]
	}
	id := submit()
	before := logs.Fired()
	if c := list().Cells[0]; c.Phase != runs.Queued || c.Label != spec.Cells[0].Label || c.Steps != spec.Cells[0].Experiment.Training.Rounds {
		t.Errorf("at first %+v", c)
	}
	if n := logs.Fired() - before; n != 1 {
		t.Errorf("the log was read %d times, want once", n)
	}
	before = specs.Fired()
	outcomes := map[string]runs.Phase{spec.Cells[0].Name: runs.Done}
	must.Do(t, service.Append(t.Context(), id, runs.Entry{Kind: runs.Started}, runs.Entry{Kind: runs.Finished, Outcomes: outcomes}))
	if r := list(); r.Phase != runs.Done || r.Cells[0].Phase != runs.Done || r.Cells[0].Step != r.Cells[0].Steps {
		t.Errorf("at the end %+v", r)
	}
	if n := specs.Fired() - before; n != 0 {
		t.Errorf("the record was read %d times again", n)
	}
	must.Do(t, archive.DeleteRun(t.Context(), id))
	if again := submit(); again != id {
		t.Fatalf("submitted again as %s, want %s", again, id)
	}
	if r := list(); r.Phase != runs.Queued || r.Cells[0].Phase != runs.Queued {
		t.Errorf("submitted again %+v", r)
	}
}
