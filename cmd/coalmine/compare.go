package main

import (
	"context"

	"github.com/spf13/cobra"

	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

const compareHelp = `Set two runs side by side: the fields in which their experiments differ, and the
columns of their results, "3/8 -> 5/8" where they differ. Cells are paired by their
point of the grid. --json has the whole results of each pair.`

func newCompareCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "compare RUN RUN",
		Aliases: []string{"diff"},
		Short:   "Show in what two runs differ, and in what their results",
		Long:    compareHelp,
		Example: "  coalmine compare quickstart-1a2b quickstart-3c4d\n  coalmine compare quickstart-1a2b latest --json | jq '.pairs[].fields'",
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
				comparison := results.Compare(before, after)
				if g.json {
					return g.printJSON(comparison)
				}
				return comparison.WriteTable(g.stdout)
			})
		},
	}
}

func side(ctx context.Context, api control.API, run string) (s results.Side, err error) {
	if s.Spec, err = api.Experiment(ctx, run); err != nil {
		return s, err
	}
	s.Results, err = api.Results(ctx, run)
	return s, err
}
