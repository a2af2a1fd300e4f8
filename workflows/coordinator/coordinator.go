// Package coordinator decides which outputs are wanted, which tasks are ready, and which attempts are
// sent next. One coordinator leads at a time; it may be killed at any moment, and the next one rebuilds
// everything from storage. docs/architecture.md ("The coordinator") describes its parts and their order,
// package graph the way from wants to tasks, and plan.Surveyor the search for the position of a chain.
//
// A report ends an attempt (attempts.go, outcomes.go) and is applied to the graph
// ([graph.Graph.Commit]); [graph.Graph.Settle] finds the tasks that are ready now; the term passes them
// to the dispatcher and carries out the other requests (settle.go); launched attempts are sent
// (attempts.go). liveness.go finds attempts that are never reported, records.go keeps the runs' logs,
// following.go carries them out, ending.go ends runs, and deletions.go deletes behind trainings.
//
// Reports of workers are hints, storage is authoritative: attempts in flight are looked up there every
// few seconds, an input that turns out to be missing is planned again, and an unexpected report changes
// nothing. Two leaders at once do no harm either, because a node commits once, and a process checks that
// its epoch is the newest before it deletes.
package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"coalmine/internal/queue"
	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
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
	// leading and token are those of the term at work; nil while standing by.
	leading atomic.Pointer[loop]
	token   atomic.Pointer[leadership.Token]

	mu        sync.Mutex
	snapshots map[string]*status.Run
	takeovers map[string]int // as of the snapshots
	updated   chan struct{}  // closed and replaced when snapshots change
}

// New returns a coordinator, or an error that names missing fields of its configuration.
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
	cfg.MaxTries = cmp.Or(cfg.MaxTries, policy.MaxTries)
	if cfg.TaskTimeout == 0 {
		cfg.TaskTimeout = policy.TaskTimeout
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
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

// Lead leads until ctx is done, then returns nil. With a Holder it leads only while it holds the lease in the queue,
// and stands by otherwise; its error wraps attempts.ErrOtherStore if the leader has another store. Without a Holder
// it leads at once, and returns an error if another process takes the lead, because the store then has two owners.
func (c *Coordinator) Lead(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.contest.Await(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		err := c.leadTerm(ctx)
		switch {
		case ctx.Err() != nil:
			c.contest.Release()
			return nil
		case c.cfg.Holder == "" && errors.Is(err, leadership.ErrDeposed):
			return fmt.Errorf("store %s: %w; one process at a time may own it", c.cfg.Archive, err)
		case errors.Is(err, leadership.ErrRival):
			c.cfg.Log.Warn("pausing leadership for a minute", "error", err)
			c.contest.HoldWithoutLeading(ctx, leadership.RivalRest)
		case err != nil:
			c.cfg.Log.Warn("lost leadership; standing by", "error", err)
			_ = leadership.Pause(ctx) // its only error is ctx's
		}
	}
	return nil
}

// Token returns the fencing token of this process's term. The error wraps
// leadership.ErrStandby if it does not lead.
func (c *Coordinator) Token() (*leadership.Token, error) {
	if t := c.token.Load(); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w; ask the leader, or repeat the command in some seconds", leadership.ErrStandby)
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

// Config configures a coordinator.
type Config struct {
	// Archive is the authoritative store.
	Archive *storage.Archive
	// Queue carries attempts to workers.
	Queue Queue
	// Compile makes the plan of a run. It MUST give the same plan every time; its parts then belong to
	// the coordinator. An error marked tasks.Permanent rejects the run, other errors are retried. It is
	// called from several goroutines.
	Compile func(ctx context.Context, run *runs.Run) (plan.Parts, error)
	// Registry gives the class of each kind; unknown kinds belong to tasks.Compute.
	Registry tasks.Registry
	// Holder names this process in the election of the leader. Empty means that
	// there is no election: the owner of an embedded store leads.
	Holder string
	// Place names the queue in messages and to coordinators of the same store that use another queue.
	Place string
	// MaxTries is the number of attempts of a node that may end in retryable
	// errors. Default policy.MaxTries.
	MaxTries int
	// TaskTimeout is the maximum duration of an attempt. Default policy.TaskTimeout.
	TaskTimeout time.Duration
	// Limits bounds the number of attempts in flight, by class. Only the live slots bound other classes.
	Limits map[tasks.Class]int
	// Log is the coordinator's logger. Default slog.Default().
	Log *slog.Logger
	// Metrics registers the coordinator's metrics, once each; nil exports none.
	Metrics prometheus.Registerer
	// Tracer makes spans of rounds, tasks and attempts; nil makes none.
	Tracer *tracing.Tracer
}

// Queue carries attempts to workers and reports back. It may forget everything at any moment, deliver
// twice, late and in any order. queue.Broker implements it.
type Queue interface {
	leadership.Queue
	// Enqueue sends attempts; it does not change a pending or running one. After
	// an error some may have been sent.
	Enqueue(ctx context.Context, messages ...queue.Message) error
	// Reports waits for reports and nudges, no longer than wait.
	Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error)
	// Workers returns the live workers, ordered by id.
	Workers(ctx context.Context) ([]queue.Worker, error)
	// Known returns those of the attempts that are pending or run by a live worker. It may miss one that a
	// worker took a moment ago.
	Known(ctx context.Context, ids []string) (map[string]bool, error)
	// Withdraw removes an attempt that no worker has taken.
	Withdraw(ctx context.Context, id string) (bool, error)
	// Stop asks the workers that run the attempts to hand them back.
	Stop(ctx context.Context, ids ...string) error
}

var _ Queue = (*queue.Broker)(nil)
