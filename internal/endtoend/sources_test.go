package endtoend_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// small makes one cell of a few rounds of the experiment.
var small = []string{"--set", "grid=null", "--set", "training.rounds=3", "--set", "audit.every=1"}

// withTexts is a workspace whose text is also a directory of two files.
func withTexts(t testing.TB) workspace {
	w := newWorkspace(t)
	must.Do(t, os.Mkdir(filepath.Join(w.dir, "texts"), 0o755))
	lines := strings.SplitAfter(text(), "\n")
	w.write("texts/a.jsonl", strings.Join(lines[:300], ""))
	w.write("texts/b.jsonl", strings.Join(lines[300:], ""))
	w.write("texts/README.md", "not data")
	return w
}

// on is a command about the small experiment with another source.
func (w workspace) on(source, verb string, args ...string) command {
	args = slices.Concat([]string{verb, "experiment.yaml", "--set", "data.source=" + source}, small, args)
	return w.coalmine(args...)
}

// cells are the results of a run without the run's names.
func cells(t testing.TB, results string) string {
	t.Helper()
	var r struct {
		Cells json.RawMessage `json:"cells"`
	}
	must.Do(t, json.Unmarshal([]byte(results), &r))
	return string(r.Cells)
}

func TestRunReadsLocalAndS3Directories(t *testing.T) {
	t.Parallel()
	w, server := withTexts(t), testserver.StartS3(t)
	must.Do(t, os.CopyFS(filepath.Join(server.Dir, server.Bucket, "corpus"), os.DirFS(filepath.Join(w.dir, "texts"))))
	here := cells(t, printed(t, w.on("texts", "run", "--json")))
	if whole := cells(t, printed(t, w.on("text.jsonl", "run", "--json"))); whole != here {
		t.Errorf("a directory gives %s\none file with its lines %s", here, whole)
	}

	far := w.on(server.URL("corpus/"), "plan", "--json")
	far.env = server.Env()
	if plan := printed(t, far); strings.Contains(plan, `"cached": false`) {
		t.Errorf("the same files in S3 are not cached: %s", plan)
	}
	fresh := newWorkspace(t)
	far = fresh.on(server.URL("corpus/"), "run", "--json")
	far.env = server.Env()
	if there := cells(t, printed(t, far)); there != here {
		t.Errorf("in S3 they give %s\nhere %s", there, here)
	}
	stranger := newWorkspace(t)
	far = stranger.on(server.URL("corpus/"), "run")
	far.env = []string{"AWS_ACCESS_KEY_ID=wrong", "AWS_SECRET_ACCESS_KEY=wrong"}
	refused(t, stranger, far, "data.source", "refuses to let it be read", "AWS_ACCESS_KEY_ID")
}
