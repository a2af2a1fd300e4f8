// These files measure the overhead of queue, coordinator, worker and store in a round of
// training: they train a tiny model in one plain loop in memory, and again on a cluster.

package cluster

import (
	"bytes"
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
	"coalmine/workflows/control/submission"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/runs"
)

// Training is the size of a training: its rounds, and the client tasks of each round, in
// addition to one server task.
type Training struct {
	Rounds int `json:"rounds"`
	Chunks int `json:"chunks"`
}

func (t Training) submission(ctx context.Context, text []byte, rounds int) (*submission.Submission, error) {
	file := fmt.Appendf(nil, `
name: bench-queue
data: {source: synthetic, vocabulary: {size: 100}, users: {words: 40}}
model: {embedding: 8, units: 8}
training: {algorithm: fedavg, rounds: %d, cohort: %d, chunks: %d, checkpoints: {every: %d, keep: 0}}
`, rounds, 2*t.Chunks, t.Chunks, rounds)
	return submission.PrepareFile(ctx, "bench", file, experiment.Options{}, sources.Text(text), nil)
}

// overheadText returns JSON lines of users with short sentences.
func overheadText() []byte {
	var b bytes.Buffer
	for i := range 4000 {
		fmt.Fprintf(&b, `{"user":"u%d","text":"w%d w%d w%d w%d"}`+"\n", i%200, i%101, i*i%103, i%107, i*7%109)
	}
	return b.Bytes()
}

// Plain times the rounds after the first in one loop.
func (t Training) Plain(ctx context.Context) (time.Duration, error) {
	source := overheadText()
	s, err := t.submission(ctx, source, t.Rounds+1)
	if err != nil {
		return 0, err
	}
	p, err := compile.Plan(s.Spec)
	if err != nil {
		return 0, err
	}
	x := localexec.New(p, compile.Registry(), source)
	first := p.Cells[0].Chain.At(1)
	if err := x.Reach(ctx, first); err != nil {
		return 0, err
	}
	start := time.Now()
	for _, target := range []plan.Ref{p.Cells[0].Model, p.Cells[0].Report} {
		if err := x.Reach(ctx, target); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// Queued times the same rounds as a run, under a leading coordinator and a worker. A run
// of only the first round comes before, so that its work is cached.
func (t Training) Queued(ctx context.Context, api control.API) (time.Duration, error) {
	source := overheadText()
	if _, err := api.PutSource(ctx, bytes.NewReader(source)); err != nil {
		return 0, err
	}
	var took time.Duration
	for _, rounds := range []int{1, t.Rounds + 1} {
		s, err := t.submission(ctx, source, rounds)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if err := carryOut(ctx, api, s.Record()); err != nil {
			return 0, err
		}
		took = time.Since(start)
	}
	return took, nil
}

func carryOut(ctx context.Context, api control.API, record runs.Spec) error {
	submitted, err := api.Submit(ctx, record, true)
	if err != nil {
		return err
	}
	statuses, err := api.Watch(ctx, submitted.Run)
	if err != nil {
		return err
	}
	phase := runs.Queued
	for s := range statuses {
		phase = s.Phase
	}
	if phase != runs.Done {
		return fmt.Errorf("the benchmark's run ended as %s", phase)
	}
	return nil
}

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
		Archive: archive, Queue: conn.Broker(), Compile: runs.CompileParts, Registry: registry, Holder: holder, Place: conn.String(), Log: log,
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
