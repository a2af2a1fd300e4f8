package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

// racers is a plausible number of concurrent processes of a cluster.
const racers = 24

func createKeeps(t *testing.T, d Driver) {
	location := d.Location(t)
	one, other := d.Open(t, location), d.Open(t, location)
	must.Do(t, one.Create(t.Context(), "commits/x", []byte("first")))
	wantError(t, "create again", other.Create(t.Context(), "commits/x", []byte("second")), storage.ErrExists)
	wantError(t, "create the same again", one.Create(t.Context(), "commits/x", []byte("first")), storage.ErrExists)
	wantObject(t, other, "commits/x", []byte("first"))

	put(t, one, "commits/y", []byte("put"))
	wantError(t, "create over a put", one.Create(t.Context(), "commits/y", []byte("created")), storage.ErrExists)
	wantObject(t, one, "commits/y", []byte("put"))

	must.Do(t, one.Delete(t.Context(), "commits/x"))
	if err := other.Create(t.Context(), "commits/x", []byte("third")); err != nil {
		t.Fatalf("create after delete: %v", err)
	}
	wantObject(t, one, "commits/x", []byte("third"))
}

func createRefusesTooMuch(t *testing.T, d Driver) {
	s := d.new(t)
	if err := s.Create(t.Context(), "most", pattern(storage.MaxCreate)); err != nil {
		t.Errorf("create of %d bytes: %v", storage.MaxCreate, err)
	}
	if err := s.Create(t.Context(), "more", pattern(storage.MaxCreate+1)); err == nil {
		t.Errorf("create of %d bytes succeeded", storage.MaxCreate+1)
	}
	_, err := s.Head(t.Context(), "more")
	wantError(t, "head of what was refused", err, storage.ErrNotFound)
}

// openAll opens a location once for every racer.
func openAll(t *testing.T, d Driver, location string) []storage.Store {
	t.Helper()
	stores := make([]storage.Store, racers)
	for i := range stores {
		stores[i] = d.Open(t, location)
	}
	return stores
}

// race runs do in a goroutine for every store, all starting together.
func race(stores []storage.Store, do func(i int, s storage.Store)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i, s := range stores {
		wg.Go(func() {
			<-start
			do(i, s)
		})
	}
	close(start)
	wg.Wait()
}

func createRace(t *testing.T, d Driver) {
	stores := openAll(t, d, d.Location(t))
	for round, size := range []int{20, 1000, 100_000, 20, 1000} {
		name := fmt.Sprintf("race/%d", round)
		errs := make([]error, racers)
		race(stores, func(i int, s storage.Store) {
			errs[i] = s.Create(t.Context(), name, bytes.Repeat([]byte{byte('a' + i)}, size))
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("racers %d and %d both created %s", winner, i, name)
			case err == nil:
				winner = i
			case !errors.Is(err, storage.ErrExists):
				t.Errorf("racer %d: %v, want one that wraps %q", i, err, storage.ErrExists)
			}
		}
		if winner < 0 {
			t.Fatalf("nobody created %s", name)
		}
		wantObject(t, stores[0], name, bytes.Repeat([]byte{byte('a' + winner)}, size))
	}
}

func replaceAtomically(t *testing.T, d Driver) {
	s := d.new(t)
	versions := [][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 150_000), pattern(70_000)}
	put(t, s, "replaced", versions[0])
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				wantOneOf(t, s, "replaced", versions)
			}
		})
	}
	for i := range 40 {
		put(t, s, "replaced", versions[i%len(versions)])
	}
	cancel()
	readers.Wait()
}

func wantOneOf(t *testing.T, s storage.Store, name string, versions [][]byte) {
	got, err := get(t.Context(), s, name, 0, -1)
	if err != nil {
		t.Errorf("reading while it is replaced: %v", err)
		return
	}
	for _, v := range versions {
		if bytes.Equal(got, v) {
			return
		}
	}
	t.Errorf("read a mixture: %s", digest(got))
}

// putWhileDeleting checks for directories that vanish during a put.
func putWhileDeleting(t *testing.T, d Driver) {
	stores := openAll(t, d, d.Location(t))
	race(stores, func(i int, s storage.Store) {
		for n := range 5 {
			name := fmt.Sprintf("blobs/shared/deep/%d.%d", i, n)
			if err := s.Put(t.Context(), name, bytes.NewReader([]byte(name)), storage.Recomputable); err != nil {
				t.Errorf("put: %v", err)
			}
			if n == 4 {
				continue // the last one stays
			}
			if err := s.Delete(t.Context(), name); err != nil {
				t.Errorf("delete: %v", err)
			}
		}
	})
	if infos := collect(t, stores[0].List(t.Context(), "blobs/")); len(infos) != racers {
		t.Errorf("%d objects are left, want one of each of %d racers", len(infos), racers)
	}
}
