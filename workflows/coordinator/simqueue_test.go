package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks/attempts"
)

// simQueue is the world as its coordinator's queue.
type simQueue world

var errAway = errors.New("connection refused")

func (q *simQueue) err() error {
	if q.away {
		return errAway
	}
	return nil
}

// writes is the answer to a command that writes.
func (q *simQueue) writes() error {
	if q.away {
		return errAway
	}
	return q.refuses
}

func (q *simQueue) find(id string) (*simWorker, *execution) {
	for _, x := range q.workers {
		for _, e := range x.running {
			if e.id == id {
				return x, e
			}
		}
	}
	return nil, nil
}

func (q *simQueue) isPending(id string) bool {
	return slices.ContainsFunc(q.pending, func(m queue.Message) bool { return m.ID == id })
}

func (q *simQueue) Enqueue(_ context.Context, messages ...queue.Message) error {
	if err := q.writes(); err != nil {
		return err
	}
	for _, m := range messages {
		q.enqueue(m)
	}
	return nil
}

func (q *simQueue) enqueue(m queue.Message) {
	if x, e := q.find(m.ID); e != nil && !x.dead() {
		e.stopped = false
	} else if !q.isPending(m.ID) {
		q.pending = append(q.pending, m)
	}
}

func (q *simQueue) Reports(context.Context, time.Duration) ([]queue.Report, error) {
	return nil, q.err()
}

// simMemory is the memory that every worker reports, unless a test sets another.
var simMemory = queue.Memory{Used: 1900 << 20, Limit: 2 << 30}

func (q *simQueue) Workers(context.Context) ([]queue.Worker, error) {
	if q.clock.Before(q.silence) || q.refuses != nil && q.term.queueAway.On() { // a leader writes more often than a heartbeat expires
		return nil, q.err()
	}
	var workers []queue.Worker
	for _, x := range q.workers {
		v := queue.Worker{ID: x.id, Classes: slices.Clone(q.classes), Slots: x.slots, Kinds: q.kinds, Keys: q.keys, Memory: q.resident}
		v.Build = x.build
		if x.kinds != nil {
			v.Kinds = x.kinds
		}
		for _, e := range x.running {
			running := queue.Running{ID: e.id, Seconds: 1}
			if q.slow != nil {
				running.Seconds = q.slow(e)
			}
			v.Running = append(v.Running, running)
		}
		workers = append(workers, v)
	}
	return workers, q.err()
}

func (q *simQueue) Known(_ context.Context, ids []string) (map[string]bool, error) {
	known := make(map[string]bool)
	for _, id := range ids {
		x, _ := q.find(id)
		known[id] = q.isPending(id) || x != nil
	}
	return known, q.err()
}

func (q *simQueue) Withdraw(_ context.Context, id string) (bool, error) {
	if err := q.writes(); err != nil {
		return false, err
	}
	n := len(q.pending)
	q.pending = slices.DeleteFunc(q.pending, func(m queue.Message) bool { return m.ID == id })
	return len(q.pending) < n, nil
}

func (q *simQueue) Stop(_ context.Context, ids ...string) error {
	if err := q.writes(); err != nil {
		return err
	}
	for _, id := range ids {
		if _, e := q.find(id); e != nil {
			e.stopped = true
		}
	}
	return nil
}

func (q *simQueue) Lease(context.Context, string, string, time.Duration) (bool, error) {
	return true, q.writes()
}

func (q *simQueue) Release(context.Context, string, string) error { return q.writes() }

func (q *simQueue) Publish(context.Context, string, []byte, time.Duration) error { return q.writes() }

func (q *simQueue) Published(context.Context, string) ([]byte, error) { return nil, q.err() }

// simSeconds is how long an attempt says that it took, the same for the whole of a
// training: some are so much longer than others that they yield.
func simSeconds(a attempts.Attempt) float64 {
	return []float64{0.1, 0.2, 5, 60}[storage.DigestOf(a.Params)[0]%4]
}
