package workers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"coalmine/internal/queue"
	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

// executor runs attempts; its parts are shared by the slots of a worker.
type executor struct {
	worker         *Worker
	workerID, host string
	log            *slog.Logger
	source         *source
	memo           *memo
	progress       *progressBoard
	metrics        *metrics
	guard          *memoryGuard
	store          *storeCheck
}

// handle executes one message and returns the encoded outcome. ctx ends with one
// of the causes of package queue.
func (e *executor) handle(ctx context.Context, m queue.Message) []byte {
	a, err := attempts.DecodeAttempt(m.Payload)
	if err == nil && a.ID() != m.ID {
		err = fmt.Errorf("it holds attempt %s", a.ID())
	}
	if err != nil {
		return e.refuseUnreadable(m, err)
	}
	x := e.begin(m.ID, &a)
	e.metrics.busy.Inc()
	ctx, cancel := x.limit(ctx)
	defer cancel()
	out := x.runGuarded(ctx)
	e.metrics.busy.Dec()
	out.Seconds = time.Since(x.started).Seconds()
	out.Tokens = e.progress.end(m.ID).Tokens
	e.metrics.ended(a.Kind, &out)
	x.finish(ctx, &out)
	x.endSpan(&out)
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

// execution is one attempt in progress.
type execution struct {
	*executor
	attempt *attempts.Attempt
	id      string // the attempt's, in the queue
	started time.Time
	// journal and logger are made when there is something to say: most attempts
	// just end well.
	journal func() *journal
	logger  func() *slog.Logger
	span    tracing.Span
}

func (e *executor) begin(id string, a *attempts.Attempt) *execution {
	x := &execution{executor: e, attempt: a, id: id, started: time.Now()}
	x.journal = sync.OnceValue(func() *journal { return newJournal(e.log.Handler()) })
	x.logger = sync.OnceValue(func() *slog.Logger {
		log := slog.New(x.journal()).With("run", strings.Join(a.Runs, ","), "node", a.Key.Short(), "kind", a.Kind, "attempt", a.Number)
		if a.Step > 0 {
			log = log.With("step", a.Step, "part", a.Part)
		}
		return log
	})
	x.beginSpan()
	return x
}

// beginSpan continues the trace of the coordinator.
func (x *execution) beginSpan() {
	if x.worker.Tracer == nil {
		return
	}
	a := x.attempt
	x.span = x.worker.Tracer.Continue(a.Trace, "run "+a.Kind)
	x.span.Strings("run", a.Runs)
	x.span.String("kind", a.Kind)
	x.span.String("node", a.Key.String())
	x.span.Int("attempt", int64(a.Number))
	x.span.String("worker", x.workerID)
	if a.Step > 0 {
		x.span.Int("round", int64(a.Step))
	}
}

func (x *execution) endSpan(out *attempts.Outcome) {
	x.span.String("result", string(out.Result))
	x.span.Int("tokens", out.Tokens)
	if out.Error != "" {
		x.span.Fail(out.Error)
	}
	x.span.End(nil)
}

// timeoutError ends the context of an attempt that takes too long.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the attempt took longer than the task timeout of %v; if it is right that it takes so long, raise --task-timeout", e.after)
}

// limit ends the attempt's context when its time is over.
func (x *execution) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.attempt.TimeoutSeconds <= 0 {
		return context.WithCancel(ctx)
	}
	after := time.Duration(x.attempt.TimeoutSeconds * float64(time.Second))
	return context.WithTimeoutCause(ctx, after, &timeoutError{after})
}

// runGuarded runs the attempt once there is memory for it.
func (x *execution) runGuarded(ctx context.Context) attempts.Outcome {
	ctx, leave, err := x.guard.enter(ctx, x.attempt.Key)
	if err != nil {
		return x.ended(attempts.Returned, err)
	}
	defer leave()
	return x.run(ctx)
}

// run brings the node about, and says how that went.
func (x *execution) run(ctx context.Context) attempts.Outcome {
	if err := x.store.check(ctx, x.attempt.Leader); errors.Is(err, attempts.ErrOtherStore) {
		return x.ended(attempts.Returned, err)
	} else if err != nil {
		return x.failed(ctx, err)
	}
	if !x.worker.Registry.Knows(x.attempt.Spec) {
		return x.ended(attempts.Returned, fmt.Errorf("worker %s does not know %s@%d", x.workerID, x.attempt.Kind, x.attempt.Version))
	}
	if needed := x.attempt.SecretKey; needed != "" {
		if _, err := x.worker.Keys.Key(needed); err != nil {
			return x.ended(attempts.Returned, err)
		}
	}
	stands, err := x.standing(ctx)
	if err != nil {
		return x.failed(ctx, err)
	}
	if stands != nil {
		return x.done(stands)
	}
	out := newSink(ctx, x.worker.Archive, x.attempt.Key, x.worker.keptOutputs())
	task := tasks.NewTask(x.attempt.Spec, x.source, out, x.memo, x.report()).WithKeys(x.worker.Keys)
	blobs, err := x.produce(ctx, task, out)
	if err != nil {
		return x.failed(ctx, err)
	}
	return x.commit(ctx, task, blobs, out)
}

// standing returns the node's commit if nothing is left to do, and nil if the
// node must be run: not committed, or evicted since.
func (x *execution) standing(ctx context.Context) (*storage.Commit, error) {
	c, err := x.worker.Archive.Committed(ctx, x.attempt.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	missing, err := x.worker.Archive.Missing(ctx, c)
	if err != nil || len(missing) == 0 {
		return c, err
	}
	x.logger().Debug("node is committed but evicted: running it again", "missing", missing)
	return nil, nil
}

// report is how the kind tells its progress.
func (x *execution) report() func(tasks.Progress) {
	return x.metrics.counted(x.attempt.Kind, x.progress.reporter(x.id))
}

// produce runs the kind and stores what it puts.
func (x *execution) produce(ctx context.Context, task *tasks.Task, out *sink) ([]storage.Blob, error) {
	runErr := x.call(ctx, task)
	blobs, putErr := out.wait(runErr)
	switch {
	case runErr == nil:
		return blobs, putErr
	case putErr == nil, errors.Is(putErr, context.Canceled), panicked(runErr):
		return nil, runErr
	}
	// A kind that was refused a put fails for that reason, whatever it says.
	return nil, putErr
}

// panicError is a kind's panic as an error.
type panicError struct {
	kind  string
	value any
}

func (e *panicError) Error() string {
	return fmt.Sprintf("%s panicked: %v (the attempt's log has the stack)", e.kind, e.value)
}

func panicked(err error) bool {
	_, ok := errors.AsType[*panicError](err)
	return ok
}

// call runs the kind and turns a panic into an error that no other try mends.
func (x *execution) call(ctx context.Context, task *tasks.Task) (err error) {
	defer func() {
		if value := recover(); value != nil {
			x.logger().Error("task panicked", "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			err = tasks.Permanent(&panicError{x.attempt.Kind, value})
		}
	}()
	return x.worker.Registry[x.attempt.Kind].Run(ctx, task)
}

// commit makes the node done. The work is finished, so that a stop no longer
// interrupts it.
func (x *execution) commit(ctx context.Context, task *tasks.Task, blobs []storage.Blob, out *sink) attempts.Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	ours := x.record(task, blobs)
	span := x.span.Child("commit")
	stands, won, err := x.worker.Archive.Commit(ctx, ours)
	span.End(err)
	if err != nil {
		return x.failed(ctx, err)
	}
	difference := ""
	if !won {
		difference = stands.Differs(ours)
	}
	if difference != "" && ours.Provenance.Comparable(stands.Provenance) {
		return x.diverged(ctx, stands, difference)
	}
	if difference != "" {
		return x.foreign(ctx, stands, difference)
	}
	x.source.remember(stands, out)
	return x.done(stands)
}

// commitTimeout bounds a commit during a shutdown, which waits for it.
const commitTimeout = time.Minute

func (x *execution) record(task *tasks.Task, blobs []storage.Blob) *storage.Commit {
	return &storage.Commit{
		Key:         x.attempt.Key,
		Kind:        x.attempt.Kind,
		KindVersion: x.attempt.Version,
		// An attempt that was sent twice runs twice: its ID alone would not tell
		// who has won.
		Attempt: fmt.Sprintf("%d.%s.%s", x.attempt.Number, x.workerID, strings.ToLower(rand.Text()[:8])),
		Blobs:   blobs,
		Metrics: task.Metrics(),
		Provenance: storage.Provenance{
			Worker:  x.workerID,
			Host:    x.host,
			Version: x.worker.Version,
			Arch:    runtime.GOARCH,
			Kernels: x.worker.Kernels,
			Started: x.started.UTC(),
			Seconds: time.Since(x.started).Seconds(),
		},
	}
}

// diverged reports a task that made other bytes than the commit that stands. If
// those are there, the node is done none the less; if they were evicted, this
// attempt has not brought them back.
func (x *execution) diverged(ctx context.Context, stands *storage.Commit, difference string) attempts.Outcome {
	x.logger().Error("task is not deterministic", "difference", difference, "other", stands.Provenance.Worker)
	missing, err := x.worker.Archive.Missing(ctx, stands)
	if err != nil {
		return x.failed(ctx, err)
	}
	out := x.done(stands)
	if len(missing) > 0 {
		out = x.ended(attempts.Failed, fmt.Errorf("replay of %s gave other bytes than its commit: %s", x.attempt.Kind, difference))
	}
	out.Divergent = difference
	return out
}

// foreign deals with a commit of another architecture, where other bytes are no
// fault. If they are evicted only such a worker can bring them back.
func (x *execution) foreign(ctx context.Context, stands *storage.Commit, difference string) attempts.Outcome {
	missing, err := x.worker.Archive.Missing(ctx, stands)
	if err != nil {
		return x.failed(ctx, err)
	}
	if len(missing) > 0 {
		return x.ended(attempts.Failed, fmt.Errorf("replay of %s on %s gave other bytes than its commit, which is of %s (%s); only a worker of that architecture can replay it",
			x.attempt.Kind, runtime.GOARCH, stands.Provenance.Arch, difference))
	}
	return x.done(stands)
}

func (x *execution) done(stands *storage.Commit) attempts.Outcome {
	out := x.ended(attempts.Done, nil)
	out.Objects = stands.Objects()
	return out
}

func (x *execution) ended(result attempts.Result, err error) attempts.Outcome {
	out := attempts.Outcome{Key: x.attempt.Key, Number: x.attempt.Number, Worker: x.workerID, Result: result}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// failed sorts an error into a result. A panic is one whatever else happened;
// the errors of a stopped attempt are those of stopping; one that took too long may
// be faster elsewhere, and one that needs too much memory may find it there.
func (x *execution) failed(ctx context.Context, err error) attempts.Outcome {
	if panicked(err) {
		return x.ended(attempts.Refused, err)
	}
	if late, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok {
		return x.ended(attempts.Failed, late)
	}
	if full, ok := errors.AsType[*memoryError](context.Cause(ctx)); ok && full.others == 0 {
		return x.ended(attempts.Failed, full)
	}
	if ctx.Err() != nil {
		return x.ended(attempts.Returned, context.Cause(ctx))
	}
	if missing, ok := errors.AsType[*tasks.MissingError](err); ok {
		out := x.ended(attempts.Missing, err)
		out.MissingNode = &missing.Node
		return out
	}
	if tasks.IsPermanent(err) {
		return x.ended(attempts.Refused, err)
	}
	if storage.IsTrouble(err) {
		out := x.ended(attempts.StoreAway, err)
		out.StoreFull = errors.Is(err, storage.ErrFull)
		return out
	}
	return x.ended(attempts.Failed, err)
}
