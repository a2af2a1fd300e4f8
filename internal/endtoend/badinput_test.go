package endtoend_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// badInput is a mistake of a user.
type badInput struct {
	// replace is a pair of texts: the first, which the experiment file holds,
	// becomes the second.
	replace [2]string
	// data is the text of the users, if it is another.
	data string
	// says lists the parts of the message: the place, the fault, the advice.
	says []string
}

func TestBadInputIsReportedAndLeavesNoRun(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]badInput{
		"wrong type": {
			replace: [2]string{"cohort: 4, chunks", "cohort: four, chunks"},
			says:    []string{"experiment.yaml:6:", "training.cohort", `"four"`, "whole number"},
		},
		"unknown field": {
			replace: [2]string{"name: tiny", "name: tiny\nnonsense: 1"},
			says:    []string{"experiment.yaml:3:1", "nonsense"},
		},
		"probability above 1": {
			replace: [2]string{"user_probability: 20%", "user_probability: 1.5"},
			says:    []string{"experiment.yaml:4:", "canaries.user_probability", "1.5", "at most 1"},
		},
		"cohort above the population": {
			replace: [2]string{"cohort: 4, chunks", "cohort: 5000, chunks"},
			says:    []string{"experiment.yaml:6:", "training.cohort", "5000", "at most", "text.jsonl"},
		},
		"empty axis": {
			replace: [2]string{"[iid, by-user]", "[]"},
			says:    []string{"experiment.yaml:10:", "grid.axes.data.partition", "empty"},
		},
		"grid without cells": {
			replace: [2]string{"grid:", "grid:\n  exclude: [{data.partition: iid}, {data.partition: by-user}]"},
			says:    []string{"experiment.yaml:", "grid", "exclude removes all of them"},
		},
		"two axes over one field": {
			replace: [2]string{"    training:\n", "    training.cohort: [4, 5]\n    training:\n"},
			says:    []string{"experiment.yaml:", "grid.axes.training", "training.cohort", "also sets"},
		},
		"vocabulary larger than the data": {
			replace: [2]string{"size: 60", "size: 6000"},
			says:    []string{"experiment.yaml:3:", "data.vocabulary.size", "6000", "distinct words"},
		},
		"no such data": {
			replace: [2]string{"text.jsonl", "absent.jsonl"},
			says:    []string{"experiment.yaml:3:16: data.source: absent.jsonl: no such file or directory"},
		},
		"truncated gzip": {
			replace: [2]string{"text.jsonl", "text.jsonl.gz"},
			data:    truncatedGzip(text()),
			says:    []string{"text.jsonl.gz", "truncated", "get it again"},
		},
		"a line that is no JSON": {
			data: text() + "hello\n",
			says: []string{"text.jsonl, line 801", "not JSON", "expected"},
		},
		"an empty text": {
			data: text() + `{"user":"a","text":""}` + "\n",
			says: []string{"text.jsonl, line 801", "empty", "leave the line out"},
		},
		"invalid UTF-8": {
			data: text() + "{\"user\":\"a\",\"text\":\"x \xff y\"}\n",
			says: []string{"text.jsonl, line 801", "UTF-8", "convert"},
		},
		"a user without words": {
			data: text() + `{"user":"silent","text":"  "}` + "\n",
			says: []string{"text.jsonl, line 801", "no words", "leave the line out"},
		},
		"an empty line": {
			data: "\n",
			says: []string{"text.jsonl, line 1", "empty", "expected"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			bad.spoil(w)
			refused(t, w, w.coalmine("run", "experiment.yaml"), bad.says...)
		})
	}
}

// spoil makes the mistake.
func (b *badInput) spoil(w workspace) {
	w.t.Helper()
	file := experimentFile
	if b.replace[0] != "" {
		if file = strings.Replace(file, b.replace[0], b.replace[1], 1); file == experimentFile {
			w.t.Fatalf("the experiment file does not hold %q", b.replace[0])
		}
	}
	w.write("experiment.yaml", file)
	if b.data != "" {
		w.write(dataName(b), b.data)
	}
}

func dataName(b *badInput) string {
	if b.replace[0] == "text.jsonl" {
		return b.replace[1]
	}
	return "text.jsonl"
}

func truncatedGzip(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // memory takes all
	_ = z.Close()
	return b.String()[:b.Len()/2]
}

// refused runs a command that must end with exit status 2 and one message, and
// leave no run in the workspace's home.
func refused(t testing.TB, w workspace, c command, says ...string) {
	t.Helper()
	r := run(t, c)
	if r.code != 2 {
		t.Errorf("exit status %d, want 2", r.code)
	}
	if n := strings.Count("\n"+r.stderr, "\ncoalmine: "); n != 1 {
		t.Errorf("%d messages, want one:\n%s", n, r.stderr)
	}
	for _, words := range says {
		if !strings.Contains(r.stderr, words) {
			t.Errorf("the message does not say %q:\n%s", words, r.stderr)
		}
	}
	noRun(t, w.store())
}

// noRun makes sure that no run was recorded in a directory store.
func noRun(t testing.TB, store string) {
	t.Helper()
	found := must.Get(filepath.Glob(filepath.Join(store, "runs", "*")))(t)
	if len(found) > 0 {
		t.Errorf("a run was left behind: %s", found)
	}
}

func TestAbsentRedisIsReportedBeforeSubmission(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	redis := testserver.RefusingAddress(t)
	for _, verb := range []string{"submit", "run"} {
		refused(t, w, w.coalmine(verb, "experiment.yaml", "--redis", "redis://"+redis, "--store", w.store()),
			redis, "not reachable", "start redis-server")
	}
}

func TestWrongS3CredentialsAreReportedBeforeSubmission(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	w := newWorkspace(t)
	c := w.coalmine("submit", "experiment.yaml", "--store", server.URL("store"))
	c.env = []string{"AWS_ACCESS_KEY_ID=" + server.AccessKey, "AWS_SECRET_ACCESS_KEY=wrong"}
	refused(t, w, c, server.Addr(), server.Bucket, "AWS_SECRET_ACCESS_KEY")
	noRun(t, filepath.Join(server.Dir, server.Bucket, "store"))

	c.env = []string{"AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(w.dir, "absent")}
	refused(t, w, c, "no credentials", "AWS_ACCESS_KEY_ID")
}

func TestFullDiskIsReportedBeforeSubmission(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	must.Do(t, os.Mkdir(w.home(), 0o700))
	mountSmall(t, w.home(), 32<<10) // the text has more
	refused(t, w, w.coalmine("run", "experiment.yaml"), "full", "no space left")
}

// mountSmall mounts a file system of a size in bytes. The test is skipped where it
// may not.
func mountSmall(t testing.TB, dir string, size int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("mounting a small file system is known for Linux only")
	}
	if text, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be mounted (it takes root): %s", bytes.TrimSpace(text))
	}
	t.Cleanup(func() {
		if text, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("unmounting %s: %v: %s", dir, err, text)
		}
	})
}
