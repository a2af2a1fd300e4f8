package main

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"coalmine/bench/submit"
)

const benchSubmitHelp = `Submit a grid to a cluster without workers, and print what that costs: the time and
memory of the command, those of the coordinator that takes the run up, and how long
the list of runs takes while it waits and after it was cancelled.

The grid is that of FILE, or one of --cells seeds of a small experiment with audits:
cells that have no task in common but to import their text. It starts a redis-server
from PATH and keeps its store in a temporary directory. --program measures another
build, such as an older one.`

func newBenchSubmitCommand(g *global) *cobra.Command {
	var o submit.Options
	c := &cobra.Command{
		Use:     "submit [FILE]",
		Short:   "Cost of submitting a large grid",
		Long:    benchSubmitHelp,
		Example: `  coalmine bench submit --cells 10000`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Program, o.Note = cmp.Or(o.Program, self), g.note
			if len(args) > 0 {
				o.File = args[0]
			}
			r, err := submit.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if g.json {
				return g.printJSON(r)
			}
			r.Print(g.stdout)
			return nil
		},
	}
	f := c.Flags()
	f.IntVar(&o.Cells, "cells", 1000, "cells of the grid, where no file is named")
	f.IntVar(&o.Lists, "lists", 20, "how often the list of runs is asked for")
	f.StringVar(&o.Program, "program", "", "path of the coalmine to measure; default this one")
	return c
}
