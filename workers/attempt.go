package workers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/goroutines"
	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/tasks/clientprograms"
)

type attempt struct {
	*executor
	*attempts.Attempt
	started time.Time
	// journal and logger are made when first needed: most attempts end without a log line.
	journal func() *journal
	logger  func() *slog.Logger
	span    tracing.Span
	// printed reports whether the command has printed anything.
	printed bool
}

func (e *executor) begin(sent *attempts.Attempt) *attempt {
	a := &attempt{executor: e, Attempt: sent, started: time.Now()}
	a.journal = sync.OnceValue(func() *journal { return newJournal(e.log.Handler()) })
	a.logger = sync.OnceValue(func() *slog.Logger {
		log := slog.New(a.journal()).With("run", strings.Join(a.Runs, ","), "node", a.Key.Short(), "kind", a.Kind, "attempt", a.Number)
		if a.Step > 0 {
			log = log.With("step", a.Step, "part", a.Part)
		}
		return log
	})
	a.beginSpan()
	return a
}

// beginSpan continues the trace of the coordinator.
func (a *attempt) beginSpan() {
	if a.worker.Tracer == nil {
		return
	}
	a.span = a.worker.Tracer.Continue(a.Trace, "run "+a.Kind)
	a.span.Strings("run", a.Runs)
	a.span.String("kind", a.Kind)
	a.span.String("node", a.Key.String())
	a.span.Int("attempt", int64(a.Number))
	a.span.String("worker", a.workerID)
	if a.Step > 0 {
		a.span.Int("round", int64(a.Step))
	}
}

func (a *attempt) endSpan(out *attempts.Outcome) {
	a.span.String("result", string(out.Result))
	a.span.Int("tokens", out.Tokens)
	if out.Error != "" {
		a.span.Fail(out.Error)
	}
	a.span.End(nil)
}

// timeoutError ends the context of an attempt that exceeds its time limit.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("the attempt took longer than the task timeout of %v; if the task needs more time, raise --task-timeout", e.after)
}

// limit ends the attempt's context after its time limit.
func (a *attempt) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.TimeoutSeconds <= 0 {
		return context.WithCancel(ctx)
	}
	after := time.Duration(a.TimeoutSeconds * float64(time.Second))
	return context.WithTimeoutCause(ctx, after, &timeoutError{after})
}

// runWithinMemory runs the attempt once there is memory for it.
func (a *attempt) runWithinMemory(ctx context.Context) attempts.Outcome {
	ctx, leave, err := a.guard.enter(ctx, a.Key)
	if err != nil {
		return a.ended(attempts.Returned, err)
	}
	defer leave()
	var out attempts.Outcome
	err = a.recovered(func() error { out = a.run(ctx); return nil })
	if err != nil {
		return a.failed(ctx, err)
	}
	return out
}

// run executes the node, unless it is done, and returns the outcome.
func (a *attempt) run(ctx context.Context) attempts.Outcome {
	if err := a.store.check(ctx, a.Leader); errors.Is(err, attempts.ErrOtherStore) {
		return a.ended(attempts.Returned, err)
	} else if err != nil {
		return a.failed(ctx, err)
	}
	if !a.registry.Supports(a.Spec) {
		return a.ended(attempts.Returned, fmt.Errorf("worker %s does not know %s@%d", a.workerID, a.Kind, a.Version))
	}
	if needed := a.SecretKey; needed != "" {
		if _, err := a.worker.Keys.Key(needed); err != nil {
			return a.ended(attempts.Returned, err)
		}
	}
	existing, err := a.existing(ctx)
	if err != nil {
		return a.failed(ctx, err)
	}
	if existing != nil {
		return a.done(existing)
	}
	terms, err := a.worker.allows(a.Terms)
	if err != nil {
		return a.failed(ctx, err)
	}
	share, giveBack := a.devices.take(a.Class, terms.Environment)
	defer giveBack()
	out := newSink(ctx, a.source, a.Key, a.worker.keptOutputs())
	out.attempt = a.ID() + "." + a.workerID
	task := tasks.NewTask(a.Spec, a.source, out, a.memo, a.report()).WithKeys(a.worker.Keys).WithClients(a.programs(share)).WithWritable(a.worker.Write).WithVariables(slices.Concat(share.threads, share.gpus)).WithLineReceiver(a.logLines)
	if !a.guard.runsAlone(a.Key) {
		task.WithCores(a.devices.cores) // each core in use needs memory of its own
	}
	blobs, err := a.produce(ctx, task, out)
	if err != nil {
		failed := a.failed(ctx, err)
		failed.Kept = failed.Result == attempts.Failed && out.further
		return failed
	}
	return a.commit(ctx, task, blobs, out)
}

func (a *attempt) logLines(lines []string) {
	a.printed = true
	for _, line := range lines {
		a.logger().Debug("printed by the command", "line", line)
	}
}

// allows returns the terms of a task, and an error if a command may not run on them.
func (w *Worker) allows(terms json.RawMessage) (childprocess.Terms, error) {
	t, err := childprocess.DecodeTerms(terms)
	if err != nil {
		return t, tasks.Permanent(err)
	}
	if slices.Contains(w.Environment, AnyVariable) {
		return t, nil
	}
	for _, name := range t.Environment {
		if !slices.Contains(w.Environment, name) {
			return t, fmt.Errorf("training.environment names %q, which this worker does not let commands read: start the worker with --commands-may-read-env %s, or remove the name", name, name)
		}
	}
	return t, nil
}

// programs returns the runner of external clients, on workers that may run commands of experiments.
func (a *attempt) programs(part share) clientprograms.Runner {
	if a.worker.NoCommands {
		return nil
	}
	return onGPUs{a.clients, part}
}

// existing returns the node's commit if it is complete, and nil if the node must be run: not
// committed, or evicted since.
func (a *attempt) existing(ctx context.Context) (*storage.Commit, error) {
	c, err := a.worker.Archive.Committed(ctx, a.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	missing, err := a.worker.Archive.Missing(ctx, c)
	if err != nil || len(missing) == 0 {
		return c, err
	}
	a.logger().Debug("node is committed but evicted: running it again", "missing", missing)
	return nil, nil
}

// report returns the function with which the kind reports its progress.
func (a *attempt) report() func(tasks.Progress) {
	report := a.metrics.counted(a.Kind, a.progress.reporter(a.ID()))
	if a.SecretKey == "" {
		return report
	}
	return func(p tasks.Progress) {
		p.Tokens = 0 // they would reveal a secret cohort
		report(p)
	}
}

// produce runs the kind and stores its outputs.
func (a *attempt) produce(ctx context.Context, task *tasks.Task, out *sink) ([]storage.Blob, error) {
	runErr := a.recovered(func() error { return a.registry[a.Kind].Run(ctx, task) })
	blobs, putErr := out.wait(runErr)
	switch {
	case runErr == nil:
		return blobs, putErr
	case putErr == nil, errors.Is(putErr, context.Canceled), goroutines.IsPanic(runErr):
		return nil, runErr
	}
	// A kind fails with the error of a refused put, even if it returns nil or another error.
	return nil, putErr
}

// recovered calls do and converts a panic to a permanent error: a task is a pure function,
// which panics again on the same input.
func (a *attempt) recovered(do func() error) error {
	err := goroutines.Recover(do)
	if !goroutines.IsPanic(err) {
		return err
	}
	goroutines.LogPanic(a.logger(), err)
	return tasks.Permanent(fmt.Errorf("%s: %w (the attempt's log has the stack)", a.Kind, err))
}

// commit makes the node done. A stop no longer interrupts it: the work is finished.
func (a *attempt) commit(ctx context.Context, task *tasks.Task, blobs []storage.Blob, out *sink) attempts.Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	ours := a.record(task, blobs)
	ours.Provenance.Took = a.took(ctx, blobs)
	span := a.span.Child("commit")
	existing, won, err := a.worker.Archive.Commit(ctx, ours)
	span.End(err)
	if err != nil {
		return a.failed(ctx, err)
	}
	out.dropUnfinished(ctx)
	if !won {
		a.tally.overtake()
		a.logger().Info("another worker committed this task first", "by", existing.Provenance.Worker)
	}
	if difference := existing.Differs(ours); !won && difference != "" {
		return a.replaced(ctx, ours, existing, difference)
	}
	a.source.remember(existing, out)
	return a.done(existing)
}

// replaced ends an attempt whose bytes differ from the existing commit. If the commit's blobs exist, it is
// used, and the node is done. If they were evicted, the attempt fails, because it has not restored them. Only
// a task that should give equal bytes here is reported as nondeterministic.
func (a *attempt) replaced(ctx context.Context, ours, existing *storage.Commit, difference string) attempts.Outcome {
	divergent := ""
	var failure error
	switch other := existing.Provenance; {
	case ours.Provenance.MayDiffer && other.MayDiffer:
		a.logger().Info("another execution was committed first, and is used", "attempt", existing.Attempt, "difference", difference)
		failure = fmt.Errorf("%s gives different bytes in each execution, and the committed blobs are gone (%s): remove the runs that use them, collect garbage (coalmine gc), and train again", a.Kind, difference)
	case ours.Provenance.Comparable(other):
		a.logger().Error("task is not deterministic", "difference", difference, "other", other.Worker)
		divergent, failure = difference, fmt.Errorf("replay of %s differs from its commit: %s", a.Kind, difference)
	default:
		failure = fmt.Errorf("replay of %s on %s differs from its commit, which was made on %s (%s); only a worker of that architecture can replay it",
			a.Kind, runtime.GOARCH, other.Arch, difference)
	}
	missing, err := a.worker.Archive.Missing(ctx, existing)
	if err != nil {
		return a.failed(ctx, err)
	}
	out := a.done(existing)
	if len(missing) > 0 {
		out = a.ended(attempts.Failed, failure)
	}
	out.Divergent = divergent
	return out
}

// commitTimeout limits a commit during a shutdown, which waits for it.
const commitTimeout = time.Minute

func (a *attempt) record(task *tasks.Task, blobs []storage.Blob) *storage.Commit {
	return &storage.Commit{
		Key:         a.Key,
		Kind:        a.Kind,
		KindVersion: a.Version,
		// An attempt that was sent twice runs twice: its number does not identify the winner.
		Attempt: fmt.Sprintf("%d.%s.%s", a.Number, a.workerID, strings.ToLower(rand.Text()[:8])),
		Blobs:   blobs,
		Metrics: task.Metrics(),
		Provenance: storage.Provenance{
			Worker:  a.workerID,
			Host:    a.host,
			Version: a.worker.Version,
			Arch:    runtime.GOARCH,
			Kernels: a.worker.Kernels,
			Started: a.started.UTC(),
			Seconds: time.Since(a.started).Seconds(),

			MayDiffer: task.Differs(),
		},
	}
}

func (a *attempt) done(existing *storage.Commit) attempts.Outcome {
	out := a.ended(attempts.Done, nil)
	out.Objects = existing.Objects()
	return out
}

func (a *attempt) ended(result attempts.Result, err error) attempts.Outcome {
	out := attempts.Outcome{Key: a.Key, Number: a.Number, Worker: a.workerID, Result: result}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// failed classifies an error as a result. A panic takes precedence. An attempt has failed if it
// exceeded its time limit, or if it ran out of memory while running alone: another worker may
// succeed. Any other stopped attempt is handed back, because its error results from the stop.
func (a *attempt) failed(ctx context.Context, err error) attempts.Outcome {
	if goroutines.IsPanic(err) {
		return a.ended(attempts.Refused, err)
	}
	if late, ok := errors.AsType[*timeoutError](context.Cause(ctx)); ok {
		return a.ended(attempts.Failed, late)
	}
	if full, ok := errors.AsType[*memoryError](context.Cause(ctx)); ok && full.others == 0 {
		return a.ended(attempts.Failed, full)
	}
	if ctx.Err() != nil {
		return a.ended(attempts.Returned, context.Cause(ctx))
	}
	if missing, ok := errors.AsType[*tasks.MissingError](err); ok {
		out := a.ended(attempts.Missing, err)
		out.MissingNode = &missing.Node
		return out
	}
	if tasks.IsPermanent(err) {
		return a.ended(attempts.Refused, err)
	}
	if storage.IsTrouble(err) {
		out := a.ended(attempts.StoreAway, err)
		out.StoreFull = errors.Is(err, storage.ErrFull)
		return out
	}
	out := a.ended(attempts.Failed, err)
	out.Exit = contracts.Exit(err)
	return out
}

// took returns Provenance.Took of an attempt that made these blobs; nil if it does not end a
// step of a training. It reads the commits of the task's inputs, which are cached; an unreadable
// one leaves a gap.
func (a *attempt) took(ctx context.Context, blobs []storage.Blob) []float64 {
	if a.Step == 0 || !slices.ContainsFunc(blobs, hasRows) {
		return nil
	}
	before := (a.Step - 1) % tasks.SegmentSteps
	took := make([]float64, before, before+1)
	began := a.started
	for _, in := range a.Inputs {
		if in.Name == tasks.PreviousInput && before == 0 {
			continue // of another segment
		}
		c, err := a.source.Commit(ctx, in.Key)
		switch {
		case err != nil:
		case in.Name == tasks.PreviousInput && len(c.Provenance.Took) == before:
			copy(took, c.Provenance.Took)
		case tasks.IsPart(in.Name) && c.Provenance.Started.Before(began):
			began = c.Provenance.Started
		}
	}
	return append(took, microseconds(time.Since(began)))
}

// hasRows reports whether a task ends a step rather than being a part of one.
func hasRows(b storage.Blob) bool { return b.Name == tasks.RowsBlob || b.Name == tasks.SegmentBlob }

// microseconds returns a time in seconds, rounded to microseconds for a short text.
func microseconds(d time.Duration) float64 { return math.Round(1e6*d.Seconds()) / 1e6 }
