package selection

import (
	"context"
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// UnlikelyParams are the parameters of Unlikely. One of Above and Percentile is given.
type UnlikelyParams struct {
	// Above is the least surprise of a selected example, in nats per token.
	Above *float64 `json:"above,omitempty"`
	// Percentile, above 0 and below 100, sets the least surprise to a percentile of the surprises
	// of all examples.
	Percentile float64 `json:"percentile,omitempty"`
	// Ratio reports whether SecondInput is present.
	Ratio bool `json:"ratio,omitempty"`
	// AtLeast is the number of selected examples that a user needs to take part, at least 1.
	AtLeast int `json:"at_least"`
}

// Inputs of Unlikely: nodes with a population.LossesBlob of the population.
const (
	// LossesInput has the losses under the model that finds examples unlikely.
	LossesInput = "losses"
	// SecondInput has the losses under the model that finds them likelier.
	SecondInput = "second-losses"
)

// Unlikely selects the examples that a model of public data finds unlikely: those in the users'
// data and not in the public ones (Augenstein et al. 2020, section 2.1, task T6). The surprise of
// an example is its log-perplexity under the model, the mean loss of a token. With a second model
// it is the log-perplexity under the first minus that under the second: the logarithm of the
// likelihood ratio, per token, so that an example unlikely under every model is not selected.
//
// Inputs: LossesInput, SecondInput if Ratio is set, population.Input, population.ShardsInput.
// Blobs and metrics are as for Examples.
var Unlikely = tasks.Kind{Name: "selection/unlikely", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runUnlikely)}

func (p *UnlikelyParams) check() error {
	byPercentile := p.Percentile > 0 && p.Percentile < 100
	if byPercentile == (p.Above != nil) || !byPercentile && p.Percentile != 0 || p.AtLeast < 1 {
		return fmt.Errorf("unlikely examples above percentile %g, at least %d of a user; expected a percentile above 0 and below 100 or a number of nats, and at least 1", p.Percentile, p.AtLeast)
	}
	return nil
}

func runUnlikely(ctx context.Context, t *tasks.Task, p *UnlikelyParams) error {
	if err := p.check(); err != nil {
		return tasks.Permanent(err)
	}
	surprises, err := readSurprises(ctx, t, p.Ratio)
	if err != nil {
		return err
	}
	sorted := slices.Sorted(slices.Values(surprises))
	found := &Selection{Outcome: OfLowChance, AtLeast: p.AtLeast, Percentile: p.Percentile, Ratio: p.Ratio, Surprises: new(spread(sorted))}
	if p.Above != nil {
		found.Threshold = *p.Above
	} else {
		found.Threshold = Percentile(sorted, p.Percentile)
	}
	record := 0
	return selectExamples(ctx, t, found, func(population.Example) (bool, error) {
		if record >= len(surprises) {
			return false, fmt.Errorf("losses of %d records, fewer than the population has: %w", len(surprises), storage.ErrCorrupt)
		}
		record++
		return surprises[record-1] >= found.Threshold, nil
	})
}

// readSurprises returns the surprises of the records, in order.
func readSurprises(ctx context.Context, t *tasks.Task, ratio bool) ([]float64, error) {
	losses, err := population.ReadLosses(ctx, t, LossesInput)
	if err != nil || !ratio {
		return losses, err
	}
	second, err := population.ReadLosses(ctx, t, SecondInput)
	if err != nil {
		return nil, err
	}
	if len(second) != len(losses) {
		return nil, fmt.Errorf("losses of %d and %d records of one population: %w", len(losses), len(second), storage.ErrCorrupt)
	}
	for i := range losses {
		losses[i] -= second[i]
	}
	return losses, nil
}

// spread returns percentiles of ascending values, at least one: the 5th, 25th, 50th, 75th and 95th.
func spread(sorted []float64) (values [5]float64) {
	for i, p := range []float64{5, 25, 50, 75, 95} {
		values[i] = Percentile(sorted, p)
	}
	return values
}
