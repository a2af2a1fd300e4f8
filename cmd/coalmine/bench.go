package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"coalmine/cmd/coalmine/scale"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workflows/compile"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/localexec"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/sources"
	"coalmine/workflows/submission"
)

func newBenchCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Measure what this machine does", GroupID: groupOther, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newBenchEngineCommand(g), newBenchQueueCommand(g), newIdleWorkerCommand(g))
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

const benchQueueHelp = `Train a tiny model for some rounds twice: in one plain loop in memory, and
through the queue, the coordinator, a worker and the store. The difference is the
overhead of the machinery. Embedded in a temporary directory, or on --redis and
--store if they are given.

With --scale, tasks that do nothing show how far the machinery goes: how many of
them it carries in a second over --slots slots, how long each of --rounds rounds
takes and what it costs the coordinator, the first thousand against the last, what
idle processes cost, and how soon a coordinator goes on with --cells trainings that
were interrupted near their end. It starts --processes workers, and a redis-server
from PATH unless --redis names an empty Redis. Records are kept in memory, and on
disk for the last measurement, unless --store names a store.`

func newBenchQueueCommand(g *global) *cobra.Command {
	var rounds, chunks int
	var scaled bool
	var o scale.Options
	c := &cobra.Command{
		Use:   "queue",
		Short: "Overhead of queue, coordinator and store",
		Long:  benchQueueHelp,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !scaled {
				return g.printQueueBench(c.Context(), rounds, chunks)
			}
			o.Rounds, o.Chunks = rounds, chunks
			if !c.Flags().Changed("rounds") {
				o.Rounds = scaleRounds
			}
			return g.printScale(c.Context(), o)
		},
	}
	f := c.Flags()
	f.IntVar(&rounds, "rounds", 200, fmt.Sprintf("rounds to measure; with --scale %d", scaleRounds))
	f.IntVar(&chunks, "chunks", 4, "tasks that a round's cohort is split into")
	f.BoolVar(&scaled, "scale", false, "measure with tasks that do nothing, over processes and a real Redis")
	f.IntVar(&o.Slots, "slots", 1000, "with --scale: tasks that run at once, over all processes")
	f.IntVar(&o.Processes, "processes", 4, "with --scale: worker processes")
	f.IntVar(&o.Tasks, "tasks", 100_000, "with --scale: tasks for the rate")
	f.IntVar(&o.Cells, "cells", 20, "with --scale: trainings of --rounds rounds to take up")
	f.StringSliceVar(&o.Measure, "measure", scale.Measurements, "with --scale: what to measure")
	f.DurationVar(&o.Idle, "idle", 5*time.Second, "with --scale: how long idle processes are watched")
	return c
}

const scaleRounds = 10_000

func (g *global) printQueueBench(ctx context.Context, rounds, chunks int) error {
	b, err := g.benchQueue(ctx, rounds, chunks)
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(b)
	}
	g.printf("%d rounds of %d chunks, queue: %s, store: %s\n", b.Rounds, b.Chunks, b.Queue, b.Store)
	g.printf("plain loop     %7.2f ms a round\nthrough queue  %7.2f ms a round\noverhead       %7.2f ms a round\n", b.Plain, b.Queued, b.Overhead)
	return nil
}

func (g *global) printScale(ctx context.Context, o scale.Options) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	o.Redis, o.Store, o.Note, o.Log = g.redis, g.store, g.note, g.logger()
	r, err := scale.Run(ctx, o)
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(r)
	}
	r.Print(g.stdout)
	return nil
}

// newIdleWorkerCommand is the worker that bench queue --scale starts.
func newIdleWorkerCommand(g *global) *cobra.Command {
	var slots int
	c := &cobra.Command{
		Use:    "idle-worker",
		Short:  "A worker for bench queue --scale, until its standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			archive, conn, err := g.openCluster(c.Context())
			if err != nil {
				return err
			}
			w := newWorker(archive, conn, g, slots)
			w.Registry = scale.Registry()
			return errors.Join(scale.Work(c.Context(), c.InOrStdin(), w.Run), conn.Close())
		},
	}
	c.Flags().IntVar(&slots, "slots", 1, "tasks at a time")
	return c
}

// benchSubmission is a tiny experiment of so many rounds on the text.
func benchSubmission(ctx context.Context, text []byte, rounds, chunks int) (*submission.Submission, error) {
	file := fmt.Appendf(nil, `
name: bench-queue
data: {source: synthetic, vocabulary: {size: 100}, users: {words: 40}}
model: {embedding: 8, units: 8}
training: {algorithm: fedavg, rounds: %d, cohort: %d, chunks: %d, checkpoints: {every: %d, keep: 0}}
`, rounds, 2*chunks, chunks, rounds)
	return submission.PrepareFile(ctx, "bench", file, experiment.Options{}, sources.Text(text), nil)
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
	s, err := benchSubmission(ctx, text, rounds+1, chunks)
	if err != nil {
		return 0, err
	}
	p, err := compile.Plan(s.Spec)
	if err != nil {
		return 0, err
	}
	x := localexec.New(p, compile.Registry(), text)
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
		e, err := openEmbedded(ctx, dir, g, listenFlags{address: anyPort})
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
	e := &engine{archive: storage.NewArchive(store), conn: conn, global: g}
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
		s, err := benchSubmission(ctx, text, n, chunks)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if err := benchRun(ctx, e.control, s.Record()); err != nil {
			return 0, err
		}
		took = time.Since(start)
	}
	return took, nil
}

// benchRun submits a run and waits for its end.
func benchRun(ctx context.Context, api control.API, record runs.Spec) error {
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
