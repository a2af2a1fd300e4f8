package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage/open"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/plan"
)

// observedQueue records the times at which the coordinator sends and receives messages.
type observedQueue struct {
	coordinator.Queue
	calls atomic.Int64 // of Enqueue and Reports

	mu          sync.Mutex
	first, last time.Time // the first message, the last report
	reports     int

	// The rounds of one training, if it is watched.
	training *plan.Chain
	next     string // first message of the next round
	began    []time.Time
	// every is the number of rounds between calls of window.
	every  int
	window func(round int)
}

// watch records the start of each round of a training, and calls window,
// asynchronously, after the start of the first round and then after every given
// number of rounds.
func (q *observedQueue) watch(c *plan.Chain, every int, window func(round int)) {
	q.training, q.every, q.window = c, every, window
	q.began = make([]time.Time, 0, c.Steps)
	q.await(1)
}

// await computes the name of the first message of a round.
func (q *observedQueue) await(round int) {
	q.next = fmt.Sprintf("%s.1", q.training.PartKey(round, 0))
}

// Enqueue implements coordinator.Queue.
func (q *observedQueue) Enqueue(ctx context.Context, messages ...queue.Message) error {
	q.calls.Add(1)
	q.sending(messages)
	return q.Queue.Enqueue(ctx, messages...)
}

func (q *observedQueue) sending(messages []queue.Message) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first.IsZero() {
		q.first = now
	}
	begins := func(m queue.Message) bool { return m.ID == q.next }
	if q.training == nil || !slices.ContainsFunc(messages, begins) {
		return
	}
	if len(q.began)%q.every == 0 {
		q.window(len(q.began))
	}
	q.began = append(q.began, now)
	q.await(len(q.began) + 1)
}

// Reports implements coordinator.Queue.
func (q *observedQueue) Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error) {
	q.calls.Add(1)
	reports, err := q.Queue.Reports(ctx, wait)
	if len(reports) > 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.last = time.Now()
		q.reports += len(reports)
	}
	return reports, err
}

// times returns the durations of rounds from..to-1, counted from 0.
func (q *observedQueue) times(from, to int) []time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	var took []time.Duration
	for i := from + 1; i < min(to, len(q.began)); i++ {
		took = append(took, q.began[i].Sub(q.began[i-1]))
	}
	return took
}

// quantile returns a quantile of durations in milliseconds, 0 for an empty list.
func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return milliseconds(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)])
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// openMetered opens a store that counts the requests of this process.
func openMetered(ctx context.Context, location string) (*open.Metered, error) {
	store, err := open.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	return open.Meter(store, nil), nil
}
