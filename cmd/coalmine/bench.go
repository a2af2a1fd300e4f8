package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"coalmine/bench/overhead"
	"coalmine/bench/scale"
	"coalmine/internal/queue"
	"coalmine/internal/scratch"
	"coalmine/storage"
	"coalmine/storage/open"
)

func newBenchCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Measure what this machine does", GroupID: groupOther, Args: cobra.NoArgs,
		Example: "  coalmine bench engine",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newBenchEngineCommand(g), newBenchQueueCommand(g), newBenchSubmitCommand(g), newBenchAttacksCommand(g), newBenchClientsCommand(g), newBenchCoverageCommand(g), newBenchPlanCommand(g), newIdleWorkerCommand(g))
	return c
}

// queueBench is the outcome of bench queue. Times are milliseconds.
type queueBench struct {
	Queue string `json:"queue"`
	Store string `json:"store"`
	overhead.Training
	Plain    float64 `json:"plain_ms_per_round"`
	Queued   float64 `json:"queued_ms_per_round"`
	Overhead float64 `json:"overhead_ms_per_round"`
}

const benchQueueHelp = `Train a tiny model for some rounds twice: in one plain loop in memory, and
through the queue, the coordinator, a worker and the store. The difference is the
overhead of the machinery. Embedded in a temporary directory, or on --redis and
--store if they are given; variables that name a cluster are ignored.

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
		Example: "  coalmine bench queue\n" +
			"  coalmine bench queue --scale --slots 100 --measure tasks,rounds",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !scaled {
				return g.printQueueBench(c.Context(), overhead.Training{Rounds: rounds, Chunks: chunks})
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

func (g *global) printQueueBench(ctx context.Context, training overhead.Training) error {
	b, err := g.benchQueue(ctx, training)
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
	given := g.places.given()
	o.Redis, o.Store, o.Note, o.Log = given["redis"], given["store"], g.note, g.logger()
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

func (g *global) benchQueue(ctx context.Context, training overhead.Training) (*queueBench, error) {
	plain, err := training.Plain(ctx)
	if err != nil {
		return nil, err
	}
	e, remove, err := g.openBench(ctx)
	if err != nil {
		return nil, err
	}
	b := &queueBench{Queue: e.conn.String(), Store: e.archive.String(), Training: training}
	queued, err := benchQueued(ctx, e, training)
	if err = errors.Join(err, remove()); err != nil {
		return nil, err
	}
	perRound := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(training.Rounds) }
	b.Plain, b.Queued, b.Overhead = perRound(plain), perRound(queued), perRound(queued-plain)
	return b, nil
}

// benchQueued times the training under the engine.
func benchQueued(ctx context.Context, e *engine, training overhead.Training) (time.Duration, error) {
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- e.work(working) }()
	took, err := training.Queued(working, e.control)
	stop()
	return took, errors.Join(err, <-worked)
}

// openBench is an engine in a temporary directory or on the given servers.
func (g *global) openBench(ctx context.Context) (*engine, closer, error) {
	d, err := scratch.Make("", "bench-")
	if err != nil {
		return nil, nil, err
	}
	dir, remove := filepath.Join(d.Path, "home"), func() error { d.Remove(); return nil }
	given := g.places.given()
	if given["redis"] == "" {
		e, err := openEmbedded(ctx, dir, g, listenFlags{address: anyPort})
		return e, remove, err
	}
	store, err := open.Open(ctx, cmp.Or(given["store"], dir))
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	conn, err := queue.Open(ctx, given["redis"])
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	e := &engine{archive: storage.NewArchive(store), conn: conn, global: g}
	return e, remove, e.assemble(holderName())
}
