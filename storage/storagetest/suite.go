package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

// Driver gives the suite access to a driver.
type Driver struct {
	// Location names a new, empty store; each test of the suite requests one.
	Location func(t testing.TB) string
	// Open opens a location. The suite opens one several times, as the processes of a cluster do.
	Open func(t testing.TB, location string) storage.Store
	// ChildEnv is the environment in which another process can open a location
	// with package open; nil if none can, which skips the tests that kill a
	// process. A driver with ChildEnv needs a TestMain that calls Main.
	ChildEnv []string
}

// InProcess returns a driver of stores that exist only in this process.
func InProcess(create func() storage.Store) Driver {
	var mu sync.Mutex
	stores := make(map[string]storage.Store)
	return Driver{
		Location: func(testing.TB) string {
			mu.Lock()
			defer mu.Unlock()
			location := fmt.Sprint(len(stores))
			stores[location] = create()
			return location
		},
		Open: func(_ testing.TB, location string) storage.Store {
			mu.Lock()
			defer mu.Unlock()
			return stores[location]
		},
	}
}

// Run runs the suite: every MUST of storage.Store, and the contract of
// storage.Archive on top of the driver.
func Run(t *testing.T, d Driver) {
	for name, test := range map[string]func(*testing.T, Driver){
		"put and get":                   putAndGet,
		"put replaces":                  putReplaces,
		"put starts at the beginning":   putRewinds,
		"copies":                        copies,
		"ranges":                        ranges,
		"missing names":                 missingNames,
		"directories are no objects":    directoriesAreNoObjects,
		"bad names":                     badNames,
		"ended contexts":                endedContexts,
		"list":                          list,
		"children":                      children,
		"delete":                        deletion,
		"create keeps what is there":    createKeeps,
		"create refuses too much":       createRefusesTooMuch,
		"create race":                   createRace,
		"replacing is atomic":           replaceAtomically,
		"puts and deletes in one place": putWhileDeleting,
		"killed while putting":          killedWhilePutting,
		"archive blobs":                 archiveBlobs,
		"archive kept blobs":            archiveKeptBlobs,
		"archive commit race":           archiveCommitRace,
		"archive torn commit":           archiveTornCommit,
		"archive sources":               archiveSources,
		"archive runs":                  archiveRuns,
		"archive log append race":       archiveLogAppendRace,
		"archive log compaction race":   archiveLogCompactionRace,
		"archive epochs":                archiveEpochs,
		"archive identity":              archiveIdentity,
		"archive node deletion":         archiveNodeDeletion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

func (d Driver) new(t testing.TB) storage.Store { return d.Open(t, d.Location(t)) }

// putAll stores small objects whose content is their name.
func putAll(t testing.TB, s storage.Store, names ...string) {
	t.Helper()
	for _, name := range names {
		put(t, s, name, []byte(name))
	}
}

func put(t testing.TB, s storage.Store, name string, data []byte) {
	t.Helper()
	must.Do(t, s.Put(t.Context(), name, bytes.NewReader(data), storage.Recomputable))
}

func get(ctx context.Context, s storage.Store, name string, offset, length int64) ([]byte, error) {
	r, err := s.Get(ctx, name, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

func wantObject(t testing.TB, s storage.Store, name string, want []byte) {
	t.Helper()
	got := must.Get(get(t.Context(), s, name, 0, -1))(t)
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %s, want %s", name, digest(got), digest(want))
	}
}

func wantError(t testing.TB, label string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want one that wraps %q", label, err, want)
	}
}

func digest(data []byte) string {
	return fmt.Sprintf("%d bytes with digest %s", len(data), storage.DigestOf(data).Short())
}

// collect drains a listing.
func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// pattern returns size bytes that vary with the position.
func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8*13)
	}
	return data
}
