package main

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/dashboards"
	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/datadir"
)

func TestServeHomeUsesGivenAddressAndToken(t *testing.T) {
	t.Parallel()
	dir, address, token := t.TempDir(), testserver.FreeAddress(t), "a-token-of-26-characters-xx"
	file := filepath.Join(dir, "token")
	writeFile(t, file, token)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"serve", "--home", filepath.Join(dir, "home"), "--listen", address, "--token-file", file}, &bytes.Buffer{}, &bytes.Buffer{})
	}()
	defer func() {
		stop()
		<-ended
	}()
	must.Await(t, "the server's first answer", func() bool {
		response, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})

	client, err := dashboards.NewClient("http://"+address, token)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := client.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("runs %v, %v, want none", list, err)
	}
	_, err = datadir.Claim(filepath.Join(dir, "home"))
	if err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("another process is told %v, want the address %s", err, address)
	}
}

func TestServeHomeRejectsPublicServingFlags(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "home")
	for _, flags := range [][]string{{"--tls-cert", "cert.pem"}, {"--host", "example.org"}, {"--insecure"}, {"--listen", "0.0.0.0:0"}} {
		var stderr bytes.Buffer
		code := execute(t.Context(), append([]string{"serve", "--home", dir}, flags...), &bytes.Buffer{}, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), "localhost") && !strings.Contains(stderr.String(), flags[0]) {
			t.Errorf("%v: exit %d, %s", flags, code, &stderr)
		}
	}
}

// A run in a home shares the machine with the unfinished runs there.
func TestRunListsOtherUnfinishedRuns(t *testing.T) {
	t.Parallel()
	store := must.Get(open.Open(t.Context(), t.TempDir()))(t)
	archive := storage.NewArchive(store)
	service := runs.NewService(archive, nil)
	var ids []string
	for _, name := range []string{"mine", "other", "paused"} {
		run, _, err := service.Submit(t.Context(), runs.Spec{Name: name, Experiment: []byte(name), Digest: storage.DigestOf([]byte(name))}, "somebody", false)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	api := control.New(archive, nil, nil)
	must.Get(api.Steer(t.Context(), ids[2], runs.Entry{Kind: runs.PauseEntry}))(t)
	var stderr bytes.Buffer
	(&global{stderr: &stderr}).noteOthers(t.Context(), api, ids[0])
	if want := "other unfinished runs also continue: " + ids[1] + " (to stop one: coalmine pause RUN"; !strings.Contains(stderr.String(), want) {
		t.Errorf("%q, want %q", &stderr, want)
	}
}

// A command that has submitted a run follows that run alone, though the id of a removed one begins that of another.
func TestSubmitFollowsOnlySubmittedRun(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	var ids []string
	for range 2 {
		run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", true)
		must.Do(t, err)
		ids = append(ids, run.ID)
	}
	must.Do(t, archive.DeleteRun(t.Context(), ids[0]))
	for i, id := range ids {
		flags := submitFlags{submitted: id}
		got, err := flags.submit(t.Context(), control.New(archive, nil, nil), nil)
		if removed := i == 0; (err != nil) != removed || !removed && got.Run != id {
			t.Errorf("after submitting %s of %q: it follows %q, %v", id, ids, got.Run, err)
		}
	}
}

func TestCommandsReportHomeWithoutRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for says, args := range map[string][]string{
		"no runs yet":     {"status"},
		`"runs": []`:      {"status", "--json"},
		"has no runs yet": {"status", "latest"},
	} {
		var out bytes.Buffer
		execute(t.Context(), append(args, "--home", dir), &out, &out)
		if !strings.Contains(out.String(), says) {
			t.Errorf("%v: %s, want %q", args, &out, says)
		}
	}
	missing := filepath.Join(dir, "missing")
	var out bytes.Buffer
	if code := execute(t.Context(), []string{"verify", "--home", missing}, &out, &out); code != exitUsage || !strings.Contains(out.String(), missing) {
		t.Errorf("verify of no home: exit %d, %s", code, &out)
	}
}
