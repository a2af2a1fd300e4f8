package aggregation

import (
	"context"
	"fmt"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
)

// Generator describes the server's training of a model's generator after each round, by gradient
// descent (Augenstein et al. 2020, algorithm 1, GenUpdate). It reads no data except through the
// discriminator, so it has the same guarantee by post-processing.
type Generator struct {
	// Steps is the number of steps after a round, Batch the number of images in a step.
	Steps int `json:"steps"`
	Batch int `json:"batch"`
	// LearningRate is the learning rate of a step.
	LearningRate float64 `json:"learning_rate"`
}

// train takes the steps of a round; a nil Generator takes none.
func (g *Generator) train(ctx context.Context, t *tasks.Task, seed uint64, network models.Network, params []float32) error {
	if g == nil {
		return nil
	}
	generating, ok := network.(models.Generating)
	if !ok || g.Steps < 0 || g.Batch < 1 {
		return tasks.Permanent(fmt.Errorf("%d generator steps of %d images for a model of kind %s; expected 0 or more, of at least 1, for a %s", g.Steps, g.Batch, network.Config().Kind, models.GAN))
	}
	own := params[network.Trained():]
	generator, gradient := generating.NewGenerator(params), make([]float32, len(own))
	rng := seeds.Stream(seed, seeds.Generator, uint64(t.Step))
	for step := range g.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := generator.Gradient(rng, g.Batch, gradient); err != nil {
			return tasks.Permanent(fmt.Errorf("round %d, step %d of the generator: %w", t.Step, step+1, err))
		}
		kernels.Axpy(float32(-g.LearningRate), gradient, own)
		if tracking, ok := generator.(models.Tracking); ok {
			tracking.Track(params)
		}
	}
	if _, err := models.FiniteNorm("generator", own); err != nil {
		return tasks.Permanent(fmt.Errorf("round %d: %w", t.Step, err))
	}
	return nil
}
