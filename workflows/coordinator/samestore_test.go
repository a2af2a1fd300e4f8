package coordinator

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
)

func TestAStandbyWarnsOnceOfALeaderWithAnotherStore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		store storage.Store // of the standby; nil is the leader's
		warns int
	}{
		"its own store": {nil, 0},
		"another store": {storagetest.NewMemory(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				archive := storage.NewArchive(storagetest.NewMemory())
				q := newLiveQueue(archive)
				leader := newLeader(t, archive, q, "first", nil)
				if test.store != nil {
					archive = storage.NewArchive(test.store)
				}
				standby := newLeader(t, archive, q, "second", nil)
				var log bytes.Buffer
				standby.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))

				ctx, stop := context.WithCancel(t.Context())
				var both sync.WaitGroup
				both.Go(func() { _ = leader.Lead(ctx) })
				synctest.Wait()
				both.Go(func() { _ = standby.Lead(ctx) })
				time.Sleep(20 * time.Second)
				stop()
				both.Wait()
				if n := strings.Count(log.String(), "level=WARN"); n != test.warns {
					t.Errorf("%d warnings, want %d:\n%s", n, test.warns, &log)
				}
				if test.warns > 0 && !strings.Contains(log.String(), "the coordinator first") {
					t.Errorf("the warning does not name the leader:\n%s", &log)
				}
			})
		})
	}
}

// sentQueue keeps the leaders that attempts tell of.
type sentQueue struct {
	*liveQueue
	mu      sync.Mutex
	leaders map[tasks.Leader]int
}

func (q *sentQueue) Enqueue(ctx context.Context, messages ...queue.Message) error {
	q.mu.Lock()
	for _, m := range messages {
		if a, err := tasks.DecodeAttempt(m.Payload); err == nil {
			q.leaders[a.Leader]++
		}
	}
	q.mu.Unlock()
	return q.liveQueue.Enqueue(ctx, messages...)
}

func TestAttemptsTellTheStoreOfAClustersLeader(t *testing.T) {
	t.Parallel()
	for _, holder := range []string{"", "somebody"} {
		synctest.Test(t, func(t *testing.T) {
			archive := storage.NewArchive(storagetest.NewMemory())
			q := &sentQueue{liveQueue: newLiveQueue(archive), leaders: make(map[tasks.Leader]int)}
			c := newLeader(t, archive, q, holder, federated(t, chainOptions{salt: "x", width: 2, steps: 3}))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Lead(ctx) }()
			await(t, c, submitTo(t, archive, "told"))
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			q.work.Wait()
			var want tasks.Leader // of a home: nothing
			if holder != "" {
				id, err := archive.Identity(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want = tasks.Leader{Holder: holder, Store: archive.String(), StoreID: id}
			}
			if len(q.leaders) != 1 || q.leaders[want] == 0 {
				t.Errorf("attempts tell of %v, want %+v alone", q.leaders, want)
			}
		})
	}
}
