package goroutines

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// InBatches calls do with consecutive parts of a list, of at most batch items each (at least 1), and returns
// the answers in the order of the list. At most concurrency calls run at a time; 0 stands for 1. The first
// error ends the others.
func InBatches[A, R any](ctx context.Context, list []A, batch, concurrency int, do func(ctx context.Context, part []A) ([]R, error)) ([]R, error) {
	answers := make([]R, len(list))
	group, within := WithContext(ctx)
	group.SetLimit(max(1, concurrency))
	batch = max(1, batch)
	for first := 0; first < len(list) && within.Err() == nil; first += batch {
		end := min(first+batch, len(list))
		group.Go(func() error {
			found, err := do(within, list[first:end])
			copy(answers[first:end], found)
			return err
		})
	}
	if err := cmp.Or(group.Wait(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	return answers, nil
}

// Retries bounds the repetitions of a request.
type Retries struct {
	// Tries is the largest number of tries; 0 stands for 5.
	Tries int
	// Pause is the first pause between tries, and doubles up to a minute; 0 stands for half a second.
	Pause time.Duration
}

// Retry calls ask until it succeeds, fails with an error that another try does not resolve, or has failed too
// often. retryable reports whether another try may succeed, and the shortest pause before it.
func (r Retries) Retry(ctx context.Context, ask func() error, retryable func(error) (ok bool, pause time.Duration)) error {
	const tries, firstPause, maxPause = 5, 500 * time.Millisecond, time.Minute
	pause := cmp.Or(r.Pause, firstPause)
	for left := cmp.Or(r.Tries, tries) - 1; ; left-- {
		err := ask()
		if err == nil {
			return nil
		}
		retry, least := retryable(err)
		switch {
		case !retry:
			return err
		case left == 0:
			return fmt.Errorf("%w, and so %d times in a row", err, cmp.Or(r.Tries, tries))
		case Sleep(ctx, max(pause, least)) != nil:
			return context.Cause(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}
