package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"coalmine/internal/chart"
	"coalmine/internal/readable"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
	"coalmine/workflows/results/trackers"
)

// resultFormats lists the values of results --format.
func resultFormats() string {
	names := append(results.FormatNames(), chart.Formats...)
	for _, f := range trackers.Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// track writes a run into the folder of an experiment tracker.
func (g *global) track(ctx context.Context, run string, f trackers.Format, dir string) error {
	if dir == "" {
		return fmt.Errorf("--format %s writes many files: name the folder for them by -o; it may hold other runs", f.Name)
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
		if g.json {
			return g.printJSON(written)
		}
		g.printf("%s in %s below %s\nlook at them with: "+f.Reader+"\n", readable.Count(written.Cells, "cell"), readable.Count(written.Files, "file"), written.Folder, dir)
		return nil
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
