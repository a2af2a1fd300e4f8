package attacks

import (
	"context"
	"math"
	"slices"
)

// learner is a model that learns from batches.
type learner interface {
	// step learns from a batch.
	step(b Block)
	// loss is the sum of the losses of a batch, for validation.
	loss(b Block) float64
	// weights are what best keeps a copy of.
	weights() [][]float32
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
	var best [][]float32
	steps, stale, mark := 0, 0, math.Inf(1)
	for t.Epochs < d.epochs {
		made := 0
		err := d.epoch(ctx, data, t.Epochs+1, func(batch Block) {
			d.step(batch)
			made++
		})
		if err != nil {
			return t, err
		}
		t.Epochs++
		if steps += made; steps < stepsALook && t.Epochs < d.epochs {
			continue
		}
		steps = 0
		loss := d.validate(data.Validation())
		stale++
		if loss < mark-leastFall {
			stale, mark = 0, loss
		}
		if loss < t.Loss {
			t.Loss, t.Best, best = loss, t.Epochs, d.copy(best)
		}
		if t.Converged = stale >= patience; t.Converged {
			break
		}
	}
	for i, w := range d.weights() {
		if best != nil {
			copy(w, best[i])
		}
	}
	return t, nil
}

// validate is the mean loss of a block; +Inf where it is no number.
func (d descent) validate(b Block) float64 {
	sum := 0.0
	_ = d.batches(b, func(batch Block) error { sum += d.loss(batch); return nil })
	if mean := sum / float64(len(b.Labels)); mean == mean {
		return mean
	}
	return math.Inf(1)
}

// copy keeps the weights in the memory of an earlier copy.
func (d descent) copy(before [][]float32) [][]float32 {
	for i, w := range d.weights() {
		if i == len(before) {
			before = append(before, slices.Clone(w))
			continue
		}
		copy(before[i], w)
	}
	return before
}
