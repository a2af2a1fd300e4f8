package goroutines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/must"
)

func faulty(list []int) int { return list[len(list)] } //nolint:gocritic // the panic is the purpose

func TestRecoverReportsPanicWithStack(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("reading: %w", goroutines.Recover(func() error { faulty(nil); return nil }))
	if !goroutines.IsPanic(err) || !strings.Contains(err.Error(), "index out of range") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line with the panic", err)
	}
	var log bytes.Buffer
	goroutines.LogPanic(slog.New(slog.NewTextHandler(&log, nil)), err, "doing", "reading")
	if !strings.Contains(log.String(), "faulty") || !strings.Contains(log.String(), "doing=reading") {
		t.Errorf("the log has no stack: %s", &log)
	}
}

func TestRecoverKeepsPlainErrors(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	var log bytes.Buffer
	err := goroutines.Recover(func() error { return failure })
	goroutines.LogPanic(slog.New(slog.NewTextHandler(&log, nil)), err)
	if err != failure || goroutines.IsPanic(err) || log.Len() > 0 {
		t.Errorf("got %v and the log %q, want the error alone", err, &log)
	}
}

func TestGroupPanicCancelsContext(t *testing.T) {
	t.Parallel()
	group, ctx := goroutines.WithContext(context.Background())
	group.SetLimit(2)
	group.Go(func() error { <-ctx.Done(); return ctx.Err() })
	group.Go(func() error { faulty(nil); return nil })
	if err := group.Wait(); !goroutines.IsPanic(err) {
		t.Errorf("got %v, want the panic", err)
	}
}

func TestSleepLastsAsLongAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		must.Do(t, goroutines.Sleep(t.Context(), time.Hour))
		if slept := time.Since(start); slept != time.Hour {
			t.Errorf("slept for %v, asked for an hour", slept)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := goroutines.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, expected the context's", err)
		}
		if slept := time.Since(start); slept != time.Minute {
			t.Errorf("slept for %v, the context lasts a minute", slept)
		}
	})
}
