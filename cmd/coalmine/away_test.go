package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workflows/runs"
)

func TestStatusAndPauseWorkWithoutRedis(t *testing.T) {
	t.Parallel()
	url := "file://" + filepath.Join(t.TempDir(), "store")
	store := must.Get(open.Open(t.Context(), url))(t)
	service := runs.NewService(storage.NewArchive(store), nil)
	run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status", "--json"}, exitDone, `"cause": "queue-away"`},
		{[]string{"pause", run.ID}, exitDone, run.ID},
		{[]string{"drain", "w"}, exitUsage, "redis is not reachable"},
		{[]string{"gc"}, exitUsage, "redis is not reachable"},
		{[]string{"submit", "../../examples/quickstart.yaml", "--set", "data.source=../../examples/data/state-of-the-union.jsonl.gz"}, exitUsage, "redis is not reachable"},
	} {
		var stdout, stderr bytes.Buffer
		// Nothing listens on port 1.
		code := execute(t.Context(), append(c.args, "--redis", "redis://127.0.0.1:1", "--store", url), &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.says) {
			t.Errorf("%v: exit %d, want %d saying %q\n%s%s", c.args, code, c.code, c.says, &stdout, &stderr)
		}
	}
	now, err := service.Get(t.Context(), run.ID)
	if err != nil || now.State.Phase != runs.Paused {
		t.Errorf("after pause: %+v, %v", now, err)
	}
}

func TestNoStoreIsCreatedWithoutRedis(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	for _, args := range [][]string{
		{"submit", "../../examples/quickstart.yaml"},
		{"run", "../../examples/quickstart.yaml"},
		{"worker", "--wait", "0"},
	} {
		message := fails(t, "redis is not reachable", append(args, "--redis", "redis://127.0.0.1:1", "--store", "file://"+store)...)
		if strings.Contains(message, "waiting") {
			t.Errorf("%s waits, which only processes with --wait do: %s", args[0], message)
		}
		if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after %s the store is there (%v)", args[0], err)
		}
	}
}

func TestServeRejectsPublicAddressWithoutToken(t *testing.T) {
	t.Parallel()
	l := listenFlags{address: "0.0.0.0:0"}
	listener, err := l.listen()
	if err == nil {
		listener.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("beyond localhost without a token: %v", err)
	}
}

func TestCommandsReportMissingAndExtraArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"run: expected the FILE of an experiment, or --continue":                           {"run"},
		`unexpected argument "b.yaml"; usage: coalmine run [FILE]`:                         {"run", "a.yaml", "b.yaml"},
		"argument FILE is missing; usage: coalmine plan FILE":                              {"plan"},
		"argument RUN is missing; usage: coalmine compare RUN RUN":                         {"compare", "a"},
		`unexpected argument "world"; usage: coalmine note RUN [TEXT]`:                     {"note", "quickstart", "hello", "world"},
		`unexpected argument "all"; usage: coalmine gc`:                                    {"gc", "all"},
		"argument FILE.json... is missing; usage: coalmine data convert leaf FILE.json...": {"data", "convert", "leaf"},
		"--set applies to a submission":                                                    {"run", "--continue", "some", "--set", "seed=2"},
		"usage: coalmine data inspect SOURCE":                                              {"data", "inspect"},
	} {
		refuses(t, want, args...)
	}
}
