package control_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// Where no run can be read, the latest is an error that says so and why, and not that there are none.
func TestLatestReportsUnreadableRuns(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	archive := storage.NewArchive(store)
	run, _, err := runs.NewService(archive, nil).Submit(t.Context(), runs.Spec{Name: "new", Experiment: []byte("x"), Digest: storage.DigestOf([]byte("x"))}, "somebody", false)
	if err == nil {
		err = store.Put(t.Context(), "runs/"+run.ID+"/spec", strings.NewReader(`{"format":1000,"build":"9.9"}`), storage.Durable)
	}
	must.Do(t, err)
	_, err = control.New(archive, nil, nil).Status(t.Context(), experiment.Latest)
	if !errors.Is(err, storage.ErrNewer) || !strings.Contains(err.Error(), "none of the 1 runs") || !strings.Contains(err.Error(), run.ID) {
		t.Errorf("the latest: %v", err)
	}
}

// A power cut may tear the record of a run. It hides no other run, and can be removed.
func TestADamagedRecordHidesNoOtherRun(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{`{"name":"to`: storage.ErrCorrupt, `{"format":1000,"build":"9.9"}`: storage.ErrNewer} {
		t.Run(want.Error(), func(t *testing.T) {
			t.Parallel()
			hidesNoOther(t, text, want)
		})
	}
}

// hidesNoOther makes the record of a run a text, and expects an error from requests about
// it.
func hidesNoOther(t *testing.T, text string, want error) {
	store := storagetest.NewMemory()
	archive := storage.NewArchive(store)
	service := runs.NewService(archive, nil)
	var ids []string
	for _, name := range []string{"good", "torn"} {
		run, _, err := service.Submit(t.Context(), runs.Spec{Name: name, Experiment: []byte(name), Digest: storage.DigestOf([]byte(name))}, "somebody", false)
		must.Do(t, err)
		ids = append(ids, run.ID)
	}
	must.Do(t, store.Put(t.Context(), "runs/"+ids[1]+"/spec", strings.NewReader(text), storage.Durable))
	api := control.New(archive, nil, nil)
	list, err := api.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Run != ids[0] || list[1].Run != ids[1] || list[1].Phase != runs.Failed || !list[1].Unreadable || list[1].Error == "" {
		t.Fatalf("list %+v, %v, want the good run and then the damaged one as failed", list, err)
	}
	if s, err := api.Status(t.Context(), experiment.Latest); err != nil || s.Run != ids[0] {
		t.Errorf("the latest is %+v, %v, want the run that can be read", s, err)
	}
	if _, err := api.Status(t.Context(), ids[1]); !errors.Is(err, want) {
		t.Errorf("status of the damaged run: %v", err)
	}
	if _, err := api.Remove(t.Context(), "torn"); err == nil {
		t.Error("a damaged run was removed by the beginning of its id")
	}
	// These experiments cannot be planned, so that nothing is freed while the other is there.
	if removed, err := api.Remove(t.Context(), ids[1]); err != nil || len(removed.Freed.Held) != 1 || removed.Freed.Held[0].Run != ids[0] {
		t.Errorf("the removal: %+v, %v", removed, err)
	}
	if left, err := archive.Runs(t.Context()); err != nil || !slices.Equal(left, ids[:1]) {
		t.Errorf("runs %v, %v after the removal, want the good one", left, err)
	}
}
