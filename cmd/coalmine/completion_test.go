package main

import (
	"bytes"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/datadir"
)

func TestShellCompletionFollowsUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := must.Get(open.Open(t.Context(), datadir.StorePath(dir)))(t)
	run, _, err := runs.NewService(storage.NewArchive(store), nil).Submit(t.Context(),
		runs.Spec{Name: "grid", Experiment: []byte("x"), Digest: storage.DigestOf([]byte("x"))}, "somebody", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want string // "" for nothing
	}{
		{"status", run.ID}, {"compare " + run.ID, run.ID}, {"rm " + run.ID, run.ID},
		{"results --format", "latex"},
		{"status " + run.ID, ""}, {"priority " + run.ID, ""}, {"drain", ""},
	} {
		var out bytes.Buffer
		args := append([]string{"__complete", "--home", dir}, strings.Fields(c.line)...)
		execute(t.Context(), append(args, ""), &out, &bytes.Buffer{})
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && got != ":4\n" {
			t.Errorf("%q is completed by %q, want %q", c.line, got, c.want)
		}
	}
}

func TestArgumentNamesComeFromUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		usage    string
		position int
		want     string
	}{
		{"[RUN]", 0, "RUN"}, {"[RUN]", 1, ""}, {"RUN...", 5, "RUN"}, {"RUN [CELL...]", 0, "RUN"}, {"RUN [CELL...]", 3, "CELL"}, {"RUN [NODE]", 1, "NODE"},
	} {
		if got := argument(strings.Fields(c.usage), c.position); got != c.want {
			t.Errorf("argument %d of %s is %q, want %q", c.position, c.usage, got, c.want)
		}
	}
}
