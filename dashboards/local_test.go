package dashboards

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/control"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

const tiny = `
name: tiny
data:
  source: data.jsonl
  vocabulary: {size: 60}
  users: {words: 300}
model: {embedding: 6, units: 8}
canaries: {words: 4, per_configuration: 2, user_probability: [1/5], example_probability: [100%]}
training: {algorithm: fedavg, rounds: 4, cohort: 6, chunks: 2, client: {learning_rate: 0.5}}
audit: {random_sampling: {references: 500}}
grid:
  axes:
    data.partition: [iid, by-user]
`

// tinyData has enough words and users for tiny.
func tinyData() []byte { return taskstest.Text(3000) }

// prepared is a submission of tiny with its data.
func prepared(t testing.TB) (runs.Spec, []byte) {
	t.Helper()
	dir, data := t.TempDir(), tinyData()
	must.Do(t, os.WriteFile(filepath.Join(dir, "data.jsonl"), data, 0o600))
	s := must.Get(submission.PrepareFile(t.Context(), "tiny.yaml", []byte(tiny), experiment.Options{}, sources.LocalFinder{Folder: dir}, nil))(t)
	return s.Record(), data
}

// The whole way of a run without workers, from the client to the store.
func TestARunIsSubmittedSeenAndSteered(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, _ := start(t, control.New(storage.NewArchive(storagetest.NewMemory()), nil, nil), Options{})

	if _, err := c.Status(ctx, ""); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("the newest of no runs: %v", err)
	}
	if all, err := c.List(ctx); err != nil || len(all) != 0 {
		t.Errorf("no runs are %v, %v", all, err)
	}
	spec, data := prepared(t)
	if _, err := c.Submit(ctx, spec, false); !errors.Is(err, control.ErrInput) || !strings.Contains(err.Error(), "not been uploaded") {
		t.Errorf("a run before its source: %v", err)
	}
	must.Get(c.PutSource(ctx, bytes.NewReader(data)))(t)
	first, err := c.Submit(ctx, spec, false)
	if err != nil || first.Continued {
		t.Fatalf("submitted: %+v, %v", first, err)
	}
	if again, err := c.Submit(ctx, spec, false); err != nil || again.Run != first.Run || !again.Continued {
		t.Errorf("submitted again: %+v, %v", again, err)
	}
	spec.Priority = new(4)
	want := control.Submitted{Run: first.Run, Continued: true, Phase: runs.Queued, Priority: spec.Priority}
	if again, err := c.Submit(ctx, spec, false); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("submitted again with a priority: %+v, %v", again, err)
	}
	if s, err := c.Status(ctx, first.Run); err != nil || s.Priority != 4 {
		t.Errorf("after a submission with a priority: %+v, %v", s, err)
	}
	file := c.ask(t, http.MethodGet, "/api/v1/runs/tiny/experiment?format=yaml", nil, nil)
	if cells := strings.Split(file.body, "---\n"); file.Header.Get("Content-Type") != fileType || len(cells) != 2 || !strings.HasPrefix(cells[1], "# c02: by-user") {
		t.Errorf("the experiment files of two cells are %s", file.body)
	}
	if s, err := c.Status(ctx, "tiny"); err != nil || s.Run != first.Run || len(s.Cells) != 2 || s.Phase != runs.Queued {
		t.Errorf("by the beginning of its name: %+v, %v", s, err)
	}

	second, err := c.Submit(ctx, spec, true)
	if err != nil || second.Run == first.Run {
		t.Fatalf("a fresh one: %+v, %v", second, err)
	}
	var chosen []control.Choice
	telling := control.WithChoiceReporter(ctx, func(c control.Choice) { chosen = append(chosen, c) })
	if s, err := c.Status(telling, "tiny"); err != nil || s.Run != second.Run || !slices.Equal(chosen, []control.Choice{{Name: "tiny", Run: second.Run, Fits: 2}}) {
		t.Errorf("a name that fits two is %+v, %v; told of %+v", s, err, chosen)
	}
	if _, err := c.Status(telling, second.Run); err != nil || len(chosen) != 1 {
		t.Errorf("a whole id: %v, told of %+v", err, chosen)
	}
	if _, err := c.Remove(ctx, "tiny"); !errors.Is(err, control.ErrAmbiguous) {
		t.Errorf("removing one of two: %v", err)
	}
	if all, err := c.List(ctx); err != nil || len(all) != 2 {
		t.Errorf("two runs are %v, %v", all, err)
	}
	steer(t, c, first.Run)
}

func steer(t *testing.T, c *Client, run string) {
	t.Helper()
	ctx := t.Context()
	if _, err := c.Steer(ctx, run, runs.Entry{Kind: runs.RetryEntry}); !errors.Is(err, runs.ErrState) {
		t.Errorf("a retry of nothing: %v", err)
	}
	if id, err := c.Steer(ctx, run, runs.Entry{Kind: runs.PauseEntry}); err != nil || id != run {
		t.Errorf("a pause: %q, %v", id, err)
	}
	statuses := must.Get(c.Watch(ctx, run))(t)
	if s := next(t, statuses); s.Phase != runs.Paused {
		t.Errorf("paused, it is %s", s.Phase)
	}
	if _, err := c.Steer(ctx, run, runs.Entry{Kind: runs.CancelEntry}); err != nil {
		t.Error(err)
	}
	if s := next(t, statuses); s.Phase != runs.Cancelled {
		t.Errorf("cancelled, it is %s", s.Phase)
	}
	ends(t, statuses)
	if _, err := c.Steer(ctx, "nothing", runs.Entry{Kind: runs.PauseEntry}); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("a pause of no run: %v", err)
	}
	found, err := c.Results(ctx, run)
	if err != nil || len(found.Cells) != 2 || found.Cells[0].Status != results.Cancelled || found.Cells[1].Axes[0].Path != "data.partition" {
		t.Errorf("results: %+v, %v", found, err)
	}
	if _, err := c.Model(ctx, run, "c01", 0); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the model of a cell that was not trained: %v", err)
	}
	if _, err := c.Model(ctx, run, "c99", 0); !errors.Is(err, control.ErrInput) {
		t.Errorf("the model of no cell: %v", err)
	}
	if logs, err := c.Logs(ctx, run, ""); err != nil || len(logs) != 0 {
		t.Errorf("logs: %v, %v", logs, err)
	}
}
