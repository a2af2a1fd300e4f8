package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workers/clients"
)

// executor runs attempts; the slots of a worker share its fields.
type executor struct {
	worker         *Worker
	registry       tasks.Registry
	workerID, host string
	log            *slog.Logger
	source         *source
	memo           *memo
	progress       *progressBoard
	metrics        *metrics
	guard          *memoryGuard
	store          *storeCheck
	tally          tally
	away           storeAbsence
	clients        *clients.Pool
	devices        *devices
}

// handle executes one message and returns the encoded outcome. ctx ends with a cause of package
// queue.
func (e *executor) handle(ctx context.Context, m queue.Message) []byte {
	sent, err := attempts.DecodeAttempt(m.Payload)
	if err == nil && sent.ID() != m.ID {
		err = fmt.Errorf("its content is attempt %s", sent.ID())
	}
	if err != nil {
		return e.handBackUnreadable(m, err)
	}
	a := e.begin(&sent)
	e.metrics.busy.Inc()
	ctx, cancel := a.limit(ctx)
	defer cancel()
	out := e.attempt(ctx, a)
	e.metrics.busy.Dec()
	out.Seconds = time.Since(a.started).Seconds()
	out.Tokens = e.progress.end(m.ID).Tokens
	e.metrics.ended(a.Kind, &out)
	e.tally.add(out.Result)
	e.away.note(&out, e.log)
	a.finish(ctx, &out)
	a.endSpan(&out)
	out.Format, _ = attempts.FormatOf(m.Payload) // decoding it succeeded
	return e.encode(out)
}

// attempt runs an attempt, or hands it back if the store is still unavailable.
func (e *executor) attempt(ctx context.Context, a *attempt) attempts.Outcome {
	if err := e.away.lasts(ctx, e.source.archive); err != nil {
		return a.ended(attempts.StoreAway, err)
	}
	return a.runWithinMemory(ctx)
}

// handBackUnreadable answers a message that a later build sent, that is not an attempt, or whose
// attempt does not match its ID. The task is not at fault.
func (e *executor) handBackUnreadable(m queue.Message, err error) []byte {
	out := attempts.Outcome{Worker: e.workerID, Result: attempts.Returned, Unread: errors.Is(err, attempts.ErrLaterFormat)}
	keyText, number, _ := strings.Cut(m.ID, ".")
	key, keyErr := storage.ParseKey(keyText)
	_, numberErr := fmt.Sscan(number, &out.Number)
	e.log.Error("a message of the queue cannot be decoded as an attempt", "message", m.ID, "error", err)
	if keyErr != nil || numberErr != nil {
		return nil // no address for an answer
	}
	out.Key, out.Error = key, fmt.Sprintf("the worker cannot decode the attempt: %v", err)
	return e.encode(out)
}

// encode encodes an outcome; a struct of strings, numbers and valid JSON never fails.
func (e *executor) encode(out attempts.Outcome) []byte {
	data, err := out.Encode()
	if err != nil {
		e.log.Error("outcome cannot be encoded", "node", out.Key.Short(), "attempt", out.Number, "error", err)
	}
	return data
}

// storeCheck ensures that the attempts of a worker come from a coordinator with the
// same store. With another store their inputs are missing and their outputs lost.
type storeCheck struct {
	worker *Worker
	// confirmed is the last identity read from the worker's store, so that it is not
	// read for every attempt.
	confirmed atomic.Pointer[string]
	// quit ends the worker.
	quit context.CancelCauseFunc
}

// check returns an error that wraps attempts.ErrOtherStore, and ends the worker, if the
// leader has another store. Any other error proves nothing.
func (c *storeCheck) check(ctx context.Context, leader attempts.Leader) error {
	if known := c.confirmed.Load(); known != nil && *known == leader.StoreID {
		return nil
	}
	err := leader.CheckStore(ctx, c.worker.Archive)
	switch {
	case err == nil:
		c.confirmed.Store(&leader.StoreID)
	case errors.Is(err, attempts.ErrOtherStore):
		err = fmt.Errorf("worker on %s: %w", c.worker.Queue, err)
		c.quit(err)
	}
	return err
}

// storeAbsence is a period in which attempts are handed back because the store is unavailable. Its
// start is logged, and its end when an attempt is done again. The zero value is no absence.
type storeAbsence struct {
	mu    sync.Mutex
	since time.Time // zero while the store answers
}

// probeTime limits the request that looks whether an absence is over: the driver would retry for most of a
// minute, while workers that reach the store wait for the task.
const probeTime = 5 * time.Second

// lasts returns an error if there is an absence and one more request to the store fails.
func (x *storeAbsence) lasts(ctx context.Context, archive *storage.Archive) error {
	x.mu.Lock()
	since := x.since
	x.mu.Unlock()
	if since.IsZero() {
		return nil
	}
	probing, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	_, err := archive.HasSource(probing, storage.Digest{})
	switch {
	case ctx.Err() != nil || err == nil:
		return nil
	case probing.Err() != nil:
		return fmt.Errorf("%w since %s: no answer from %s within %v", storage.ErrAway, since.UTC().Format(time.RFC3339), archive, probeTime)
	case storage.IsTrouble(err):
		return err
	}
	return nil
}

// note records the end of an attempt.
func (x *storeAbsence) note(out *attempts.Outcome, log *slog.Logger) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case out.Result == attempts.StoreAway && x.since.IsZero():
		x.since = time.Now()
		text := "the store does not answer; tasks are handed back until it does"
		if out.StoreFull {
			text = "the store is full; tasks are handed back until it has room"
		}
		log.Warn(text, "error", out.Error)
	case out.Result == attempts.Done && !x.since.IsZero():
		log.Info("the store answers again", "after", time.Since(x.since).Round(time.Second))
		x.since = time.Time{}
	}
}

// tally counts the attempts of a worker by result.
type tally struct {
	lock   sync.Mutex
	counts map[attempts.Result]int
	// overtaken counts attempts that finished after another of the same node had been committed.
	overtaken int
}

func (t *tally) overtake() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.overtaken++
}

func (t *tally) add(r attempts.Result) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.counts == nil {
		t.counts = map[attempts.Result]int{}
	}
	t.counts[r]++
}

// attributes returns the counts that the worker logs at its end. Attempts that were handed back did not fail
// themselves: they lacked memory, the store or an input, or the worker ended. Overtaken attempts also count
// as done.
func (t *tally) attributes() []any {
	t.lock.Lock()
	defer t.lock.Unlock()
	return []any{
		"done", t.counts[attempts.Done], "failed", t.counts[attempts.Failed] + t.counts[attempts.Refused],
		"handed_back", t.counts[attempts.Returned] + t.counts[attempts.StoreAway] + t.counts[attempts.Missing],
		"overtaken", t.overtaken,
	}
}
