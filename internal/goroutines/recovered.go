// Package goroutines starts, pauses, repeats and ends concurrent work: it converts panics to errors,
// and waits no longer than a context lasts.
package goroutines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
)

// Panic is a panic as an error.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns one line without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("a fault of the program: panic: %.400v", p.Value) }

// Recover calls f and returns its error, or a *Panic if it panics.
func Recover(f func() error) (err error) {
	defer func() {
		value := recover()
		if p, ok := value.(*Panic); ok {
			err = p // from another goroutine, with that goroutine's stack
		} else if value != nil {
			err = &Panic{value, debug.Stack()}
		}
	}()
	return f()
}

// IsPanic reports whether an error comes from a panic.
func IsPanic(err error) bool {
	_, ok := errors.AsType[*Panic](err)
	return ok
}

// LogPanic writes the stack to the log if the error comes from a panic. The arguments, in the form of slog,
// describe the work that panicked.
func LogPanic(log *slog.Logger, err error, args ...any) {
	if p, ok := errors.AsType[*Panic](err); ok {
		log.Error("panic", append(args, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))...)
	}
}

// Group is an errgroup.Group whose functions may panic: Wait then returns a *Panic, unless
// another function failed before.
type Group struct{ group *errgroup.Group }

// NewGroup returns a group in which the failure of one function does not affect the others.
func NewGroup() *Group { return &Group{new(errgroup.Group)} }

// WithContext returns a group and a context that ends with the first failure, or when Wait returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	return &Group{group}, ctx
}

// SetLimit bounds the number of functions that run at the same time.
func (g *Group) SetLimit(n int) { g.group.SetLimit(n) }

// Go calls f in a goroutine once the limit allows it.
func (g *Group) Go(f func() error) { g.group.Go(func() error { return Recover(f) }) }

// Wait waits for all functions and returns the first error.
func (g *Group) Wait() error { return g.group.Wait() }

// Each calls do with the numbers below n, at most limit of them at the same time. It returns the first
// error; then, and at the end of ctx, it starts no more calls, and the context of those at work ends.
func Each(ctx context.Context, n, limit int, do func(ctx context.Context, i int) error) error {
	group, ctx := WithContext(ctx)
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return do(ctx, i)
		})
	}
	return group.Wait()
}

// Seconds returns a number of seconds.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Sleep waits for d, or until ctx is done; it then returns the error of ctx at once. Use it
// for every pause in a program that can be stopped at any moment.
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
