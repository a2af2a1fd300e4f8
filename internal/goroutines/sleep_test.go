package goroutines_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/must"
)

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
