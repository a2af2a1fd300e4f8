package queue

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// settler ends tasks that their worker has handled and sends the reports. Those
// that come while a round trip is under way go together with the next.
type settler struct {
	client *redis.Client

	mu   sync.Mutex
	busy bool
	next *settlement // nil if nobody waits
}

// settlement is one round trip.
type settlement struct {
	tasks []settled
	done  chan struct{} // closed when it has been made
	err   error         // valid after done
}

// settled is a task with its report.
type settled struct {
	class  string
	report Report
}

// settle removes a task from the queue and appends the report, if it has a body:
// when the report can be read, a message with the same ID is no duplicate any
// more. It returns when that is so, or when ctx is done.
func (s *settler) settle(ctx context.Context, class string, r Report) error {
	mine := s.join(settled{class, r})
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *settler) join(task settled) *settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &settlement{done: make(chan struct{})}
	}
	s.next.tasks = append(s.next.tasks, task)
	mine := s.next
	if !s.busy {
		s.busy = true
		go s.work()
	}
	return mine
}

// work makes round trips until nobody waits.
func (s *settler) work() {
	for trip := s.take(); trip != nil; trip = s.take() {
		trip.err = s.send(trip.tasks)
		close(trip.done)
	}
}

func (s *settler) take() *settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	trip := s.next
	s.next, s.busy = nil, trip != nil
	return trip
}

// send has the timeouts of the client: those who wait have contexts of their own.
func (s *settler) send(tasks []settled) error {
	ctx := context.Background()
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		end(ctx, p, tasks)
		return nil
	})
	if err != nil {
		return fmt.Errorf("sending %d reports: %w", len(tasks), err)
	}
	return nil
}

// end removes the tasks from their queues and appends their reports, with as few
// commands as that takes.
func end(ctx context.Context, pipe redis.Pipeliner, tasks []settled) {
	var records []string
	var reports []any
	leases := make(map[string][]any)
	for _, t := range tasks {
		// The task is among the oldest of those at work, which stand at the end.
		pipe.LRem(ctx, asynqKey(t.class, "active"), -1, t.report.ID)
		leases[t.class] = append(leases[t.class], t.report.ID)
		records = append(records, asynqKey(t.class, "t:"+t.report.ID))
		if t.report.Body != nil {
			reports = append(reports, t.report.encode())
		}
	}
	for class, ids := range leases {
		pipe.ZRem(ctx, asynqKey(class, "lease"), ids...)
	}
	pipe.Del(ctx, records...)
	if len(reports) > 0 {
		pipe.RPush(ctx, reportsKey, reports...)
	}
}
