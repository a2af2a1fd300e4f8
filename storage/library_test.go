package storage_test

import (
	"errors"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

func TestLibraryNameHasOneRecord(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), storagetest.NewMemory()
	a := storage.NewArchive(memory)
	for _, name := range []string{"b", "a"} {
		must.Do(t, a.CreateEntry(ctx, name, map[string]int{"n": 1}))
	}
	if err := a.CreateEntry(ctx, "a", map[string]int{"n": 1}); err != nil {
		t.Errorf("the same record again: %v", err)
	}
	rewrite(t, memory, "library/a", unstamped)
	if err := a.CreateEntry(ctx, "a", map[string]int{"n": 1}); err != nil {
		t.Errorf("the same record again, which another build wrote: %v", err)
	}
	if err := a.CreateEntry(ctx, "a", map[string]int{"n": 2}); !errors.Is(err, storage.ErrExists) {
		t.Errorf("another record: %v", err)
	}
	var got map[string]int
	if err := a.Entry(ctx, "a", &got); err != nil || got["n"] != 1 {
		t.Errorf("read %v, %v", got, err)
	}
	if names, err := a.Entries(ctx); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("names %v, %v", names, err)
	}
	must.Do(t, a.DeleteEntry(ctx, "a"))
	if err := errors.Join(a.Entry(ctx, "a", &got)); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a name that was removed: %v", err)
	}
	if err := a.DeleteEntry(ctx, "a"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestLibraryRejectsBadNames(t *testing.T) {
	t.Parallel()
	ctx, a := t.Context(), storage.NewArchive(storagetest.NewMemory())
	for _, name := range []string{"", "A", "../x", "a/b", ".hidden"} {
		for _, err := range []error{a.CreateEntry(ctx, name, 1), a.Entry(ctx, name, new(int)), a.DeleteEntry(ctx, name)} {
			if !errors.Is(err, storage.ErrName) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

func TestDamagedLibraryEntryIsCorrupt(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), storagetest.NewMemory()
	must.Do(t, memory.Create(ctx, "library/a", []byte(`{"sha256":"`)))
	if err := storage.NewArchive(memory).Entry(ctx, "a", new(int)); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
