package storage_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// rewrite replaces the sealed record of an object by another one.
func rewrite(t *testing.T, store storage.Store, name string, change func(record string) string) {
	t.Helper()
	r := must.Get(store.Get(t.Context(), name, 0, -1))(t)
	data := must.Get(io.ReadAll(r))(t)
	var sealed struct {
		Record json.RawMessage `json:"record"`
	}
	must.Do(t, json.Unmarshal(data, &sealed))
	record := change(string(sealed.Record))
	text := `{"sha256":"` + storage.DigestOf([]byte(record)).String() + `","record":` + record + `}`
	must.Do(t, store.Put(t.Context(), name, strings.NewReader(text), storage.Durable))
}

// unstamped removes the fields that builds before format numbers did not write.
func unstamped(record string) string {
	_, rest, _ := strings.Cut(record, `","`)
	return `{"` + rest
}

// newer makes a record without a stamp one of a build of the future.
func newer(record string) string {
	return `{"format":1000,"build":"9.9","meaning":"reversed",` + strings.TrimPrefix(record, "{")
}

func TestNewerFormatIsRejectedWithItsBuild(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	a := storage.NewArchive(store)
	key := must.Get(storage.ParseKey(strings.Repeat("1", 64)))(t)
	commit := &storage.Commit{Key: key, Kind: "kind", KindVersion: 1, Attempt: "1"}
	unfinished := &storage.Unfinished{Key: key, Attempt: "1"}
	for name, c := range map[string]struct{ write, read func() error }{
		"commits/" + key.String(): {
			func() error { _, _, err := a.Commit(t.Context(), commit); return err },
			func() error { _, err := a.Committed(t.Context(), key); return err },
		},
		"runs/r/log/0000000001": {
			func() error { _, err := a.AppendLog(t.Context(), "r", []byte(`{"kind":"x"}`)); return err },
			func() error { _, err := a.ReadLog(t.Context(), "r", 1); return err },
		},
		"library/posts": {
			func() error { return a.CreateEntry(t.Context(), "posts", map[string]int{"x": 1}) },
			func() error { return a.Entry(t.Context(), "posts", &map[string]any{}) },
		},
		"unfinished/" + key.String() + "/state": {
			func() error { return a.KeepUnfinished(t.Context(), unfinished, nil) },
			func() error { _, err := a.ReadUnfinished(t.Context(), key); return err },
		},
		"leader/store": {
			func() error { _, err := a.Identify(t.Context()); return err },
			func() error { _, err := a.Identity(t.Context()); return err },
		},
	} {
		if err := c.write(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rewrite(t, store, name, unstamped)
		if err := c.read(); err != nil {
			t.Errorf("%s of before formats had numbers: %v", name, err)
		}
		rewrite(t, store, name, newer)
		err := c.read()
		if !errors.Is(err, storage.ErrNewer) || errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s of a newer format: error %v, want one that wraps ErrNewer", name, err)
			continue
		}
		for _, part := range []string{"written by coalmine 9.9 in format 1000", "reads formats up to 1", "use coalmine 9.9 or a newer build"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q does not say %q", name, err, part)
			}
		}
	}
	if removed, err := a.RemoveTorn(t.Context(), key); removed || !errors.Is(err, storage.ErrNewer) {
		t.Errorf("a commit of a newer format counts as torn: removed %v, error %v", removed, err)
	}
}

func TestBuildInFormatErrorIsPrintable(t *testing.T) {
	t.Parallel()
	err := storage.Format{Name: "commit", Number: 1}.Check(storage.Stamp{Format: 2, Build: "\x1b[2J\u202e" + strings.Repeat("x", 200)})
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") || len(err.Error()) > 500 {
		t.Errorf("error %q", err)
	}
}
