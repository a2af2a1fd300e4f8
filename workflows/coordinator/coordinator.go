package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/leadership"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/status"
)

// Config says what a coordinator works with.
type Config struct {
	// Archive is where the truth is.
	Archive *storage.Archive
	// Queue carries attempts to workers.
	Queue Queue
	// Compile makes the plan of a run. It MUST give the same plan every time;
	// an error marked tasks.Permanent rejects the run, another is tried again.
	// It is called from several goroutines.
	Compile func(ctx context.Context, run *runs.Run) (*plan.Plan, error)
	// Registry tells the class of each kind; one that it doesn't hold belongs
	// to tasks.Compute.
	Registry tasks.Registry
	// Holder names this process in the contest for leadership. Empty means that
	// there is no contest: whoever owns an embedded store leads.
	Holder string
	// MaxTries is how often a node is tried whose attempts end in errors that
	// another try may mend. Default 5.
	MaxTries int
	// TaskTimeout is how long an attempt may take. Default DefaultTaskTimeout.
	TaskTimeout time.Duration
	// Limits bounds the attempts of a class that are in the queue or at work at
	// one time. A class that it doesn't hold is bounded by the live slots only.
	Limits map[tasks.Class]int
	// Log is where the coordinator writes. Default slog.Default().
	Log *slog.Logger
	// Metrics is where the coordinator registers its metrics, one for each; nil
	// keeps them to itself.
	Metrics prometheus.Registerer
	// Tracer makes spans of rounds, tasks and attempts; nil makes none.
	Tracer *tracing.Tracer
}

// DefaultTaskTimeout ends attempts that hang; none should take hours.
const DefaultTaskTimeout = 12 * time.Hour

// TaskTimeout is how long an attempt may take.
func (c *Coordinator) TaskTimeout() time.Duration { return c.cfg.TaskTimeout }

// Coordinator leads, or stands by until it can.
type Coordinator struct {
	cfg     Config
	contest leadership.Contest
	nudges  chan struct{}
	metrics *metrics
	leading atomic.Pointer[loop] // nil while standing by

	mu        sync.Mutex
	token     *leadership.Token // of the term at work; nil while standing by
	snapshots map[string]*status.Run
	updated   chan struct{} // closed and replaced when snapshots change
}

// New returns a coordinator, or an error that says what its configuration lacks.
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
		cfg.MaxTries = 5
	}
	if cfg.TaskTimeout == 0 {
		cfg.TaskTimeout = DefaultTaskTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	c := &Coordinator{
		cfg:       cfg,
		contest:   leadership.Contest{Archive: cfg.Archive, Queue: cfg.Queue, Holder: cfg.Holder, Log: cfg.Log},
		nudges:    make(chan struct{}, 1),
		snapshots: make(map[string]*status.Run),
		updated:   make(chan struct{}),
		metrics:   newMetrics(cfg.Metrics),
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
	default: // it is about to look anyway
	}
}

// Lead leads until ctx is done, then returns nil. With a Holder it leads only
// while it holds the lease in the queue, and stands by otherwise; for a leader with
// another store it does not, but returns an error (attempts.ErrOtherStore). Without one
// it leads at once, and returns an error if another process takes the lead: the
// store has two owners then.
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
		case err != nil:
			c.cfg.Log.Warn("leading no more; standing by", "error", err)
			_ = leadership.Pause(ctx) // its only error is ctx's
		}
	}
	return nil
}

// Token is the fencing token of the term that this process leads. The error wraps
// leadership.ErrStandby if it leads none.
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
