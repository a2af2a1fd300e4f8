package workers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"coalmine/internal/readable"
	"coalmine/tasks/attempts"
)

// maxJournal limits the log of one attempt, in bytes.
const maxJournal = 256 << 10

// journal is a slog handler that stores the log of one attempt, from the debug level on, and passes it to
// the worker's handler.
type journal struct {
	next slog.Handler
	copy slog.Handler // writes text into kept
	kept *boundedBuffer
}

func newJournal(next slog.Handler) *journal {
	kept := &boundedBuffer{}
	return &journal{next: next, copy: slog.NewTextHandler(kept, &slog.HandlerOptions{Level: slog.LevelDebug}), kept: kept}
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }

func (j *journal) Handle(ctx context.Context, r slog.Record) error {
	if j.next.Enabled(ctx, r.Level) {
		if err := j.next.Handle(ctx, short(r)); err != nil {
			return err
		}
	}
	return j.copy.Handle(ctx, r)
}

// short returns a record with each text in one line: the lines that a command has printed are in
// the log of the attempt and in the failure of its cell.
func short(r slog.Record) slog.Record {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(readable.Brief(a.Value.String()))
		}
		out.AddAttrs(a)
		return true
	})
	return out
}

func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{next: j.next.WithAttrs(attrs), copy: j.copy.WithAttrs(attrs), kept: j.kept}
}

func (j *journal) WithGroup(name string) slog.Handler {
	return &journal{next: j.next.WithGroup(name), copy: j.copy.WithGroup(name), kept: j.kept}
}

// boundedBuffer keeps the first maxJournal bytes.
type boundedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
	lost int
}

// Write implements io.Writer and never fails.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data.Len()+len(p) > maxJournal {
		b.lost += len(p)
		return len(p), nil
	}
	return b.data.Write(p)
}

func (b *boundedBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := bytes.Clone(b.data.Bytes())
	if b.lost > 0 {
		out = fmt.Appendf(out, "(%d bytes more were not kept)\n", b.lost)
	}
	return out
}

// finish logs the end of the attempt, and stores its log if it is useful.
func (a *attempt) finish(ctx context.Context, out *attempts.Outcome) {
	level := levelOf(out.Result)
	failed := level == slog.LevelWarn
	if failed && a.worker.Accompanied {
		level = slog.LevelInfo
	}
	keep := failed || out.Divergent != "" || a.printed || a.worker.KeepLogs
	if !keep && !a.executor.log.Enabled(ctx, level) {
		return
	}
	a.logger().Log(ctx, level, "attempt ended", "result", out.Result, "seconds", out.Seconds, "error", out.Error)
	if keep {
		a.storeLog(ctx)
	}
}

// levelOf returns the level at which the end of an attempt is logged: a warning only for a failure.
func levelOf(r attempts.Result) slog.Level {
	switch r {
	case attempts.Failed, attempts.Refused:
		return slog.LevelWarn
	case attempts.Done:
		return slog.LevelDebug
	case attempts.Returned, attempts.StoreAway, attempts.Missing:
	}
	return slog.LevelInfo
}

// logTimeout limits the storing of a log: a store in trouble, which may be why the attempt failed, must not
// delay its report.
const logTimeout = 10 * time.Second

func (a *attempt) storeLog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	name := fmt.Sprintf("%d.%s", a.Number, a.workerID)
	for _, run := range a.Runs {
		if err := a.worker.Archive.PutTaskLog(ctx, run, a.Key, name, a.journal().kept.bytes()); err != nil {
			a.logger().Warn("log of the attempt was not stored", "error", err)
		}
	}
}
