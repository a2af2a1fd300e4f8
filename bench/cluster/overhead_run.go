package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/internal/kernels"
	"coalmine/internal/queue"
	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workers"
	"coalmine/workflows/control"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs/planned"
)

// OverheadResult holds the measurements. Times are in milliseconds.
type OverheadResult struct {
	Queue string `json:"queue"`
	Store string `json:"store"`
	Training
	Plain    float64 `json:"plain_ms_per_round"`
	Queued   float64 `json:"queued_ms_per_round"`
	Overhead float64 `json:"overhead_ms_per_round"`
}

// Print writes the result for people.
func (r *OverheadResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%d rounds of %d chunks, queue: %s, store: %s\n", r.Rounds, r.Chunks, r.Queue, r.Store)
	fmt.Fprintf(w, "plain loop     %7.2f ms a round\nthrough queue  %7.2f ms a round\noverhead       %7.2f ms a round\n", r.Plain, r.Queued, r.Overhead)
}

// RunOverhead trains in a plain loop, and again through the machinery: on the named Redis and store, or
// embedded in a temporary directory.
func RunOverhead(ctx context.Context, t Training, redis, store string, log *slog.Logger) (*OverheadResult, error) {
	plain, err := t.Plain(ctx)
	if err != nil {
		return nil, err
	}
	d, err := tempfiles.MakeDirectory("", "bench-")
	if err != nil {
		return nil, err
	}
	defer d.Remove()
	opened, err := open.Open(ctx, cmp.Or(store, filepath.Join(d.Path, "store")))
	if err != nil {
		return nil, err
	}
	conn, holder, err := connect(ctx, redis)
	if err != nil {
		return nil, err
	}
	archive := storage.NewArchive(opened)
	queued, err := t.machinery(ctx, archive, conn, holder, log)
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	perRound := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(t.Rounds) }
	return &OverheadResult{
		Queue: conn.String(), Store: archive.String(), Training: t,
		Plain: perRound(plain), Queued: perRound(queued), Overhead: perRound(queued) - perRound(plain),
	}, nil
}

// connect opens a queue. In a Redis that others could also lead, holder names this process.
func connect(ctx context.Context, redis string) (conn *queue.Conn, holder string, err error) {
	if redis == "" {
		conn, err = queue.Embedded(ctx)
		return conn, "", err
	}
	conn, err = queue.Open(ctx, redis)
	return conn, fmt.Sprintf("bench-%d", os.Getpid()), err
}

// machinery times the training under a coordinator and a worker of this process.
func (t Training) machinery(ctx context.Context, archive *storage.Archive, conn *queue.Conn, holder string, log *slog.Logger) (time.Duration, error) {
	registry := compile.Registry()
	leader, err := coordinator.New(coordinator.Config{
		Archive: archive, Queue: conn.Broker(), Compile: planned.CompileParts, Registry: registry, Holder: holder, Place: conn.String(), Log: log,
	})
	if err != nil {
		return 0, err
	}
	worker := &workers.Worker{Archive: archive, Queue: conn, Registry: registry, Slots: runtime.GOMAXPROCS(0), Kernels: kernels.Set(), Log: log}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return leader.Lead(working) })
	group.Go(func() error { return worker.Run(working) })
	took, err := t.Queued(working, control.New(archive, conn, leader))
	stop()
	return took, cmp.Or(group.Wait(), err)
}
