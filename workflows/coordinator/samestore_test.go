package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/attempts"
	"coalmine/workflows/plan/plantest"
)

func TestStandbyRejectsLeaderWithAnotherStore(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"its own store": false, "another store": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				archive := storage.NewArchive(storagetest.NewMemory())
				q := newLiveQueue(archive)
				leader := newLeader(t, archive, q, "first", nil)
				if other {
					archive = storage.NewArchive(storagetest.NewMemory())
				}
				standby := newLeader(t, archive, q, "second", nil)

				ctx, stop := context.WithCancel(t.Context())
				var first sync.WaitGroup
				first.Go(func() { _ = leader.Lead(ctx) })
				synctest.Wait()
				standing, end := context.WithTimeout(ctx, 20*time.Second)
				defer end()
				err := standby.Lead(standing)
				if errors.Is(err, attempts.ErrOtherStore) != other || !other && err != nil {
					t.Errorf("it ends with %v", err)
				}
				if other && (standing.Err() != nil || !strings.Contains(err.Error(), "the coordinator first")) {
					t.Errorf("it is to end at once, and to name the leader: %v", err)
				}
				stop()
				first.Wait()
			})
		})
	}
}

// sentQueue keeps the leaders that attempts tell of.
type sentQueue struct {
	*liveQueue
	mu      sync.Mutex
	leaders map[attempts.Leader]int
}

func (q *sentQueue) Enqueue(ctx context.Context, messages ...queue.Message) error {
	q.mu.Lock()
	for _, m := range messages {
		if a, err := attempts.DecodeAttempt(m.Payload); err == nil {
			q.leaders[a.Leader]++
		}
	}
	q.mu.Unlock()
	return q.liveQueue.Enqueue(ctx, messages...)
}

func TestAttemptsNameStoreOfLeader(t *testing.T) {
	t.Parallel()
	for _, holder := range []string{"", "somebody"} {
		synctest.Test(t, func(t *testing.T) {
			archive := storage.NewArchive(storagetest.NewMemory())
			q := &sentQueue{liveQueue: newLiveQueue(archive), leaders: make(map[attempts.Leader]int)}
			c := newLeader(t, archive, q, holder, plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 3}))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Lead(ctx) }()
			await(t, c, submitTo(t, archive, "told"))
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			q.work.Wait()
			var want attempts.Leader // of a home: nothing
			if holder != "" {
				id := must.Get(archive.Identity(t.Context()))(t)
				want = attempts.Leader{Holder: holder, Store: archive.String(), StoreID: id}
			}
			if len(q.leaders) != 1 || q.leaders[want] == 0 {
				t.Errorf("attempts tell of %v, want %+v alone", q.leaders, want)
			}
		})
	}
}
