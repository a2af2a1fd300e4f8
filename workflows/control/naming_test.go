package control_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/control"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// A name means the newest of several runs of one experiment, with any ids, and is refused if
// the runs are of several.
func TestNameSelectsNewestRunOfOneExperiment(t *testing.T) {
	t.Parallel()
	store := storagetest.WithFaults(storagetest.NewMemory())
	archive := storage.NewArchive(store)
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
	ctx := control.WithChoiceReporter(t.Context(), func(c control.Choice) { told = append(told, c) })
	api := control.New(archive, nil, nil)
	if s, err := api.History(ctx, "grid-"); err != nil || s.Run != newest || len(told) != 1 || told[0] != (control.Choice{Name: "grid-", Run: newest, Fits: 3}) {
		t.Errorf("grid- is %+v, %v; told %+v", s, err, told)
	}
	for name, hint := range map[string]string{"grdi": "did you mean grid?", "latest/c02": "expected a run without the cell c02: latest", "other": "memory:; see: coalmine status"} {
		if _, err := api.History(ctx, name); !errors.Is(err, control.ErrNoRun) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: %v, want %q", name, err, hint)
		}
	}
	if s, err := api.History(ctx, "grids"); err != nil || s.Run != lone || len(told) != 1 {
		t.Errorf("grids is %+v, %v; told %+v", s, err, told)
	}
	reads := &storagetest.Fault{Op: storagetest.Get, Name: "runs/*/spec"}
	store.Add(reads)
	if s, err := api.History(ctx, "gri"); !errors.Is(err, control.ErrAmbiguous) || reads.Fired() != 3 {
		t.Errorf("gri, which fits two experiments, is %+v, %v after %d reads; want 3: of gri, and of a run of each", s, err, reads.Fired())
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
func TestIDOfRunWithoutRecordSelectsNoOther(t *testing.T) {
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

// A changed line of a program begins a second run: the answer names the file.
func TestSecondRunOfNameListsDifferences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "mine"), 0o700))
	write("text.jsonl", string(taskstest.Text(200)))
	write("mine/train.sh", "first")
	write("mine/score.sh", "score")
	write("x.yaml", "name: my-run\ndata: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 50}}\nmodel: {kind: external}\n"+
		"training: {command: sh train.sh, rounds: 2, code: mine, code_roles: {scorer: [score.sh]}}\naudit: {utility: true}\n")
	api := control.New(storage.NewArchive(storagetest.NewMemory()), nil, nil)
	submit := func(fresh bool, sets ...string) control.Submitted {
		t.Helper()
		s := must.Get(submission.PrepareFile(t.Context(), "x.yaml", must.Get(os.ReadFile(filepath.Join(dir, "x.yaml")))(t), experiment.Options{Sets: sets}, sources.LocalFinder{Folder: dir}, nil))(t)
		must.Do(t, s.Upload(t.Context(), api))
		return must.Get(api.Submit(t.Context(), s.Record(), fresh))(t)
	}
	first := submit(false)
	if first.Earlier != nil {
		t.Errorf("the first run differs from %+v", first.Earlier)
	}
	if again := submit(true); again.Earlier != nil {
		t.Errorf("the same experiment differs from %+v", again.Earlier)
	}
	write("mine/train.sh", "second")
	second := submit(false)
	expect := func(s control.Submitted, from string, want ...string) {
		t.Helper()
		if s.Earlier == nil {
			t.Fatalf("run %s differs from none", s.Run)
		}
		if got := fmt.Sprint(s.Earlier.Changes); !strings.HasPrefix(s.Earlier.Run, from) || s.Earlier.Phase != runs.Queued || got != fmt.Sprint(want) {
			t.Errorf("run %s differs from %s (%s) in %s, want %s in %q", s.Run, s.Earlier.Run, s.Earlier.Phase, got, from, want)
		}
	}
	expect(second, first.Run, "training.code: train.sh")
	write("mine/score.sh", "another")
	expect(submit(false, "training.rounds=3"), second.Run, "training.code: score.sh", "training.rounds: 2 -> 3")
	if continued := submit(false, "training.rounds=3"); !continued.Continued || continued.Earlier != nil {
		t.Errorf("a run that continues: %+v", continued)
	}
}
