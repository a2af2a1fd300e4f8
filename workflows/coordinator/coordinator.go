package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/status"
)

// TaskTimeout is the maximum duration of an attempt.
func (c *Coordinator) TaskTimeout() time.Duration { return c.cfg.TaskTimeout }

// Coordinator leads, or stands by until it can.
type Coordinator struct {
	cfg      Config
	contest  leadership.Contest
	nudges   chan struct{}
	counters *observe.Counters
	leading  atomic.Pointer[loop] // nil while standing by

	mu        sync.Mutex
	token     *leadership.Token // of the term at work; nil while standing by
	snapshots map[string]*status.Run
	takeovers map[string]int // as of the snapshots
	updated   chan struct{}  // closed and replaced when snapshots change
}

// New returns a coordinator, or an error that names missing fields of its
// configuration.
func New(cfg Config) (*Coordinator, error) {
	var missing []error
	if cfg.Archive == nil {
		missing = append(missing, errors.New("no Archive"))
	}
	if cfg.Queue == nil {
		missing = append(missing, errors.New("no Queue"))
	}
	if cfg.Compile == nil {
		missing = append(missing, errors.New("no Compile"))
	}
	if err := errors.Join(missing...); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	if cfg.MaxTries == 0 {
		cfg.MaxTries = policy.MaxTries
	}
	if cfg.TaskTimeout == 0 {
		cfg.TaskTimeout = policy.TaskTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	c := &Coordinator{
		cfg:       cfg,
		contest:   leadership.Contest{Archive: cfg.Archive, Queue: cfg.Queue, Holder: cfg.Holder, Place: cfg.Place, Log: cfg.Log},
		nudges:    make(chan struct{}, 1),
		snapshots: make(map[string]*status.Run),
		updated:   make(chan struct{}),
		counters:  observe.NewCounters(cfg.Metrics),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(c)
	}
	return c, nil
}

// Nudge has the coordinator of this process look at the runs in storage now,
// after one was submitted or steered. Other processes nudge through the queue.
func (c *Coordinator) Nudge() {
	select {
	case c.nudges <- struct{}{}:
	default: // a nudge is pending
	}
}

// Lead leads until ctx is done, then returns nil. With a Holder it leads only while it
// holds the lease in the queue, and stands by otherwise; if the leader has another
// store, it returns an error (attempts.ErrOtherStore). Without a Holder it leads at
// once, and returns an error if another process takes the lead: the store then has two
// owners.
func (c *Coordinator) Lead(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.contest.Await(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		err := c.reign(ctx)
		switch {
		case ctx.Err() != nil:
			c.contest.Release()
			return nil
		case c.cfg.Holder == "" && errors.Is(err, leadership.ErrDeposed):
			return fmt.Errorf("store %s: %w; one process at a time may own it", c.cfg.Archive, err)
		case errors.Is(err, leadership.ErrRival):
			c.cfg.Log.Warn("pausing leadership for a minute", "error", err)
			c.contest.Rest(ctx, leadership.RivalRest)
		case err != nil:
			c.cfg.Log.Warn("leading no more; standing by", "error", err)
			_ = leadership.Pause(ctx) // its only error is ctx's
		}
	}
	return nil
}

// Token returns the fencing token of this process's term. The error wraps
// leadership.ErrStandby if it does not lead.
func (c *Coordinator) Token() (*leadership.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == nil {
		return nil, fmt.Errorf("%w; ask the process that does, or again in some seconds", leadership.ErrStandby)
	}
	return c.token, nil
}

func (c *Coordinator) setToken(t *leadership.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = t
}

// Snapshot returns the status of a run as of a moment ago, or false if this
// process leads no run of that id. The status must not be changed.
func (c *Coordinator) Snapshot(run string) (*status.Run, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.snapshots[run]
	return s, ok
}

// Takeovers returns, by worker id, the number of tasks that the worker has finished after
// another worker died with them in this term. The map must not be changed.
func (c *Coordinator) Takeovers() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeovers
}

// Updated returns a channel that is closed when snapshots have changed.
func (c *Coordinator) Updated() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.updated
}
