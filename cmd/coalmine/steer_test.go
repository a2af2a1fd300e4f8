package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// failedRun is a run of which three nodes have failed: the keys of two begin alike,
// and the labels of two are the same.
func failedRun(t *testing.T) *status.Run {
	t.Helper()
	s := &status.Run{Run: "r-01234567"}
	for prefix, label := range map[string]string{"aa1": "step 3", "aa2": "step 3", "b": "beam search at 40"} {
		key := must.Get(storage.ParseKey(prefix + strings.Repeat("0", 64-len(prefix))))(t)
		s.Failures = append(s.Failures, status.Failure{Key: key, Failure: runs.Failure{Label: label, Cells: []string{"c-" + prefix}}})
	}
	slices.SortFunc(s.Failures, func(a, b status.Failure) int { return a.Key.Compare(b.Key) })
	return s
}

func TestFailedNodesAreFoundByNameOrKeyPrefix(t *testing.T) {
	t.Parallel()
	s := failedRun(t)
	for _, names := range [][]string{{"aa2", "b"}, {"AA2", "beam search at 40"}, {s.Failures[1].Key.String(), s.Failures[2].Key.Short()}} {
		keys, err := failedNodes(s, names)
		if err != nil || !slices.Equal(keys, []storage.Key{s.Failures[1].Key, s.Failures[2].Key}) {
			t.Errorf("%q: %v, %v", names, keys, err)
		}
	}
	for name, want := range map[string][]string{
		"aa":     {"several", "c-aa1", "c-aa2", s.Failures[0].Key.Short()},
		"step 3": {"several", "c-aa1", "c-aa2"},
		"step 4": {"no failed node", "step 3", "beam search at 40"},
		"":       {"no failed node"},
	} {
		_, err := failedNodes(s, []string{name})
		for _, words := range want {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%q: %v does not say %q", name, err, words)
			}
		}
		if strings.HasPrefix(name, "a") && strings.Contains(err.Error(), "c-b") {
			t.Errorf("%q: %v lists what does not fit", name, err)
		}
	}
	if _, err := failedNodes(&status.Run{Run: "x"}, []string{"a"}); err == nil || !strings.Contains(err.Error(), "none has failed") {
		t.Errorf("of a run without failures: %v", err)
	}
}

// A retry runs the code of the submission, and says whether the directory has other code now.
func TestRetryReportsChangedCode(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	train := filepath.Join(folder, "train.py")
	must.Do(t, os.WriteFile(train, []byte("1"), 0o600))
	packed := must.Get(sources.LocalFinder{}.Pack(t.Context(), folder, "", func(string) bool { return false }))(t)
	training := &experiment.Training{Command: "python3 train.py", Code: folder, CodeSHA256: packed.Digests()[0].String()}
	says := func(want string) {
		t.Helper()
		if got := retriedCode(t.Context(), training); !strings.HasPrefix(got, "it runs the code of "+folder+" as submitted") || !strings.Contains(got, want) {
			t.Errorf("a retry says %q, want %q", got, want)
		}
	}
	says("which has not changed")
	must.Do(t, os.WriteFile(train, []byte("2"), 0o600))
	says("which has changed since; to run the changed code: coalmine run FILE")
	must.Do(t, os.RemoveAll(folder))
	says("for other code: coalmine run FILE")
}
