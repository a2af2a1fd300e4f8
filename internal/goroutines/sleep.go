// This file waits as [time.Sleep] does, but no longer than a context lasts.
//
// Use it for every pause in a program that can be stopped at any moment:
//
//	for try := 1; ; try++ {
//		err := attempt(ctx)
//		if err == nil || try == tries {
//			return err
//		}
//		if goroutines.Sleep(ctx, pause) != nil {
//			return err // of the attempt: it has the cause, unlike that of ctx
//		}
//	}
//
// It uses the clock of package testing/synctest, like all timers.

package goroutines

import (
	"context"
	"time"
)

// Seconds returns a number of seconds.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Sleep waits for d, or until ctx is done; it then returns the error of ctx at once.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
