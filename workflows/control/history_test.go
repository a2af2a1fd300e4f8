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
	if err != nil {
		t.Fatal(err)
	}
	return control.New(archive, nil, nil), r.ID
}

func TestWhatPeopleAttachToARunIsInItsStatusAndItsHistory(t *testing.T) {
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

func TestThereIsNoHistoryOfNoRun(t *testing.T) {
	t.Parallel()
	api, _ := submitted(t)
	if _, err := api.History(t.Context(), "nothing"); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("history of no run: %v", err)
	}
}

func TestNotesAndTagsAreBounded(t *testing.T) {
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
	if h, err := api.History(t.Context(), run); err != nil || len(h.Events) != 1 {
		t.Errorf("what was refused left %+v, %v", h, err)
	}
}

// The last lines of a program stand once: with its attempt, not again with the node that was given up.
func TestTheErrorOfANodeThatWasGivenUpStandsOnce(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	service := runs.NewService(archive, nil)
	run, _, err := service.Submit(t.Context(), runs.Spec{Name: "x", Digest: storage.DigestOf(nil)}, "ada", false)
	if err != nil {
		t.Fatal(err)
	}
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
	want := []string{"attempt 1 at training failed: boom", "training given up after attempt 1, and with it cells c01", "audit given up after attempt 3, and with it cells c02: boom"}
	if !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}
