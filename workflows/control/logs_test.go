package control_test

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
)

// A killed worker leaves no log, nor does a task that never ran: their known
// facts are shown all the same.
func TestLogsTellOfAttemptsThatLeftNone(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	if err != nil {
		t.Fatal(err)
	}
	key := func(name string) *storage.Key { return &storage.Key{Digest: storage.DigestOf([]byte(name))} }
	const gib = 1 << 30
	must.Do(t, service.Append(t.Context(), run.ID,
		runs.Entry{Kind: runs.WorkerDied, Key: key("alive"), Worker: "w1", Attempts: 1},
		runs.Entry{Kind: runs.WorkerDied, Key: key("poisoned"), Worker: "w2", Attempts: 2, MemoryBytes: gib, MemoryLimitBytes: 2 * gib},
		runs.Entry{Kind: runs.NodeFailed, Key: key("poisoned"), Label: "step 3", Attempts: 2, Error: "workers died"},
		runs.Entry{Kind: runs.NodeFailed, Key: key("unsendable"), Label: "step 4", Attempts: 5, Error: "its parameters cannot be sent"},
		runs.Entry{Kind: runs.NodeFailed, Key: key("logged"), Label: "step 5", Attempts: 1, Error: "as the log says"},
		runs.Entry{Kind: runs.AttemptFailed, Key: key("mended"), Label: "step 6", Attempts: 1, Error: "as the log says"},
		runs.Entry{Kind: runs.NodeFailed, Key: key("mended"), Label: "step 6", Attempts: 1, Error: "as the log says"},
		runs.Entry{Kind: runs.RetryEntry, Keys: []storage.Key{*key("mended")}},
	))
	must.Do(t, archive.PutTaskLog(t.Context(), run.ID, *key("logged"), "1.w3", []byte("what it printed")))
	must.Do(t, archive.PutTaskLog(t.Context(), run.ID, *key("mended"), "1.w3", []byte("before the retry")))
	for node, want := range map[string]string{
		"a node that was tried again": "1.w1: the worker vanished while it was at work on this: w1\n",
		"step 3":                      "2.w2: the worker vanished while it was at work on this: w2 at 1.0 GiB of 2.0 GiB\n",
		"step 4":                      "5: its parameters cannot be sent\n",
		"step 5":                      "1.w3: what it printed",
		"step 6":                      "1.w3: before the retry",
	} {
		logs, err := control.New(archive, nil, nil).Logs(t.Context(), run.ID, node)
		var got strings.Builder
		for _, l := range logs {
			got.WriteString(l.Attempt + ": " + l.Text)
		}
		if err != nil || got.String() != want {
			t.Errorf("logs of %q: %q, %v; want %q", node, got.String(), err, want)
		}
	}
	logs, err := control.New(archive, nil, nil).Logs(t.Context(), run.ID, "")
	var labels []string
	for _, l := range logs {
		labels = append(labels, l.Label)
	}
	if slices.Sort(labels); err != nil || !slices.Equal(labels, []string{"a node that was tried again", "step 3", "step 4", "step 5"}) {
		t.Errorf("logs of the run are of %q, %v; want none of before the retry", labels, err)
	}
}

// A store that is away may trouble every task of a large grid.
func TestLogsOfARunAreOfABoundedNumberOfNodes(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	if err != nil {
		t.Fatal(err)
	}
	entries := make([]runs.Entry, 0, 300)
	for i := range cap(entries) {
		key := storage.Key{Digest: storage.DigestOf([]byte{byte(i), byte(i >> 8)})}
		entries = append(entries, runs.Entry{Kind: runs.WorkerDied, Key: &key, Worker: "w1", Attempts: 1})
	}
	failed := storage.Key{Digest: storage.DigestOf([]byte("failed"))}
	entries = append(entries, runs.Entry{Kind: runs.NodeFailed, Key: &failed, Label: "step 3", Error: "no", Attempts: 1})
	must.Do(t, service.Append(t.Context(), run.ID, entries...))
	logs, err := control.New(archive, nil, nil).Logs(t.Context(), run.ID, "")
	if err != nil || len(logs) != 100 || logs[0].Label != "step 3" {
		t.Errorf("%d logs, %v; want a hundred, first those of what failed", len(logs), err)
	}
}
