package control_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/control"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// A changed line of a program begins a second run: the answer names the file.
func TestASecondRunOfANameSaysWhatDiffers(t *testing.T) {
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
		s := must.Get(submission.Prepare(t.Context(), filepath.Join(dir, "x.yaml"), experiment.Options{Sets: sets}, nil))(t)
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
