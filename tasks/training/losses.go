package training

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// Losses scores every record of a population: the mean loss over its targets, including the end, in
// nats per token.
//
// Inputs: ModelInput, PopulationInput, ShardsInput. It has no parameters. Blobs:
//
//	losses   datasets.LossesBlob
var Losses = tasks.Kind{Name: "training/losses", Version: 1, Class: tasks.Compute, Run: runLosses}

// lossesBlock is the number of sentences decoded at a time. It does not affect any result.
const lossesBlock = 4096

func runLosses(ctx context.Context, t *tasks.Task) error {
	scorer, err := checkpoints.ReadScorer(ctx, t, ModelInput)
	if err != nil {
		return err
	}
	population, err := datasets.OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	if err != nil {
		return err
	}
	n := population.Records()
	losses := make([]float64, 0, n)
	for from := 0; from < n; from += lossesBlock {
		sentences, err := population.ReadRecords(ctx, from, min(from+lossesBlock, n))
		if err != nil {
			return err
		}
		block, err := scorer.MeanLosses(sentences)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("records from %d on: %w", from, err))
		}
		losses = append(losses, block...)
		t.Progress(tasks.Progress{Done: int64(len(losses)), Total: int64(n)})
	}
	return t.Put(ctx, datasets.LossesBlob, datasets.EncodeLosses(losses))
}
