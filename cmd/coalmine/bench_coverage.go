package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"coalmine/bench/coverage"
)

const benchCoverageHelp = `Two tables. The first: make up results of replicates whose truth is known, and print how often the 95% intervals
contain it: those of Student's t of means and of differences between rows, those of Korn and
Graubard of pooled counts, and the sign test. Rows without a goal violate the assumptions of
an interval, and show the effect.

The second: make up data of 1, 2, 3, 5, 10 and 30 users (or canaries, sentences, seeds), where
there is nothing to find, something, and nearly all, for every quantity that is printed with an
interval, and print how often the interval has the truth in it, and how often it lies wholly above
the truth: at no effect, the false alarms of a gate at chance. It takes about five minutes.`

func newBenchCoverageCommand(g *global) *cobra.Command {
	draws, fewDraws, seed := 2000, 400, uint64(1)
	c := &cobra.Command{
		Use:     "coverage",
		Short:   "How often the intervals of replicates contain the truth",
		Long:    benchCoverageHelp,
		Example: `  coalmine bench coverage --draws 20000 --few-draws 2000`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if draws < 1 || fewDraws < 1 {
				return fmt.Errorf("--draws %d, --few-draws %d; expected at least 1", draws, fewDraws)
			}
			rows, few := coverage.Run(draws, seed), coverage.RunFew(fewDraws, seed, coverage.FewUsers)
			if g.json {
				return g.printJSON(map[string]any{"rows": rows, "few_users": few})
			}
			coverage.Print(rows, g.stdout)
			g.printf("\nIntervals over few users (or canaries, sentences, seeds): the truth is inside, in %%\n")
			coverage.PrintFew(few, g.stdout)
			return nil
		},
	}
	c.Flags().IntVar(&draws, "draws", draws, "studies that are made up for each line")
	c.Flags().IntVar(&fewDraws, "few-draws", fewDraws, "intervals over few users that are made up for each number of the second table")
	c.Flags().Uint64Var(&seed, "seed", seed, "of what is drawn")
	return c
}
