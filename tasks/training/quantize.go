package training

import (
	"context"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
)

// ModelInput is the checkpoint that Quantize reads.
const ModelInput = "model"

// QuantizeParams are the parameters of training/quantize.
type QuantizeParams struct {
	// Bits for each parameter, 2 to 8.
	Bits int `json:"bits"`
}

// Quantize rounds the weights of a trained model to few bits (models.Quantize; Carlini
// et al. 2019, section 9.1.3). It writes an ordinary checkpoint in float32, so that
// every audit can measure it.
var Quantize = tasks.Kind{Name: "training/quantize", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runQuantize)}

func runQuantize(ctx context.Context, t *tasks.Task, p *QuantizeParams) error {
	model, err := checkpoints.Read(ctx, t, ModelInput)
	if err != nil {
		return err
	}
	params := slices.Clone(model.Params)
	if err := models.Quantize(model.Network, params, p.Bits); err != nil {
		return tasks.Permanent(err)
	}
	return checkpoints.Write(ctx, t, model.Network, params)
}
