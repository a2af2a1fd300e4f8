package coordinator

import (
	"context"
	"time"

	"coalmine/internal/queue"
	"coalmine/workflows/runs/leadership"
)

// Queue carries attempts to workers and reports back. It may forget everything
// at any moment, deliver twice, late and in any order. queue.Broker implements
// it.
type Queue interface {
	leadership.Queue
	// Enqueue sends attempts; it does not change a pending or running one. After
	// an error some may have been sent.
	Enqueue(ctx context.Context, messages ...queue.Message) error
	// Reports waits for reports and nudges, no longer than wait.
	Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error)
	// Workers returns the live workers, ordered by id.
	Workers(ctx context.Context) ([]queue.Worker, error)
	// Known returns which of the attempts are pending or run by a live worker. One that
	// was taken a moment ago may be missing.
	Known(ctx context.Context, ids []string) (map[string]bool, error)
	// Withdraw removes an attempt that no worker has taken.
	Withdraw(ctx context.Context, id string) (bool, error)
	// Stop asks the workers that run the attempts to hand them back.
	Stop(ctx context.Context, ids ...string) error
}

var _ Queue = (*queue.Broker)(nil)
