package attacks

import (
	"context"
	"math"
)

// learner is a model that learns from batches.
type learner interface {
	// step learns from a batch.
	step(b Block) error
	// loss is the mean loss of examples, for validation.
	loss(b Block) (float64, error)
	// params returns the parameters, which step changes.
	params() []float32
}

// Stopping rule: after an epoch and at least a number of steps, the validation loss is evaluated; a
// number of evaluations with a total fall below minFall ends the training. A loss near its
// minimum keeps falling, but ever more slowly.
const (
	stepsALook = 200
	patience   = 5
	minFall    = 0.001
)

// descent trains a learner in epochs until its loss on the validation part stops falling.
type descent struct {
	learner
	batching
	epochs int // maximum
}

func (d descent) train(ctx context.Context, data Data) (Training, error) {
	t := Training{Loss: math.Inf(1)}
	var best []float32
	steps, stale, mark := 0, 0, math.Inf(1)
	for t.Epochs < d.epochs {
		made := 0
		err := d.epoch(ctx, data, t.Epochs+1, func(batch Block) error {
			made++
			return d.step(batch)
		})
		if err != nil {
			return t, err
		}
		t.Epochs++
		if steps += made; steps < stepsALook && t.Epochs < d.epochs {
			continue
		}
		steps = 0
		loss, err := d.loss(data.Validation())
		if err != nil {
			return t, err
		}
		stale++
		if loss < mark-minFall {
			stale, mark = 0, loss
		}
		if loss < t.Loss {
			t.Loss, t.Best, best = loss, t.Epochs, append(best[:0], d.params()...)
		}
		if t.Converged = stale >= patience; t.Converged {
			break
		}
	}
	if best != nil {
		copy(d.params(), best)
	}
	return t, nil
}
