package attacks

import "context"

// batching cuts what there is of data of a shape into batches of so many examples, the last of
// which may be smaller.
type batching struct {
	shape Shape
	batch int
}

// epoch goes through the data once.
func (c batching) epoch(ctx context.Context, data Data, epoch int, do func(batch Block)) error {
	return data.Blocks(ctx, epoch, func(b Block) error {
		if err := c.shape.check(b, data.Examples()); err != nil {
			return err
		}
		return c.batches(b, func(batch Block) error {
			do(batch)
			return ctx.Err()
		})
	})
}

// batches cuts a block.
func (c batching) batches(b Block, do func(Block) error) error {
	for from := 0; from < len(b.Labels); from += c.batch {
		if err := do(b.cut(from, min(from+c.batch, len(b.Labels)), c.shape.Inputs)); err != nil {
			return err
		}
	}
	return nil
}

// cut has the examples from one to before another.
func (b Block) cut(from, to, inputs int) Block {
	part := Block{Rows: b.Rows[from*inputs : to*inputs], Labels: b.Labels[from:to]}
	if b.At != nil {
		part.At = b.At[from:to]
	}
	return part
}

// score calls do with batches of rows.
func (c batching) score(ctx context.Context, rows []float32, do func(n int, batch []float32)) error {
	b := Block{Rows: rows, Labels: make([]int, len(rows)/c.shape.Inputs)}
	return c.batches(b, func(batch Block) error {
		do(len(batch.Labels), batch.Rows)
		return ctx.Err()
	})
}
