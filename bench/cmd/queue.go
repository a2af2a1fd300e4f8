package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"coalmine/bench/cluster"
)

const scaleRounds = 10_000

func newQueue(o *output) *cobra.Command {
	var training cluster.Training
	var scaled bool
	options := cluster.Options{Note: o.note}
	c := &cobra.Command{
		Use:   "queue",
		Short: "Overhead of queue, coordinator and store",
		Long: `Train a tiny model for some rounds twice: in one plain loop in memory, and
through the queue, the coordinator, a worker and the store. The difference is the
overhead of the machinery. Embedded in a temporary directory, or on --redis and
--store if they are given.

With --scale, tasks that do nothing show how far the machinery goes: how many of
them it carries in a second over --slots slots, how long each of --rounds rounds
takes and what it costs the coordinator, the first thousand against the last, what
idle processes cost, and how soon a coordinator goes on with --cells trainings that
were interrupted near their end. It starts --processes workers, and a redis-server
from PATH unless --redis names an empty Redis. Records are kept in memory, and on
disk for the last measurement, unless --store names a store.`,
		Example: "  go run ./bench/cmd queue\n  go run ./bench/cmd queue --scale --slots 100 --measure tasks,rounds",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			options.Log = o.log()
			if !scaled {
				return o.show(cluster.RunOverhead(c.Context(), training, options.Redis, options.Store, options.Log))
			}
			if options.Program, err = os.Executable(); err != nil {
				return err
			}
			options.Rounds, options.Chunks = training.Rounds, training.Chunks
			if !c.Flags().Changed("rounds") {
				options.Rounds = scaleRounds
			}
			return o.show(cluster.Run(c.Context(), options))
		},
	}
	f := c.Flags()
	f.StringVar(&options.Redis, "redis", "", "URL of a Redis; with --scale an empty one")
	f.StringVar(&options.Store, "store", "", "store to work in: a directory or an s3:// URL")
	f.IntVar(&training.Rounds, "rounds", 200, fmt.Sprintf("rounds to measure; with --scale %d", scaleRounds))
	f.IntVar(&training.Chunks, "chunks", 4, "tasks that a round's cohort is split into")
	f.BoolVar(&scaled, "scale", false, "measure with tasks that do nothing, over processes and a real Redis")
	f.IntVar(&options.Slots, "slots", 1000, "with --scale: tasks that run at once, over all processes")
	f.IntVar(&options.Processes, "processes", 4, "with --scale: worker processes")
	f.IntVar(&options.Tasks, "tasks", 100_000, "with --scale: tasks for the rate")
	f.IntVar(&options.Cells, "cells", 20, "with --scale: trainings of --rounds rounds to take up")
	f.StringSliceVar(&options.Measure, "measure", cluster.Measurements, "with --scale: measurements to make")
	f.DurationVar(&options.Idle, "idle", 5*time.Second, "with --scale: how long idle processes are watched")
	return c
}

// newIdleWorker is the worker that queue --scale starts.
func newIdleWorker(o *output) *cobra.Command {
	slots := 1
	c := &cobra.Command{
		Use:    cluster.WorkerCommand,
		Short:  "A worker for queue --scale, until its standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return cluster.Work(c.Context(), c.InOrStdin(), slots, o.log())
		},
	}
	c.Flags().IntVar(&slots, "slots", slots, "tasks at a time")
	return c
}
