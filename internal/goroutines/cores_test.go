package goroutines_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"coalmine/internal/goroutines"
	"coalmine/internal/must"
)

// divide divides 20 calls among goroutines and returns how often each number was done. The first calls of as many
// lanes wait for each other, so that it ends only if they run at the same time.
func divide(t *testing.T, cores *goroutines.Cores, lanes int) []int {
	t.Helper()
	var mu sync.Mutex
	var met sync.WaitGroup
	met.Add(lanes)
	done, seen := make([]int, 20), make([]bool, cores.Lanes())
	must.Do(t, cores.Each(t.Context(), len(done), func(_ context.Context, lane, i int) error {
		mu.Lock()
		done[i]++
		first := !seen[lane]
		seen[lane] = true
		mu.Unlock()
		if first {
			met.Done() // panics in a lane too many
			met.Wait()
		}
		return nil
	}))
	return done
}

func TestEachUsesAllIdleCores(t *testing.T) {
	t.Parallel()
	for _, cores := range []*goroutines.Cores{nil, goroutines.NewCores(0), goroutines.NewCores(1), goroutines.NewCores(2)} {
		if done := divide(t, cores, cores.Lanes()); !slices.Equal(done, slices.Repeat([]int{1}, len(done))) {
			t.Errorf("%d goroutines did each number %v times", cores.Lanes(), done)
		}
	}
}

func TestOccupyTakesBackLentCore(t *testing.T) {
	t.Parallel()
	cores := goroutines.NewCores(2)
	defer cores.Occupy()()
	helps, lacks := make(chan struct{}), make(chan func(), 1)
	must.Do(t, cores.Each(t.Context(), 10, func(_ context.Context, lane, i int) error {
		switch {
		case lane == 1:
			close(helps) // panics if a core is lent again
			lacks <- <-lacks
		case i == 0:
			<-helps
			lacks <- cores.Occupy() // another task begins
		}
		return nil
	}))
	divide(t, cores, 1)
	(<-lacks)()
	divide(t, cores, 2)
}

func TestEachEndsOnErrorOrPanic(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	for name, fail := range map[string]func() error{"error": func() error { return failure }, "panic": func() error { faulty(nil); return nil }} {
		cores := goroutines.NewCores(1)
		err := cores.Each(t.Context(), 100, func(ctx context.Context, _, i int) error {
			if i == 1 {
				return fail()
			}
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, failure) && !goroutines.IsPanic(err) {
			t.Errorf("%s: %v", name, err)
		}
		divide(t, cores, 2)
	}
}

func TestEachEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := goroutines.NewCores(3).Each(ctx, 1000, func(ctx context.Context, _, _ int) error {
		cancel()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}
