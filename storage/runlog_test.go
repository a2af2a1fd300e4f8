package storage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// scribe writes and folds a log in which each entry is a list of strings and a
// snapshot the list of all of them.
type scribe struct {
	t *testing.T
	a *storage.Archive
}

func (s scribe) say(what string) int {
	entry, _ := json.Marshal([]string{what})
	n, err := s.a.AppendLog(context.Background(), "run", entry)
	if err != nil {
		s.t.Errorf("append: %v", err)
	}
	return n
}

func (s scribe) read() (said []string, last int) {
	entries, err := s.a.ReadLog(context.Background(), "run", 1)
	if err != nil {
		s.t.Errorf("read: %v", err)
	}
	for i, e := range entries {
		if e.Snapshot && i > 0 {
			s.t.Errorf("snapshot %d comes after other entries", e.Number)
		}
		var words []string
		if !e.Torn {
			if err := json.Unmarshal(e.Data, &words); err != nil {
				s.t.Errorf("entry %d: %v", e.Number, err)
			}
		}
		said, last = append(said, words...), e.Number
	}
	return said, last
}

func (s scribe) compact() int {
	said, last := s.read()
	snapshot, _ := json.Marshal(said)
	n, err := s.a.CompactLog(context.Background(), "run", last, snapshot)
	if err != nil {
		s.t.Errorf("compact: %v", err)
	}
	return n
}

func (s scribe) wantSaid(want ...string) {
	s.t.Helper()
	if got, _ := s.read(); !slices.Equal(got, want) {
		s.t.Errorf("the log says %q, want %q", got, want)
	}
}

func logName(n int) string { return fmt.Sprintf("runs/run/log/%010d", n) }

func TestReadLogFromNumber(t *testing.T) {
	t.Parallel()
	s := scribe{t, faulty()}
	if entries, err := s.a.ReadLog(t.Context(), "run", 1); err != nil || len(entries) > 0 {
		t.Errorf("an empty log holds %v, %v", entries, err)
	}
	for _, what := range []string{"a", "b", "c"} {
		s.say(what)
	}
	entries, err := s.a.ReadLog(t.Context(), "run", 3)
	if err != nil || len(entries) != 1 || entries[0].Number != 3 || string(entries[0].Data) != `["c"]` {
		t.Errorf("from 3: %v, %v", entries, err)
	}
	if entries, err := s.a.ReadLog(t.Context(), "run", 4); err != nil || len(entries) != 0 {
		t.Errorf("from 4: %v, %v", entries, err)
	}
	s.compact()
	s.say("d")
	entries, err = s.a.ReadLog(t.Context(), "run", 2)
	if err != nil || len(entries) != 2 || !entries[0].Snapshot || entries[0].Number != 4 || entries[1].Number != 5 {
		t.Errorf("from 2 after a compaction: %v, %v", entries, err)
	}
	if _, err := s.a.AppendLog(t.Context(), "run", json.RawMessage("not JSON")); err == nil {
		t.Error("an entry that is no JSON gave no error")
	}
}

func TestCompactionKeepsTheGenerationBefore(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	s := scribe{t, storage.NewArchive(memory)}
	s.say("a")
	s.say("b")
	s.compact() // 3
	s.say("c")
	second := s.compact() // 5
	s.say("d")
	s.wantSaid("a", "b", "c", "d")
	var left []string
	for info, err := range memory.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, info.Name)
	}
	if want := []string{logName(3), logName(4), logName(5), logName(6)}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	tear(t, memory, logName(second))
	s.wantSaid("a", "b", "c", "d")
	s.say("e")
	s.compact()
	s.wantSaid("a", "b", "c", "d", "e")
}

// tear cuts an object in half, as a power cut does without a sync.
func tear(t *testing.T, s storage.Store, name string) {
	t.Helper()
	r := must.Get(s.Get(t.Context(), name, 0, -1))(t)
	data, _ := io.ReadAll(r)
	must.Do(t, s.Put(t.Context(), name, bytes.NewReader(data[:len(data)/2]), storage.Durable))
}

func TestTornEntryIsReported(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	s := scribe{t, storage.NewArchive(memory)}
	s.say("a")
	s.say("b")
	s.say("c")
	tear(t, memory, logName(2))
	entries, err := s.a.ReadLog(t.Context(), "run", 1)
	if err != nil || len(entries) != 3 || !entries[1].Torn || entries[0].Torn || entries[2].Torn {
		t.Errorf("got %v, %v", entries, err)
	}
	s.wantSaid("a", "c")
}

func TestLateCompactionIsRejected(t *testing.T) {
	t.Parallel()
	s := scribe{t, faulty()}
	s.say("a")
	s.say("b")
	if _, err := s.a.CompactLog(t.Context(), "run", 1, json.RawMessage(`["a"]`)); !errors.Is(err, storage.ErrExists) {
		t.Errorf("got %v, want one that wraps %q", err, storage.ErrExists)
	}
	s.wantSaid("a", "b")
}

// An appender chooses number 2 and is held up just before it creates the entry;
// meanwhile the log goes on, and number 2 is folded and deleted.
func TestEntryAtFreedNumberIsAppendedAgain(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	others := scribe{t, storage.NewArchive(memory)}
	others.say("first")
	meanwhile := func() {
		others.say("second") // takes number 2
		others.compact()
		others.say("third")
		others.compact() // deletes numbers 1 and 2
	}
	stale := &storagetest.Fault{Op: storagetest.Create, Name: logName(2), Nth: 1, Call: meanwhile}
	late := scribe{t, storage.NewArchive(storagetest.WithFaults(memory, stale))}
	if n := late.say("late"); n != 6 {
		t.Errorf("the late entry got number %d, want 6", n)
	}
	others.wantSaid("first", "second", "third", "late")
	others.compact()
	others.wantSaid("first", "second", "third", "late")
}

// An appender is delayed between creating its entry and checking it; meanwhile
// a compaction folds the entry.
func TestEntryFoldedBeforeCheckIsNotAppendedTwice(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	others := scribe{t, storage.NewArchive(memory)}
	others.say("first")
	fold := &storagetest.Fault{Op: storagetest.Children, Nth: 2, Call: func() { others.compact() }}
	slow := scribe{t, storage.NewArchive(storagetest.WithFaults(memory, fold))}
	if n := slow.say("slow"); n != 2 {
		t.Errorf("the entry got number %d, want 2", n)
	}
	others.wantSaid("first", "slow")
}

// After two compactions no record of the entry is left.
func TestEntryFoldedTwiceBeforeCheckIsUnknown(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	others := scribe{t, storage.NewArchive(memory)}
	others.say("first")
	meanwhile := func() {
		others.compact()
		others.say("more")
		others.compact()
		others.say("yet more")
		others.compact()
	}
	fold := &storagetest.Fault{Op: storagetest.Children, Nth: 2, Call: meanwhile}
	slow := storage.NewArchive(storagetest.WithFaults(memory, fold))
	if _, err := slow.AppendLog(t.Context(), "run", json.RawMessage(`["slow"]`)); !errors.Is(err, storage.ErrUnknown) {
		t.Errorf("got %v, want one that wraps %q", err, storage.ErrUnknown)
	}
	others.wantSaid("first", "slow", "more", "yet more")
}

// A reader is delayed between listing the log and reading it; meanwhile the
// listed entries are deleted.
func TestReaderOvertakenByCompactionsStartsAgain(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	others := scribe{t, storage.NewArchive(memory)}
	others.say("a")
	others.say("b")
	meanwhile := func() {
		others.compact()
		others.say("c")
		others.compact()
	}
	slow := scribe{t, storage.NewArchive(storagetest.WithFaults(memory, &storagetest.Fault{Op: storagetest.Get, Nth: 1, Call: meanwhile}))}
	slow.wantSaid("a", "b", "c")
}

func TestLogWithALostEntryIsCorrupt(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	s := scribe{t, storage.NewArchive(memory)}
	for _, what := range []string{"a", "b", "c"} {
		s.say(what)
	}
	must.Do(t, memory.Delete(t.Context(), logName(2)))
	if _, err := s.a.ReadLog(t.Context(), "run", 1); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v, want one that wraps %q", err, storage.ErrCorrupt)
	}
	if entries, err := s.a.ReadLog(t.Context(), "run", 3); err != nil || len(entries) != 1 {
		t.Errorf("from 3: %v, %v", entries, err)
	}
}
