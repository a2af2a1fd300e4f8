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
	// params are those that it reads.
	params() []float32
}

// What decides that a training is over: the loss of the validation part is looked at after an
// epoch and at least so many steps, and so many looks without a fall by leastFall in all end
// it: a loss that has nothing left to tell apart falls for ever, but ever slower.
const (
	stepsALook = 200
	patience   = 5
	leastFall  = 0.001
)

// descent trains a learner in epochs until its loss on the validation part falls no more.
type descent struct {
	learner
	batching
	epochs int // at most
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
		if loss < mark-leastFall {
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
