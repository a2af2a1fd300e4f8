package coordinator

import (
	"context"
	"fmt"
	"io"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

// slowStore answers every read after a while, as a distant one does.
type slowStore struct {
	*storagetest.Memory
	latency time.Duration
}

func (s slowStore) wait(ctx context.Context) error {
	select {
	case <-time.After(s.latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowStore) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Get(ctx, name, offset, length)
}

func (s slowStore) Head(ctx context.Context, name string) (storage.Info, error) {
	if err := s.wait(ctx); err != nil {
		return storage.Info{}, err
	}
	return s.Memory.Head(ctx, name)
}

func (s slowStore) Children(ctx context.Context, dir string) iter.Seq2[string, error] {
	if err := s.wait(ctx); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return s.Memory.Children(ctx, dir)
}

// leadsToTheEnd lets a coordinator of a slow store lead a run to its end.
func leadsToTheEnd(t *testing.T, memory *storagetest.Memory, latency time.Duration, id string, p *plan.Plan) {
	t.Helper()
	q := newLiveQueue(storage.NewArchive(memory))
	c := newLeader(t, storage.NewArchive(slowStore{memory, latency}), q, "", p)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Lead(ctx) }()
	done := make(chan struct{})
	go func() {
		if s := await(t, c, id); s.Phase != runs.Done {
			t.Errorf("run %s is %s: %s", id, s.Phase, s.Error)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("run %s has not ended in ten minutes", id)
	}
	stop()
	must.Do(t, <-ended)
	q.work.Wait()
}

// A new leader reads all runs before it begins to work on one.
func TestALeaderReadsManyRunsFromASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.NewMemory()
		archive := storage.NewArchive(memory)
		for i := range 1000 {
			id := submitTo(t, archive, fmt.Sprint("old", i))
			must.Do(t, runs.NewService(archive, nil).Steer(t.Context(), id, runs.Entry{Kind: runs.CancelEntry}))
		}
		id := submitTo(t, archive, "new")
		leadsToTheEnd(t, memory, 20*time.Millisecond, id, plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 3}))
	})
}

// The outcome of a run is looked up before the run ends.
func TestALargeGridEndsInASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.NewMemory()
		b := plantest.NewBuilder()
		model := b.Node(plantest.Standing, plantest.Params{Salt: "model"})
		for i := range 4000 {
			b.Cell(b.Node(plantest.Report, plantest.Params{Salt: fmt.Sprint(i)}, model), model)
		}
		id := submitTo(t, storage.NewArchive(memory), "grid")
		leadsToTheEnd(t, memory, 300*time.Millisecond, id, b.Done(t))
	})
}
