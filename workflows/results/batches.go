package results

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// readBatches returns the effect of short batches on the learning rate of a cell's clients; nil if
// there is none, or if storage no longer has the population.
func readBatches(ctx context.Context, archive *storage.Archive, e *experiment.Experiment, planned *plan.Cell) (*training.Batches, error) {
	if !e.TrainsClients() || planned.Chain == nil {
		return nil, nil
	}
	inputs := planned.Chain.Part.Inputs
	at := slices.IndexFunc(inputs, func(in tasks.Input) bool { return in.Name == training.PopulationInput })
	if at < 0 {
		return nil, nil
	}
	data, err := archive.ReadOutput(ctx, inputs[at].Key, datasets.PopulationIndexBlob)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	index, err := datasets.DecodeIndex(data)
	if err != nil {
		return nil, fmt.Errorf("population %s: %w", inputs[at].Key.Short(), err)
	}
	return e.Batches(index.Sizes()), nil
}
