package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"coalmine/bench/cluster"
	"coalmine/bench/engine"
)

func newSubmit(o *output) *cobra.Command {
	options, program := cluster.SubmitOptions{Note: o.note}, ""
	c := &cobra.Command{
		Use:   "submit [FILE]",
		Short: "Cost of submitting a large grid",
		Long: `Submit a grid to a cluster without workers, and print what that costs: the time and
memory of the command, those of the coordinator that takes the run up, and how long
the list of runs takes while it waits and after it was cancelled.

The grid is that of FILE, or one of --cells seeds of a small experiment with audits:
cells that have no task in common but to import their text. It starts a redis-server
from PATH and keeps its store in a temporary directory. --program measures another
build, such as an older one.`,
		Example: "  go run ./bench/cmd submit --cells 10000",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				options.File = args[0]
			}
			return withProgram(c.Context(), program, func(path string) error {
				options.Program = path
				return o.show(cluster.RunSubmit(c.Context(), options))
			})
		},
	}
	f := c.Flags()
	f.IntVar(&options.Cells, "cells", 1000, "cells of the grid if no file is named")
	f.IntVar(&options.Lists, "lists", 20, "how often the list of runs is asked for")
	addProgram(c, &program)
	return c
}

func addProgram(c *cobra.Command, program *string) {
	c.Flags().StringVar(program, "program", "", "path of the coalmine to measure (default: a build of this source tree)")
}

func newPlan(o *output) *cobra.Command {
	program, settings := "", []string(nil)
	c := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Time that coalmine plan predicts beside the time that experiments take",
		Long: `Plan and run experiments, each in a temporary directory of its own, and print the time
that "coalmine plan" predicts beside the one that the run takes, by the clock and of all
cores together: that of the run's process and of the programs that it starts. On a machine
that also does other work only the latter compares; the factor is how many times too low
or too high it is. --set makes a long experiment shorter.`,
		Example: "  go run ./bench/cmd plan examples/ci-gate.yaml examples/carlini-2019/table1-small.yaml\n  go run ./bench/cmd plan examples/dp-ftrl-small.yaml --set training.rounds=100",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			return withProgram(c.Context(), program, func(path string) error {
				var rows cluster.ForecastRows
				for _, file := range files {
					row, err := cluster.RunForecast(c.Context(), path, file, settings)
					if err != nil {
						return err
					}
					o.note("%s: factor %.2f", file, row.Factor())
					rows = append(rows, row)
				}
				return o.show(rows, nil)
			})
		},
	}
	c.Flags().StringArrayVar(&settings, "set", nil, "set a field of the experiments, such as training.rounds=100; may be repeated")
	addProgram(c, &program)
	return c
}

func newClients(o *output) *cobra.Command {
	options, config := engine.ClientsOptions{}, ""
	c := &cobra.Command{
		Use:   "clients",
		Short: "Overhead of clients that a program trains",
		Long: `Have a program train clients by the contract "client" (docs/contracts/client.md), and print
what that costs beside the program's own loop: from a user's examples to the update in the
sum, with the parameters' way to the program and back. The program tells the seconds of its
loop by the metric "seconds" of fit; clients/python/examples/paper_lstm.py does, with a model
of the paper's size.`,
		Example: `  go run ./bench/cmd clients --command "python3 clients/python/examples/paper_lstm.py"`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var block map[string]any
			if json.Unmarshal([]byte(config), &block) != nil || block == nil {
				return fmt.Errorf("--config %s: expected a JSON object, such as {\"batch\": 16}", config)
			}
			options.Config = json.RawMessage(config)
			return o.show(engine.RunClients(c.Context(), options))
		},
	}
	f := c.Flags()
	f.StringVar(&options.Command, "command", "", "the program, as the system's shell reads it")
	f.StringVar(&config, "config", `{"batch": 16}`, "training.job of an experiment file, as a JSON object")
	f.IntVar(&options.Words, "words", 10_000, "words of the vocabulary")
	f.IntVar(&options.Examples, "examples", 320, "examples of a user: 20 batches of 16")
	f.IntVar(&options.Length, "length", 20, "words of an example")
	f.IntVar(&options.Clients, "clients", 6, "measured clients, after a first one that is not measured")
	if err := c.MarkFlagRequired("command"); err != nil {
		panic(err)
	}
	return c
}
