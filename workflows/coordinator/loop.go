package coordinator

import (
	"container/heap"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"coalmine/internal/build"
	"coalmine/internal/goroutines"
	"coalmine/workflows/coordinator/policy"
)

// loop is the goroutine that owns a term, with its jobs.
type loop struct {
	*term
	ctx    context.Context
	events chan func()
	// waiting has the jobs of full lanes, by lane; active counts the running jobs.
	waiting [lanes][]job
	active  [lanes]int
	jobs    sync.WaitGroup
}

// eventBuffer is the number of events that wait while the loop is busy.
const eventBuffer = 256

// leadTerm leads for one term: until ctx is done, or another leads.
func (c *Coordinator) leadTerm(parent context.Context) error {
	leader, err := c.contest.Identity(parent)
	if err != nil {
		return err
	}
	token, err := c.contest.Begin(parent)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(parent)
	l := &loop{ctx: ctx, events: make(chan func(), eventBuffer)}
	l.term = newTerm(c.cfg, c.counters, token, time.Now, l.start)
	l.leader = leader
	c.token.Store(token)
	defer c.token.Store(nil)
	l.log.Info("leading", "store", c.cfg.Archive.String())
	aside := func(do func() error) {
		l.jobs.Go(func() {
			err := goroutines.Recover(do)
			goroutines.LogPanic(l.log, err)
			cancel(err)
		})
	}
	aside(l.pumpReports)
	aside(func() error { return c.contest.Keep(ctx) })
	l.begin()
	c.counters.Terms.Inc()
	c.leading.Store(l)
	err = l.guarded(c)
	c.leading.Store(nil)
	cancel(nil)
	l.jobs.Wait()
	return err
}

// guarded ends the term when the loop panics: the next term begins with the state in storage. With
// the tag invariants the process ends.
func (l *loop) guarded(c *Coordinator) error {
	if build.Invariants {
		return l.run(c)
	}
	err := goroutines.Recover(func() error { return l.run(c) })
	goroutines.LogPanic(l.log, err)
	return err
}

func (l *loop) run(c *Coordinator) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	snapshots := time.NewTicker(policy.SnapshotEvery)
	defer snapshots.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
		case apply := <-l.events:
			apply()
			l.applyPending()
		case <-timer.C:
		case <-c.nudges:
			l.records.nudged()
		case <-snapshots.C:
			c.show(l.term)
			continue
		}
		l.tick()
		l.settle()
		if l.deposed != nil {
			return l.deposed
		}
		if next, ok := l.nextTimer(); ok {
			timer.Reset(time.Until(next))
		}
	}
}

// applyPending applies the results that have arrived, so that many events settle at once.
func (l *loop) applyPending() {
	for range eventBuffer {
		select {
		case apply := <-l.events:
			apply()
		default:
			return
		}
	}
}

// start runs a job as soon as its lane has room. Only the loop calls it.
func (l *loop) start(in lane, j job) {
	if l.active[in] >= laneWidth[in] {
		l.waiting[in] = append(l.waiting[in], j)
		return
	}
	l.active[in]++
	l.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, jobTimeout)
		var apply func()
		err := goroutines.Recover(func() error { apply = j(ctx); return nil })
		cancel()
		l.deliver(func() {
			if err != nil {
				goroutines.LogPanic(l.log, err)
				l.deposed = err // the effect of the job is lost
				return
			}
			l.active[in]--
			if next := l.waiting[in]; len(next) > 0 {
				l.waiting[in] = next[1:]
				l.start(in, next[0])
			}
			apply()
		})
	})
}

// deliver hands an event to the loop; after its end events are dropped.
func (l *loop) deliver(event func()) {
	select {
	case l.events <- event:
	case <-l.ctx.Done():
	}
}

// reportsWait is the longest wait for reports.
const reportsWait = 10 * time.Second

// pumpReports brings the workers' reports to the loop.
func (l *loop) pumpReports() error {
	for l.ctx.Err() == nil {
		reports, err := l.Queue.Reports(l.ctx, reportsWait)
		if err != nil && !errors.Is(err, context.Canceled) {
			l.deliver(func() { l.queueFails(err) })
			if goroutines.Sleep(l.ctx, policy.StorageRetries[0]) != nil {
				return nil
			}
		}
		if len(reports) > 0 {
			l.deliver(func() { l.reports(reports) })
		}
	}
	return nil
}

// show renews the snapshots if anything has changed or is running.
func (c *Coordinator) show(t *term) {
	if !t.changed && !t.graph.AnyInFlight() {
		return
	}
	t.changed = false
	c.mu.Lock()
	c.snapshots, c.takeovers = t.statuses(c.snapshots), maps.Clone(t.takeovers)
	fresh := c.snapshots
	close(c.updated)
	c.updated = make(chan struct{})
	c.mu.Unlock()
	t.publish(fresh)
}

// timers are functions to be called at a given time, in order. The zero value is empty.
type timers struct {
	heap timerHeap
	seq  int
}

type timer struct {
	at  time.Time
	seq int // orders timers of equal time
	do  func()
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return last
}

// set schedules do.
func (t *timers) set(at time.Time, do func()) {
	t.seq++
	heap.Push(&t.heap, timer{at, t.seq, do})
}

func (t *timers) run(now time.Time) {
	for len(t.heap) > 0 && !t.heap[0].at.After(now) {
		heap.Pop(&t.heap).(timer).do()
	}
}

// nextTimer returns the time of the next timer, or false if there is none.
func (t *timers) nextTimer() (time.Time, bool) {
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return t.heap[0].at, true
}
