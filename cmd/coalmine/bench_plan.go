package main

import (
	"os"

	"github.com/spf13/cobra"

	"coalmine/bench/forecast"
)

func newBenchPlanCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "plan FILE...",
		Short: "Time that plan predicts beside the time that experiments take",
		Long: `Plan and run experiments, each in a temporary directory of its own, and print the time
that "coalmine plan" predicts beside the one that the run takes, by the clock and of all
cores together. On a machine that also does other work only the latter compares; the
factor is how many times too low or too high it is.`,
		Example: "  coalmine bench plan examples/ci-gate.yaml examples/carlini-2019/table1-small.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			var rows []*forecast.Row
			for _, file := range args {
				row, err := forecast.Run(c.Context(), self, file)
				if err != nil {
					return err
				}
				g.note("%s: factor %.2f", file, row.Factor())
				rows = append(rows, row)
			}
			if g.json {
				return g.printJSON(rows)
			}
			return forecast.Print(g.stdout, rows)
		},
	}
}
