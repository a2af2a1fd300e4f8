package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

const compareHelp = `Set two runs side by side: the fields in which their experiments differ, and the
columns of their results, "3/8 -> 5/8" where they differ. Cells are paired by their
point of the grid; RUN/CELL names one, so that two cells of one run can be compared. Of runs
with replicates, and of two rows named as RUN/r01, it shows the difference of the second
less the first, seed by seed: its mean, its 95% interval by Student's t, how many canaries
only the second and only the first has memorized ("2:9"), and p of the exact sign test. Where
audits test how two models differ, as of their samples, what they say stands below: "exact"
is a number of the models themselves, p the probability of such a difference by the
chance of what was drawn from them. Neither tells how another training would differ.
--json has the whole results of each pair.`

func newCompareCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "compare RUN RUN",
		Aliases: []string{"diff"},
		Short:   "Show in what two runs differ, and in what their results",
		Long:    compareHelp,
		Example: "  coalmine compare quickstart-1a2b quickstart-3c4d\n  coalmine compare latest/c01 latest/c02\n  coalmine compare latest/r01 latest/r03\n  coalmine compare quickstart-1a2b latest --json | jq '.pairs[].fields'",
		GroupID: groupLook,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return g.withControl(c.Context(), func(api control.API) error {
				before, err := side(c.Context(), api, args[0])
				if err != nil {
					return err
				}
				after, err := side(c.Context(), api, args[1])
				if err != nil {
					return err
				}
				comparison, err := results.Compare(before, after)
				if err != nil {
					return err
				}
				if g.json {
					return g.printJSON(comparison)
				}
				return comparison.WriteScreen(g.stdout, g.colorless())
			})
		},
	}
}

// side is a run, or one of its cells or rows of replicates: RUN/CELL.
func side(ctx context.Context, api control.API, name string) (s results.Side, err error) {
	run, part, only := strings.Cut(name, "/")
	if s.Spec, err = api.Experiment(ctx, run); err != nil {
		return s, err
	}
	if s.Results, err = api.Results(ctx, run); err != nil || !only {
		return s, err
	}
	return s.Only(part)
}
