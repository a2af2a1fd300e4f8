package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
)

const showHelp = `Print the experiment of a run as it was resolved: the grid taken apart, --set and
all defaults filled in, the data named by digest. Each cell is an experiment file of
its own: of one, what is printed runs again and finds everything cached.`

func newShowCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "show RUN [CELL]",
		Short:   "Print the experiment of a run, or of one cell, with all defaults",
		Long:    showHelp,
		Example: "  coalmine show latest\n  coalmine show quickstart c02 > again.yaml && coalmine run again.yaml",
		GroupID: groupLook,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return g.withControl(c.Context(), func(api control.API) error {
				spec, err := api.Experiment(c.Context(), args[0])
				if err != nil {
					return err
				}
				if len(args) == 2 {
					if err := onlyCell(spec, args[1]); err != nil {
						return fmt.Errorf("run %s: %w", args[0], err)
					}
				}
				if g.json {
					return g.printJSON(spec)
				}
				return g.writeSpec(spec)
			})
		},
	}
}

// onlyCell leaves one cell of a spec.
func onlyCell(spec *experiment.Spec, name string) error {
	for _, c := range spec.Cells {
		if c.Name == name {
			spec.Cells = []experiment.Cell{c}
			return nil
		}
	}
	return fmt.Errorf("there is no cell %q: it has %s to %s", name, spec.Cells[0].Name, spec.Cells[len(spec.Cells)-1].Name)
}

// writeSpec prints the cells as YAML documents.
func (g *global) writeSpec(spec *experiment.Spec) error {
	for i := range spec.Cells {
		c := &spec.Cells[i]
		text, err := c.Experiment.YAML()
		if err != nil {
			return fmt.Errorf("cell %s: %w", c.Name, err)
		}
		if i > 0 {
			g.printf("---\n")
		}
		g.printf("# %s: %s\n%s", c.Name, c.Label, text)
	}
	return nil
}

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
