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

// batching divides data of a shape into batches of equal size; the last may be smaller.
type batching struct {
	shape Shape
	batch int
}

func (c batching) epoch(ctx context.Context, data Data, epoch int, do func(batch Block) error) error {
	return data.Blocks(ctx, epoch, func(b Block) error {
		if err := c.shape.check(b, data.Examples()); err != nil {
			return err
		}
		return c.batches(ctx, b, do)
	})
}

func (c batching) batches(ctx context.Context, b Block, do func(Block) error) error {
	for from := 0; from < len(b.Labels); from += c.batch {
		if err := do(b.cut(from, min(from+c.batch, len(b.Labels)), c.shape.Inputs)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// row returns the vector of an example.
func (b Block) row(s Shape) func(i int) []float32 {
	return func(i int) []float32 { return b.Rows[i*s.Inputs : (i+1)*s.Inputs] }
}

func (b Block) cut(from, to, inputs int) Block {
	part := Block{Rows: b.Rows[from*inputs : to*inputs], Labels: b.Labels[from:to]}
	if b.At != nil {
		part.At = b.At[from:to]
	}
	return part
}

func (c batching) score(ctx context.Context, rows []float32, do func(batch Block) error) error {
	return c.batches(ctx, Block{Rows: rows, Labels: make([]int, len(rows)/c.shape.Inputs)}, do)
}
