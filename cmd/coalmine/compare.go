package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/internal/chart"
	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
	"coalmine/workflows/results/trackers"
)

const compareHelp = `Compare two runs: the fields in which their experiments differ, and their results,
"3/8 -> 5/8" where these differ. Cells are paired by their point of the grid; RUN/CELL
selects one, so that two cells of one run can be compared. For runs with replicates, and
for two rows RUN/r01, it prints the difference, second minus first, over paired seeds:
mean, 95% interval by Student's t, the numbers of canaries that only the second and
only the first memorized ("2:9"), and the p-value of the exact sign test. Tests of the
difference between two models, such as of their samples, follow: "exact" marks a number
computed from the models; p is the probability of such a difference by chance of the
samples. Neither covers the variation between trainings.
--json prints all results of each pair.`

func newCompareCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "compare RUN RUN",
		Aliases: []string{"diff"},
		Short:   "Compare two runs: settings and results",
		Long:    compareHelp,
		Example: "  coalmine compare quickstart-1a2b quickstart-3c4d\n  coalmine compare latest/c01 latest/c02\n  coalmine compare latest/r01 latest/r03\n  coalmine compare quickstart-1a2b latest --json | jq '.pairs[].fields'",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			before, err := side(ctx, api, args[0])
			if err != nil {
				return err
			}
			after, err := side(ctx, api, args[1])
			if err != nil {
				return err
			}
			if before.Results.Run == after.Results.Run {
				return fmt.Errorf("%q and %q are both %s; compare with another run (coalmine status lists all), or two of its cells: coalmine compare %[4]s/c01 %[4]s/c02",
					args[0], args[1], before.Results.Run, strings.SplitN(before.Results.Run, "/", 2)[0])
			}
			comparison, err := results.Compare(before, after)
			if err != nil {
				return err
			}
			return g.show(comparison, func() error { return comparison.WriteScreen(g.stdout, g.colorless()) })
		}),
	}
}

// side returns the results of a run, or of one of its cells or rows of replicates: RUN/CELL.
func side(ctx context.Context, api control.API, name string) (s results.Side, err error) {
	run, part, only := strings.Cut(name, "/")
	if s.Spec, err = api.Experiment(ctx, run); err != nil {
		return s, err
	}
	if s.Results, err = api.Results(ctx, run); err != nil || !only {
		return s, err
	}
	return s.Select(part)
}

// resultFormats lists the values of results --format.
func resultFormats() string {
	tracked := lists.Map(trackers.Formats(), func(f trackers.Format) string { return f.Name })
	return strings.Join(slices.Concat(results.FormatNames(), chart.Formats, tracked), ", ")
}

// track writes a run into the folder of an experiment tracker.
func (g *global) track(ctx context.Context, run string, f trackers.Format, dir string) error {
	if dir == "" {
		return fmt.Errorf("--format %s writes several files: name a folder with -o (it may contain other runs)", f.Name)
	}
	return g.withControl(ctx, func(api control.API) error {
		tracked, err := trackedRun(ctx, api, run)
		if err != nil {
			return err
		}
		written, err := f.Write(dir, tracked)
		if err != nil {
			return err
		}
		return g.report(written, "%s in %s below %s\nto view them: "+f.Reader+"\n", readable.Count(written.Cells, "cell"), readable.Count(written.Files, "file"), written.Folder, dir)
	})
}

// trackedRun reads the data of a run for trackers.
func trackedRun(ctx context.Context, api control.API, name string) (*trackers.Run, error) {
	status, err := api.Status(ctx, name)
	if err != nil {
		return nil, err
	}
	found, err := api.Results(ctx, status.Run)
	rounds, roundsErr := api.Rounds(ctx, status.Run)
	spec, specErr := api.Experiment(ctx, status.Run)
	if err := errors.Join(err, roundsErr, specErr); err != nil {
		return nil, err
	}
	return trackers.New(found, rounds, spec, status.Submitted)
}
