package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
		err = fmt.Errorf("it holds attempt %s", sent.ID())
	}
	if err != nil {
		return e.handBackUnreadable(m, err)
	}
	a := e.begin(&sent)
	e.metrics.busy.Inc()
	ctx, cancel := a.limit(ctx)
	defer cancel()
	out := a.runWithinMemory(ctx)
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

// handBackUnreadable answers a message that a later build sent, that is not an attempt, or whose
// attempt does not match its ID. The task is not at fault.
func (e *executor) handBackUnreadable(m queue.Message, err error) []byte {
	out := attempts.Outcome{Worker: e.workerID, Result: attempts.Returned, Unread: errors.Is(err, attempts.ErrLaterFormat)}
	keyText, number, _ := strings.Cut(m.ID, ".")
	key, keyErr := storage.ParseKey(keyText)
	_, numberErr := fmt.Sscan(number, &out.Number)
	e.log.Error("a message of the queue cannot be read as an attempt", "message", m.ID, "error", err)
	if keyErr != nil || numberErr != nil {
		return nil // no address for an answer
	}
	out.Key, out.Error = key, fmt.Sprintf("it cannot read the attempt: %v", err)
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
