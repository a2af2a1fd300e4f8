package storage_test

import (
	"encoding/json"
	"errors"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// A reader who finds a record torn removes it, or passes over it for good. So
// bytes that were damaged on their way must not pass for a torn record.
func TestTransitDamageIsNotReportedAsTorn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	damaged := func(name string) *storagetest.Fault {
		return &storagetest.Fault{Op: storagetest.Get, Name: name, Nth: 1, Flip: true}
	}
	a := faulty(damaged("commits/*"), damaged("runs/*/log/*"))
	if _, _, err := a.Commit(ctx, commit(1, "mine")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Committed(ctx, key(1)); err != nil {
		t.Errorf("a commit: %v", err)
	}
	must.Get(a.AppendLog(ctx, "r", json.RawMessage(`"paused"`)))(t)
	entries, err := a.ReadLog(ctx, "r", 1)
	if err != nil || len(entries) != 1 || entries[0].Torn {
		t.Errorf("an entry: %+v, %v", entries, err)
	}
}

func TestChangingDamageIsReportedAsAway(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var rules []*storagetest.Fault
	for n := range 8 {
		rules = append(rules, &storagetest.Fault{Op: storagetest.Get, Name: "commits/*", Nth: 1, Truncate: n + 1})
	}
	a := faulty(rules...)
	if _, _, err := a.Commit(ctx, commit(1, "mine")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Committed(ctx, key(1)); !errors.Is(err, storage.ErrAway) || errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v, want one that wraps %q", err, storage.ErrAway)
	}
	if removed, err := a.RemoveTorn(ctx, key(1)); removed || err == nil {
		t.Errorf("a whole record was removed: %v, %v", removed, err)
	}
}

// The answer to the create is lost, and the record comes back damaged.
func TestCommitRecognisesItsDamagedRecord(t *testing.T) {
	t.Parallel()
	a := faulty(
		&storagetest.Fault{Op: storagetest.Create, Nth: 1, After: true, Err: errLost},
		&storagetest.Fault{Op: storagetest.Get, Nth: 1, Flip: true})
	stands, won, err := a.Commit(t.Context(), commit(1, "mine"))
	if err != nil || !won || stands.Attempt != "mine" {
		t.Errorf("got %+v, %v, %v", stands, won, err)
	}
}
