package attacks

import "context"

// batching divides data of a shape into batches of equal size; the last may be smaller.
type batching struct {
	shape Shape
	batch int
}

// epoch calls do with each batch of an epoch.
func (c batching) epoch(ctx context.Context, data Data, epoch int, do func(batch Block) error) error {
	return data.Blocks(ctx, epoch, func(b Block) error {
		if err := c.shape.check(b, data.Examples()); err != nil {
			return err
		}
		return c.batches(ctx, b, do)
	})
}

// batches divides a block into batches.
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

// score calls do with batches of rows.
func (c batching) score(ctx context.Context, rows []float32, do func(batch Block) error) error {
	return c.batches(ctx, Block{Rows: rows, Labels: make([]int, len(rows)/c.shape.Inputs)}, do)
}
