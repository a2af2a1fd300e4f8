package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/tasks/datasets"
	"coalmine/workflows/compile"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/inline"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

func newBenchCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Measure what this machine does", GroupID: groupOther, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newBenchQueueCommand(g))
	return c
}

// queueBench is the outcome of bench queue. Times are milliseconds.
type queueBench struct {
	Queue    string  `json:"queue"`
	Store    string  `json:"store"`
	Rounds   int     `json:"rounds"`
	Chunks   int     `json:"chunks"`
	Plain    float64 `json:"plain_ms_per_round"`
	Queued   float64 `json:"queued_ms_per_round"`
	Overhead float64 `json:"overhead_ms_per_round"`
}

func newBenchQueueCommand(g *global) *cobra.Command {
	var rounds, chunks int
	c := &cobra.Command{
		Use:   "queue",
		Short: "Overhead of queue, coordinator and store per round of a tiny model",
		Long: `Train a tiny model for some rounds twice: in one plain loop in memory, and
through the queue, the coordinator, a worker and the store. The difference is the
overhead of the machinery. Embedded in a temporary directory, or on --redis and
--store if they are given.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := g.benchQueue(c.Context(), rounds, chunks)
			if err != nil {
				return err
			}
			if g.json {
				return g.printJSON(b)
			}
			g.printf("%d rounds of %d chunks, queue: %s, store: %s\n", b.Rounds, b.Chunks, b.Queue, b.Store)
			g.printf("plain loop     %7.2f ms a round\nthrough queue  %7.2f ms a round\noverhead       %7.2f ms a round\n", b.Plain, b.Queued, b.Overhead)
			return nil
		},
	}
	c.Flags().IntVar(&rounds, "rounds", 200, "rounds to measure")
	c.Flags().IntVar(&chunks, "chunks", 4, "tasks that a round's cohort is split into")
	return c
}

// benchSpec is a tiny experiment of so many rounds on the text, resolved.
func benchSpec(ctx context.Context, text []byte, rounds, chunks int) (*experiment.Spec, error) {
	file := fmt.Sprintf(`
name: bench-queue
data: {source: synthetic, vocabulary: {size: 100}, users: {words: 40}}
model: {embedding: 8, units: 8}
training: {algorithm: fedavg, rounds: %d, cohort: %d, chunks: %d, checkpoints: {every: %d, keep: 0}}
`, rounds, 2*chunks, chunks, rounds)
	spec, err := experiment.Parse("bench", []byte(file), experiment.Options{})
	if err != nil {
		return nil, err
	}
	files := []datasets.File{datasets.InMemory("synthetic", text)}
	facts, err := datasets.Survey(ctx, files, datasets.Limits{}, []datasets.Recipe{compile.Recipe(&spec.Cells[0].Experiment)})
	if err != nil {
		return nil, err
	}
	return spec, spec.Resolve([]experiment.Facts{{
		Files: []storage.Digest{storage.DigestOf(text)}, Users: facts[0].Balance.Balanced.Users,
		Examples: facts[0].Balance.Balanced.Examples, DistinctWords: facts[0].Parts.DistinctWords,
	}})
}

// benchText is JSON lines of users with short sentences.
func benchText() []byte {
	var b bytes.Buffer
	for i := range 4000 {
		fmt.Fprintf(&b, `{"user":"u%d","text":"w%d w%d w%d w%d"}`+"\n", i%200, i%101, i*i%103, i%107, i*7%109)
	}
	return b.Bytes()
}

func (g *global) benchQueue(ctx context.Context, rounds, chunks int) (*queueBench, error) {
	text := benchText()
	plain, err := benchPlain(ctx, text, rounds, chunks)
	if err != nil {
		return nil, err
	}
	e, remove, err := g.openBench(ctx)
	if err != nil {
		return nil, err
	}
	b := &queueBench{Queue: e.conn.String(), Store: e.archive.String(), Rounds: rounds, Chunks: chunks}
	queued, err := benchEngine(ctx, e, text, rounds, chunks)
	if err = errors.Join(err, remove()); err != nil {
		return nil, err
	}
	perRound := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(rounds) }
	b.Plain, b.Queued, b.Overhead = perRound(plain), perRound(queued), perRound(queued-plain)
	return b, nil
}

// benchPlain times the rounds after the first in one loop.
func benchPlain(ctx context.Context, text []byte, rounds, chunks int) (time.Duration, error) {
	spec, err := benchSpec(ctx, text, rounds+1, chunks)
	if err != nil {
		return 0, err
	}
	p, err := compile.Plan(spec)
	if err != nil {
		return 0, err
	}
	x := inline.New(p, compile.Registry(), text)
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

// openBench is an engine in a temporary directory or on the given servers.
func (g *global) openBench(ctx context.Context) (*engine, closer, error) {
	dir, err := os.MkdirTemp("", "coalmine-bench-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	if g.redis == "" {
		e, err := openEmbedded(ctx, dir, g)
		return e, remove, err
	}
	location := g.store
	if location == "" {
		location = dir
	}
	store, err := open.Open(ctx, location)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	conn, err := queue.Open(ctx, g.redis)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	e := &engine{archive: storage.NewArchive(store), conn: conn, log: g.logger()}
	return e, remove, e.assemble(holderName())
}

// benchEngine times the rounds after the first through the machinery.
func benchEngine(ctx context.Context, e *engine, text []byte, rounds, chunks int) (time.Duration, error) {
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- e.work(working) }()
	took, err := benchRuns(working, e, text, rounds, chunks)
	stop()
	return took, errors.Join(err, <-worked)
}

func benchRuns(ctx context.Context, e *engine, text []byte, rounds, chunks int) (time.Duration, error) {
	if _, err := e.control.PutSource(ctx, bytes.NewReader(text)); err != nil {
		return 0, err
	}
	var took time.Duration
	for _, n := range []int{1, rounds + 1} {
		spec, err := benchSpec(ctx, text, n, chunks)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if err := benchRun(ctx, e.control, spec); err != nil {
			return 0, err
		}
		took = time.Since(start)
	}
	return took, nil
}

// benchRun submits a spec and waits for its end.
func benchRun(ctx context.Context, api control.API, spec *experiment.Spec) error {
	record := runs.Spec{Name: spec.Name, Digest: spec.Digest(), Experiment: spec.Canonical()}
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
