// Package leadership decides which process leads, and who may delete.
//
// # The lease
//
// Processes that share a queue contend for one lease in it. The holder leads; the other processes stand
// by and ask as often as the leader renews, so that another process leads soon after the leader is gone. A
// process without a shared queue leads without a contest: it owns its store.
//
// # The epoch and the fencing token
//
// A lease does not stop a process that was suspended for a minute from continuing as if it led. Nearly all actions of
// a leader are harmless if two processes take them, because a node commits once (invariant 4); deletions are not. So
// each leader begins an epoch in storage, with a new number, and gets its [Token]. It checks the token before every
// batch of deletions: the token is invalid as soon as a newer epoch has begun.
//
// # One store
//
// Processes that meet in one queue must work on one store. The leader announces its store, each attempt
// names it too ([attempts.Leader]), and a process with another store does not stand by.
package leadership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/storage"
)

// The rules of leadership, with the reasons of their values.
const (
	// LeaseTTL is the lifetime of the lease unless it is renewed. The leader and the stand-bys ask every
	// LeaseRenew, so that another process leads within four seconds of a leader's death, and two lost
	// renewals do not cost the leader its lease.
	LeaseTTL   = 3 * time.Second
	LeaseRenew = time.Second
	// AnnounceEvery is the time between two announcements of the leader and its store;
	// each lasts for AnnouncedTTL.
	AnnounceEvery = 2 * time.Second
	AnnouncedTTL  = 5 * time.Second
	// EpochEvery is the pause between checks in storage for a newer leader: a leader with another queue
	// does not see the lease. Deletions check as well.
	EpochEvery = 30 * time.Second
	// RivalRest is the time for which a coordinator yields to such a leader, so that each gets some work
	// done, and reports the conflict once a minute.
	RivalRest = time.Minute
)

// Errors of this package, to be tested with errors.Is.
var (
	// ErrDeposed means that this process led, and another has begun to lead since.
	ErrDeposed = errors.New("another coordinator leads now")
	// ErrRival accompanies ErrDeposed if the other coordinator has another queue, so that both hold a lease.
	ErrRival = errors.New("through another queue")
	// ErrLed means that another process leads, and must do the deletions.
	ErrLed = errors.New("another process leads")
	// ErrStandby means that this process does not lead at the moment.
	ErrStandby = errors.New("this coordinator does not lead at the moment")
)

// Queue has the operations of a queue that the contest needs. A queue may lose all data at any time.
type Queue interface {
	// Lease takes or renews the named lease. It reports whether holder has it.
	Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// Release gives the lease up, if holder has it.
	Release(ctx context.Context, name, holder string) error
	// Publish keeps data under name for ttl.
	Publish(ctx context.Context, name string, data []byte, ttl time.Duration) error
	// Published returns the value published under name, or nil if there is none or it has expired.
	Published(ctx context.Context, name string) ([]byte, error)
}

// leaseName is the name of the lease in the queue.
const leaseName = "leader"

// Contest is a process's participation in the contest for leadership.
type Contest struct {
	Archive *storage.Archive
	// Queue holds the lease. It is unused if Holder is empty.
	Queue Queue
	// Holder names this process. If it is empty there is no contest: the owner of
	// an embedded store leads.
	Holder string
	// Place names the queue in messages and to coordinators of the same store that use another queue. It is
	// empty without a queue.
	Place string
	Log   *slog.Logger
}

// Await waits until this process may lead, and logs the leader meanwhile. It retries after errors of the
// queue. Its error is that of ctx, or wraps attempts.ErrOtherStore if the leader has another store.
func (c *Contest) Await(ctx context.Context) error {
	var leader *Announcement // of the current leader
	standing := standby{log: c.Log, began: time.Now()}
	for c.Holder != "" {
		held, err := c.Queue.Lease(ctx, leaseName, c.Holder, LeaseTTL)
		switch {
		case err == nil && held:
			return nil
		case err == nil:
			if leader, err = c.meetLeader(ctx, leader); err != nil {
				return err
			}
			standing.behind(leader)
		case ctx.Err() == nil:
			standing.cannotAsk(err)
		}
		if err := Pause(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Pause waits for LeaseRenew, the interval at which a stand-by asks for the lease. The only error is that of ctx.
func Pause(ctx context.Context) error { return goroutines.Sleep(ctx, LeaseRenew) }

// Keep renews the lease until ctx is done, and then returns nil. If another process holds the lease, Keep returns an
// error that wraps ErrDeposed. During an outage of the queue no process can take the lease, so the leader continues.
func (c *Contest) Keep(ctx context.Context) error {
	if c.Holder == "" {
		<-ctx.Done()
		return nil
	}
	for goroutines.Sleep(ctx, LeaseRenew) == nil {
		held, err := c.Queue.Lease(ctx, leaseName, c.Holder, LeaseTTL)
		if err == nil && !held {
			return fmt.Errorf("%w: it holds the lease", ErrDeposed)
		}
	}
	return nil
}

// HoldWithoutLeading keeps the lease for d without leading, so that it does not depose a rival again at
// once: two coordinators that took turns every few seconds would get nothing done.
func (c *Contest) HoldWithoutLeading(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_ = c.Keep(ctx) // on error another process has the lease and leads
}

// Release gives the lease up, so that no process waits until it expires.
func (c *Contest) Release() {
	if c.Holder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), LeaseRenew)
	defer cancel()
	if err := c.Queue.Release(ctx, leaseName, c.Holder); err != nil {
		c.Log.Debug("the lease expires by itself", "error", err)
	}
}

// Begin begins an epoch. It invalidates the tokens of all former leaders.
func (c *Contest) Begin(ctx context.Context) (*Token, error) {
	epoch, before, err := c.Archive.NextEpoch(ctx, storage.Epoch{Holder: c.Holder, Queue: c.Place})
	if err != nil {
		return nil, err
	}
	if rivals(before.Queue, c.Place) {
		c.Log.Warn("the last leader of this store used another queue; if a coordinator still uses that queue, give both the same --redis, or separate stores",
			"coordinator", before.Holder, "since", before.Began, "queue", before.Queue, "ours", c.Place)
	}
	return &Token{archive: c.Archive, epoch: epoch, place: c.Place}, nil
}

// rivals reports whether two coordinators of one store use different queues, and so do not see each other's lease.
func rivals(queue, other string) bool { return queue != "" && other != "" && queue != other }

// Temporarily leads while do runs, for housekeeping without a coordinator; it schedules no tasks. If q is
// not nil, the error wraps ErrLed if another process holds the lease. If q is nil, a running leader is not
// detected: it notices the new epoch and leads again, which invalidates the token of do.
func Temporarily(ctx context.Context, archive *storage.Archive, q Queue, holder string, do func(context.Context, *Token) error) error {
	c := &Contest{Archive: archive, Queue: q, Holder: holder, Log: slog.Default()}
	if q != nil {
		held, err := q.Lease(ctx, leaseName, holder, LeaseTTL)
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
	token, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	return do(ctx, token)
}

// hold renews the lease until the returned function is called, which gives the
// lease up. The context ends when another process gets the lease.
func (c *Contest) hold(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var renewing sync.WaitGroup
	renewing.Go(func() { cancel(goroutines.Recover(func() error { return c.Keep(ctx) })) })
	return ctx, func() {
		cancel(nil)
		renewing.Wait()
		c.Release()
	}
}
