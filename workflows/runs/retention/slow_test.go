package retention

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

// farStore answers each request after a time, stamps objects by a clock that is behind, and calls listed
// whenever the runs are listed.
type farStore struct {
	storage.Store
	after, behind time.Duration
	listed        func()
}

func (s farStore) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	time.Sleep(s.after)
	return s.Store.Get(ctx, name, offset, length)
}

func (s farStore) Head(ctx context.Context, name string) (storage.Info, error) {
	time.Sleep(s.after)
	info, err := s.Store.Head(ctx, name)
	info.Modified = info.Modified.Add(-s.behind)
	return info, err
}

func (s farStore) List(ctx context.Context, prefix string) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix) {
			info.Modified = info.Modified.Add(-s.behind)
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s farStore) Children(ctx context.Context, dir string) iter.Seq2[string, error] {
	time.Sleep(s.after)
	if dir == "runs" && s.listed != nil {
		s.listed()
	}
	return s.Store.Children(ctx, dir)
}

// manyRuns returns a fixture with finished runs of one plan and an object that none of them needs.
func manyRuns(t *testing.T, n int) *fixture {
	x := newFixture(t)
	b := plantest.NewBuilder()
	node := b.Node(plantest.Standing, plantest.Params{Salt: "trained"})
	b.Cell(node, node)
	p := b.Done(t)
	x.Compile = func(context.Context, *runs.Run) (*plan.Plan, error) { return p, nil }
	for i := range n {
		x.append(x.submit(fmt.Sprint("run", i), p), runs.Started, runs.Finished)
	}
	orphan := storage.Key{Digest: storage.DigestOf([]byte("orphan"))}
	must.Get(x.Archive.PutBlob(t.Context(), orphan, "model", make([]byte, 1<<20), storage.Durable))(t)
	return x
}

// collectFrom has the collector work in the fixture's store from afar, and fails if it has not ended after an hour.
func (x *fixture) collectFrom(store farStore) (*Result, error) {
	store.Store = x.memory
	x.Archive = storage.NewArchive(store)
	x.lead()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Hour)
	defer cancel()
	return x.Collect(ctx, x.token)
}

// Reading 300 runs takes longer than a check holds; looking for changed logs does not.
func TestCollectionDeletesInSlowStoreWithManyRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := manyRuns(t, 300)
		got, err := x.collectFrom(farStore{after: 200 * time.Millisecond})
		if err != nil || got.Total().Objects != 1 || len(x.names("blobs/")) != 0 {
			t.Errorf("got %+v, %v; want that the object which no run needs is gone", got, err)
		}
	})
}

func TestCollectionDeletesWhileRunsChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := manyRuns(t, 3)
		id := x.submit("busy", must.Get(x.Compile(t.Context(), nil))(t))
		notes := 0
		note := func() {
			notes++
			must.Do(t, x.service.Append(t.Context(), id, runs.Entry{Kind: runs.NoteEntry, Note: fmt.Sprint(notes)}))
		}
		got, err := x.collectFrom(farStore{after: time.Millisecond, listed: note})
		if err != nil || got.Total().Objects != 1 || got.Runs != 4 || notes < 2 {
			t.Errorf("after %d changes got %+v, %v; want one object gone, and the needs of 4 runs heeded", notes, got, err)
		}
	})
}

func TestCollectionInTooSlowStoreFailsWithoutDeleting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := manyRuns(t, 200)
		got, err := x.collectFrom(farStore{after: 5 * time.Second})
		if !errors.Is(err, storage.ErrAway) || got.Total().Objects != 0 || len(x.names("blobs/")) == 0 {
			t.Errorf("got %+v, %v; want an error that wraps %q, and nothing deleted", got, err, storage.ErrAway)
		}
	})
}

// A leader whose clock has jumped ahead by a day must not take the blobs of a running attempt for old.
func TestObjectAgesFollowStoreClock(t *testing.T) {
	t.Parallel()
	x := manyRuns(t, 1)
	x.Now, x.OlderThan = nil, 13*time.Hour
	far := farStore{behind: 24 * time.Hour}
	if got, err := x.collectFrom(far); err != nil || got.Total().Objects != 0 || got.Young.Objects != 1 {
		t.Errorf("with a clock one day ahead of the store's: got %+v, %v; want one young object kept", got, err)
	}
	if got, err := x.Preview(t.Context()); err != nil || got.Total().Objects != 0 || got.Young.Objects != 1 {
		t.Errorf("a preview counts %+v, %v; want one young object kept", got, err)
	}
	x.OlderThan = 0
	if got, err := x.collectFrom(far); err != nil || got.Total().Objects != 1 {
		t.Errorf("of any age: got %+v, %v; want one object gone", got, err)
	}
}
