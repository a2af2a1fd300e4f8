package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"coalmine/storage"
)

// Permit is the right of one term's leader to delete.
type Permit struct {
	archive *storage.Archive
	epoch   int
	batches batches
}

func newPermit(archive *storage.Archive, epoch int) *Permit {
	return &Permit{archive: archive, epoch: epoch}
}

// Check is asked before every batch of deletions. It returns an error once
// another process leads.
func (p *Permit) Check(ctx context.Context) error {
	current, err := p.archive.CurrentEpoch(ctx)
	if err != nil {
		return err
	}
	if current != p.epoch {
		return fmt.Errorf("%w: epoch %d has begun, ours is %d", errDeposed, current, p.epoch)
	}
	return nil
}

// batches counts the batches of collections, so that the term can tell whether
// one was under way while it looked at storage.
type batches struct {
	mu            sync.Mutex
	active, begun int
}

// begin says that a batch is about to be checked and deleted; the function that
// it returns, that it has been.
func (b *batches) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active++
	b.begun++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.active--
	}
}

// quiet reports whether no batch is under way, and how many there have been.
func (b *batches) quiet() (begun int, quiet bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun, b.active == 0
}

// Errors of asking for a permit, to be tested with errors.Is.
var (
	// ErrLed: another process leads, and so must do the deleting.
	ErrLed = errors.New("another process leads")
	// ErrStandby: this process does not lead at the moment.
	ErrStandby = errors.New("this coordinator does not lead at the moment")
)

// Permit is that of the term that this process leads. The error wraps
// ErrStandby if it leads none.
func (c *Coordinator) Permit() (*Permit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.permit == nil {
		return nil, fmt.Errorf("%w; ask the process that does, or again in some seconds", ErrStandby)
	}
	return c.permit, nil
}

func (c *Coordinator) setPermit(p *Permit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.permit = p
}

// Interregnum leads for as long as do takes, without running anything: for
// housekeeping where no coordinator is at work. With a queue it leads only if
// nobody holds the lease there, and the error wraps ErrLed if somebody does.
// Without one nobody can be asked; a leader that there is after all notices, and
// takes the lead back, which ends do's permit.
func Interregnum(ctx context.Context, archive *storage.Archive, q Queue, holder string, do func(context.Context, *Permit) error) error {
	if q != nil {
		c := &Coordinator{cfg: Config{Queue: q, Holder: holder}}
		held, err := q.Lease(ctx, leaseName, holder, leaseTTL)
		if err != nil {
			return err
		}
		if !held {
			return fmt.Errorf("%w: it holds the lease in the queue", ErrLed)
		}
		var stop func()
		ctx, stop = c.hold(ctx)
		defer stop()
	}
	epoch, err := archive.NextEpoch(ctx, holder)
	if err != nil {
		return err
	}
	return do(ctx, newPermit(archive, epoch))
}

// hold renews the lease until the function that it returns is called, which
// gives the lease up. The context ends when another process gets the lease.
func (c *Coordinator) hold(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var renewing sync.WaitGroup
	renewing.Go(func() { cancel(c.keepLease(ctx)) })
	return ctx, func() {
		cancel(nil)
		renewing.Wait()
		c.release()
	}
}
