package coordinator

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Config configures a coordinator.
type Config struct {
	// Archive is the authoritative store.
	Archive *storage.Archive
	// Queue carries attempts to workers.
	Queue Queue
	// Compile makes the plan of a run. It MUST give the same plan every time;
	// its parts then belong to the coordinator. An error marked tasks.Permanent
	// rejects the run, other errors are retried. It is called from several
	// goroutines.
	Compile func(ctx context.Context, run *runs.Run) (plan.Parts, error)
	// Registry gives the class of each kind; unknown kinds belong to
	// tasks.Compute.
	Registry tasks.Registry
	// Holder names this process in the election of the leader. Empty means that
	// there is no election: the owner of an embedded store leads.
	Holder string
	// Place names the queue, in messages and for coordinators of the same store with
	// another queue.
	Place string
	// MaxTries is the number of attempts of a node that may end in retryable
	// errors. Default policy.MaxTries.
	MaxTries int
	// TaskTimeout is the maximum duration of an attempt. Default policy.TaskTimeout.
	TaskTimeout time.Duration
	// Limits bounds the number of attempts in flight, by class. Other classes
	// are bounded only by the live slots.
	Limits map[tasks.Class]int
	// Log is the coordinator's logger. Default slog.Default().
	Log *slog.Logger
	// Metrics registers the coordinator's metrics, once each; nil exports
	// nothing.
	Metrics prometheus.Registerer
	// Tracer makes spans of rounds, tasks and attempts; nil makes none.
	Tracer *tracing.Tracer
}
