package workers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"coalmine/tasks/attempts"
)

// storeCheck ensures that the attempts of a worker come from a coordinator with the
// same store. With another store their inputs are missing and their outputs lost.
type storeCheck struct {
	worker *Worker
	// confirmed is the last identity read from the worker's store, so that it is not
	// read for every attempt.
	confirmed atomic.Pointer[string]
	// quit ends the worker.
	quit context.CancelCauseFunc
}

// check returns an error that wraps attempts.ErrOtherStore, and ends the worker, if the
// leader has another store. Any other error proves nothing.
func (c *storeCheck) check(ctx context.Context, leader attempts.Leader) error {
	if known := c.confirmed.Load(); known != nil && *known == leader.StoreID {
		return nil
	}
	err := leader.CheckStore(ctx, c.worker.Archive)
	switch {
	case err == nil:
		c.confirmed.Store(&leader.StoreID)
	case errors.Is(err, attempts.ErrOtherStore):
		err = fmt.Errorf("worker on %s: %w", c.worker.Queue, err)
		c.quit(err)
	}
	return err
}
