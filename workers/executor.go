package workers

import (
	"context"
	"encoding/json"
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

// executor runs attempts; its parts are shared by the slots of a worker.
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
}

// handle executes one message and returns the encoded outcome. ctx ends with one
// of the causes of package queue.
func (e *executor) handle(ctx context.Context, m queue.Message) []byte {
	sent, err := attempts.DecodeAttempt(m.Payload)
	if err == nil && sent.ID() != m.ID {
		err = fmt.Errorf("it holds attempt %s", sent.ID())
	}
	if err != nil {
		return e.refuseUnreadable(m, err)
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
	return e.encode(out)
}

// refuseUnreadable answers a message that is no attempt, or another than its ID says.
func (e *executor) refuseUnreadable(m queue.Message, err error) []byte {
	var out attempts.Outcome
	keyText, number, _ := strings.Cut(m.ID, ".")
	key, keyErr := storage.ParseKey(keyText)
	_, numberErr := fmt.Sscan(number, &out.Number)
	e.log.Error("message is not an attempt", "message", m.ID, "error", err)
	if keyErr != nil || numberErr != nil {
		return nil // nobody to answer to
	}
	out.Key, out.Worker, out.Result = key, e.workerID, attempts.Refused
	out.Error = fmt.Sprintf("message %s is not the attempt that its name says; make sure that coordinator and workers are of one version: %v", m.ID, err)
	return e.encode(out)
}

// encode writes an outcome; a struct of strings, numbers and valid JSON always can be.
func (e *executor) encode(out attempts.Outcome) []byte {
	data, err := json.Marshal(out)
	if err != nil {
		e.log.Error("outcome cannot be encoded", "node", out.Key.Short(), "attempt", out.Number, "error", err)
	}
	return data
}
