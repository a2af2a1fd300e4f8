package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"coalmine/bench/coverage"
)

const benchCoverageHelp = `Make up results of replicates whose truth is known, and print how often the 95% intervals
contain it: those of Student's t of means and of differences between rows, those of Clopper
and Pearson of pooled counts, and the sign test. Rows without a goal break what an interval
assumes, to show what that does.`

func newBenchCoverageCommand(g *global) *cobra.Command {
	draws, seed := 2000, uint64(1)
	c := &cobra.Command{
		Use:     "coverage",
		Short:   "How often the intervals of replicates contain the truth",
		Long:    benchCoverageHelp,
		Example: `  coalmine bench coverage --draws 20000`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if draws < 1 {
				return fmt.Errorf("--draws %d; expected at least 1", draws)
			}
			rows := coverage.Run(draws, seed)
			if g.json {
				return g.printJSON(map[string]any{"rows": rows})
			}
			coverage.Print(rows, g.stdout)
			return nil
		},
	}
	c.Flags().IntVar(&draws, "draws", draws, "studies that are made up for each line")
	c.Flags().Uint64Var(&seed, "seed", seed, "of what is drawn")
	return c
}
