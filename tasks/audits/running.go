package audits

import (
	"context"

	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// Finds returns the Run of a kind with the parameters P and one blob: an R, as JSON.
func Finds[P, R any](blob string, find func(context.Context, *tasks.Task, *P) (R, error)) func(context.Context, *tasks.Task) error {
	return tasks.WithParams(func(ctx context.Context, t *tasks.Task, p *P) error {
		found, err := find(ctx, t, p)
		if err != nil {
			return err
		}
		return t.PutJSON(ctx, blob, found)
	})
}

// Measuring returns the Run of a kind with the parameters P, whose metrics are an R.
func Measuring[P, R any](measure func(context.Context, *tasks.Task, *P) (R, error)) func(context.Context, *tasks.Task) error {
	return tasks.WithParams(func(ctx context.Context, t *tasks.Task, p *P) error {
		metrics, err := measure(ctx, t, p)
		if err != nil {
			return err
		}
		return t.SetMetrics(metrics)
	})
}

// Summary is what a node says of the canaries of one checkpoint: an Outcome, a CanaryOutcome for each
// canary, and the metrics that a curve keeps.
type Summary struct{ Outcome, Canaries, Metrics any }

// SumsUp returns the Run of a kind with the parameters P and the input PlacementsInput, which puts a
// Summary into OutcomeBlob, CanaryOutcomesBlob and its metrics.
func SumsUp[P any](sum func(context.Context, *tasks.Task, *P, []datasets.Placement) (Summary, error)) func(context.Context, *tasks.Task) error {
	return tasks.WithParams(func(ctx context.Context, t *tasks.Task, p *P) error {
		placed, err := datasets.ReadPlacements(ctx, t, PlacementsInput)
		if err != nil {
			return err
		}
		s, err := sum(ctx, t, p, placed)
		if err != nil {
			return err
		}
		return PutSummary(ctx, t, s.Outcome, s.Canaries, s.Metrics)
	})
}
