package control_test

import (
	"errors"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
)

// A name means the newest of several runs of one experiment, with any ids, and is refused if
// the runs are of several.
func TestANameMeansTheNewestRunOfOneExperiment(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	service := runs.NewService(archive, func() time.Time { now = now.Add(time.Hour); return now })
	submit := func(name, experiment string) string {
		spec := runs.Spec{Name: name, Digest: storage.DigestOf([]byte(experiment)), Experiment: []byte(experiment)}
		run, _, err := service.Submit(t.Context(), spec, "somebody", true)
		if err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	submit("grid", "1")
	submit("grid", "2")
	newest := submit("grid", "3")
	lone := submit("grids", "4")
	var told []control.Choice
	ctx := control.TellingChoices(t.Context(), func(c control.Choice) { told = append(told, c) })
	api := control.New(archive, nil, nil)
	if s, err := api.History(ctx, "grid-"); err != nil || s.Run != newest || len(told) != 1 || told[0] != (control.Choice{Name: "grid-", Run: newest, Fits: 3}) {
		t.Errorf("grid- is %+v, %v; told %+v", s, err, told)
	}
	if s, err := api.History(ctx, "grids"); err != nil || s.Run != lone || len(told) != 1 {
		t.Errorf("grids is %+v, %v; told %+v", s, err, told)
	}
	if s, err := api.History(ctx, "gri"); !errors.Is(err, control.ErrAmbiguous) {
		t.Errorf("gri, which fits two experiments, is %+v, %v", s, err)
	}
	if s, err := api.History(ctx, "grid"); err != nil || s.Run != newest || len(told) != 2 {
		t.Errorf("grid, the name of one experiment and the beginning of another's, is %+v, %v; told %+v", s, err, told)
	}
	if s, err := api.History(ctx, lone); err != nil || s.Run != lone {
		t.Errorf("%s is %+v, %v", lone, s, err)
	}
	if removed, err := api.Remove(ctx, "grid-"); !errors.Is(err, control.ErrAmbiguous) {
		t.Errorf("of three runs %+v is removed, %v", removed, err)
	}
	second := submit("grids", "4")
	must.Do(t, archive.DeleteRun(t.Context(), lone))
	if removed, err := api.Remove(ctx, lone); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("of %s, where %s is gone, %+v is removed, %v", second, lone, removed, err)
	}
}

// The full id of a run that has lost its record means that run alone.
func TestTheIdOfARunThatHasLostItsRecordMeansNoOther(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	spec := runs.Spec{Name: "x", Digest: storage.DigestOf([]byte("x")), Experiment: []byte("x")}
	var ids []string
	for range 2 {
		run, _, err := service.Submit(t.Context(), spec, "somebody", true)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	must.Do(t, archive.Store().Delete(t.Context(), "runs/"+ids[0]+"/spec"))
	if h, err := control.New(archive, nil, nil).History(t.Context(), ids[0]); !runs.IsUnreadable(err) {
		t.Errorf("%s, which has lost its record beside %s, is %+v, %v", ids[0], ids[1], h, err)
	}
}
