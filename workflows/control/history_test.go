package control_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/runs"
)

// submitted is a run in an empty store, and its controller.
func submitted(t *testing.T) (api *control.Local, run string) {
	t.Helper()
	archive := storage.NewArchive(storagetest.NewMemory())
	r, _, err := runs.NewService(archive, nil).Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "ada", false)
	must.Do(t, err)
	return control.New(archive, nil, nil), r.ID
}

func TestNotesAndTagsAppearInStatusAndHistory(t *testing.T) {
	t.Parallel()
	api, run := submitted(t)
	for _, e := range []runs.Entry{
		{Kind: runs.NoteEntry, Note: "forget this"},
		{Kind: runs.NoteEntry, Note: "<b>noisy</b>\nsecond line"},
		{Kind: runs.TagEntry, Tags: []string{"paper", "größe"}},
		{Kind: runs.Prioritized, Priority: 3},
		{Kind: runs.PinEntry, Pinned: true},
	} {
		must.Get(api.Steer(t.Context(), run, e))(t)
	}
	s, err := api.Status(t.Context(), run)
	if err != nil || s.Note != "<b>noisy</b>\nsecond line" || !slices.Equal(s.Tags, []string{"paper", "größe"}) || s.Priority != 3 || !s.Pinned {
		t.Errorf("status %+v, %v", s, err)
	}
	h, err := api.History(t.Context(), run)
	if err != nil || len(h.Events) != 6 || h.Dropped != 0 || h.Run != run {
		t.Fatalf("history %+v, %v", h, err)
	}
	if first := h.Events[0]; first.Text != "submitted by ada" || first.Time.IsZero() {
		t.Errorf("it begins with %+v", first)
	}
	if _, err := api.Steer(t.Context(), run, runs.Entry{Kind: runs.NoteEntry}); err != nil {
		t.Error(err)
	}
	if s, err := api.Status(t.Context(), run); err != nil || s.Note != "" {
		t.Errorf("a note that was taken away is %q, %v", s.Note, err)
	}
}

func TestHistoryOfUnknownRunFails(t *testing.T) {
	t.Parallel()
	api, _ := submitted(t)
	if _, err := api.History(t.Context(), "nothing"); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("history of no run: %v", err)
	}
}

func TestInvalidNotesAndTagsAreRejected(t *testing.T) {
	t.Parallel()
	api, run := submitted(t)
	for name, e := range map[string]runs.Entry{
		"a long note":          {Kind: runs.NoteEntry, Note: strings.Repeat("n", 5000)},
		"a note that beeps":    {Kind: runs.NoteEntry, Note: "\x1b[2J\a"},
		"a note of no text":    {Kind: runs.NoteEntry, Note: "\xff"},
		"a note with a pause":  {Kind: runs.PauseEntry, Note: "n"},
		"tags with a note":     {Kind: runs.NoteEntry, Tags: []string{"t"}},
		"many tags":            {Kind: runs.TagEntry, Tags: make([]string, 21)},
		"an empty tag":         {Kind: runs.TagEntry, Tags: []string{""}},
		"two words":            {Kind: runs.TagEntry, Tags: []string{"a b"}},
		"a comma":              {Kind: runs.TagEntry, Tags: []string{"a,b"}},
		"a line break":         {Kind: runs.TagEntry, Tags: []string{"a\n"}},
		"what cannot be seen":  {Kind: runs.TagEntry, Tags: []string{"a\u200b"}},
		"a long tag":           {Kind: runs.TagEntry, Tags: []string{strings.Repeat("ä", 41)}},
		"a tag that is broken": {Kind: runs.TagEntry, Tags: []string{"\xff"}},
	} {
		if _, err := api.Steer(t.Context(), run, e); !errors.Is(err, control.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := api.Steer(t.Context(), run, runs.Entry{Kind: runs.NoteEntry, Note: "bell \a"}); err == nil || !strings.Contains(err.Error(), `"\a" at byte 5`) || !strings.Contains(err.Error(), "without control characters") {
		t.Errorf("the error on a note that beeps does not name the character: %v", err)
	}
	if h, err := api.History(t.Context(), run); err != nil || len(h.Events) != 1 {
		t.Errorf("what was refused left %+v, %v", h, err)
	}
}

// The last lines of a program stand once: with its attempt, not again with the node that was given up.
func TestHistoryPrintsErrorOfFailedNodeOnce(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "ada", false)
	must.Do(t, err)
	node, other := storage.Key{Digest: storage.DigestOf([]byte("a"))}, storage.Key{Digest: storage.DigestOf([]byte("b"))}
	must.Do(t, service.Append(t.Context(), run.ID,
		runs.Entry{Kind: runs.AttemptFailed, Key: &node, Attempts: 1, Label: "training", Error: "boom"},
		runs.Entry{Kind: runs.NodeFailed, Key: &node, Attempts: 1, Label: "training", Error: "boom", Cells: []string{"c01"}},
		runs.Entry{Kind: runs.NodeFailed, Key: &other, Attempts: 3, Label: "audit", Error: "boom", Cells: []string{"c02"}},
	))
	h := must.Get(control.New(archive, nil, nil).History(t.Context(), run.ID))(t)
	var texts []string
	for _, e := range h.Events[1:] {
		texts = append(texts, e.Text)
	}
	want := []string{"attempt 1 at training failed: boom", "training failed after attempt 1, and with it cells c01", "audit failed after attempt 3, and with it cells c02: boom"}
	if !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

// A killed worker leaves no log, nor does a task that never ran: their known
// facts are shown all the same.
func TestLogsReportAttemptsWithoutLogs(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	must.Do(t, err)
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
		"a retried node": "1.w1: the worker died during this attempt: w1\n",
		"step 3":         "2.w2: the worker died during this attempt: w2 at 1.0 GiB of 2.0 GiB\n",
		"step 4":         "5: its parameters cannot be sent\n",
		"step 5":         "1.w3: what it printed",
		"step 6":         "1.w3: before the retry",
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
	if slices.Sort(labels); err != nil || !slices.Equal(labels, []string{"a retried node", "step 3", "step 4", "step 5"}) {
		t.Errorf("logs of the run are of %q, %v; want none of before the retry", labels, err)
	}
}

// A store that is away may trouble every task of a large grid.
func TestLogsOfRunAreBounded(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "somebody", false)
	must.Do(t, err)
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
