package coordinator

import (
	"context"
	"fmt"
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

// leadsToTheEnd lets a coordinator lead a run to its end, whose store answers every read after a while, as a
// distant one does.
func leadsToTheEnd(t *testing.T, memory *storagetest.Memory, latency time.Duration, id string, p *plan.Plan) {
	t.Helper()
	q := newLiveQueue(storage.NewArchive(memory))
	slow := storagetest.WithFaults(memory)
	for _, op := range []storagetest.Op{storagetest.Get, storagetest.Head, storagetest.Children} {
		slow.Add(&storagetest.Fault{Op: op, Call: func() { time.Sleep(latency) }})
	}
	c := newLeader(t, storage.NewArchive(slow), q, "", p)
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
func TestLeaderReadsManyRunsFromSlowStore(t *testing.T) {
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
func TestLargeGridEndsInSlowStore(t *testing.T) {
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
