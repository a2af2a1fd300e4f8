package models

import "coalmine/internal/kernels"

// A convolution has no recurrence: every step's inputs are known before the first step. So a batch
// takes one matrix product forward and two backward, over rows that hold each input together with
// its predecessors.

func (c *cellTrace) convolve(batch *packed, w *layerWeights, x []float32) {
	rows, width := batch.rows(), c.cell.joined()
	c.reserveConvolution(rows)
	c.joinInputs(batch, x)
	kernels.GemmBias(false, false, rows, c.units, width, c.joined, width, w.inputAndRecurrent, c.units, w.bias, c.gates, c.units)
	for r := range rows {
		c.activate(row(c.gates, r, c.units), nil, nil, nil, nil, row(c.emitted, r, c.units))
	}
	if c.projected {
		kernels.Gemm(false, false, rows, c.out, c.units, 1, c.emitted, c.units, w.projection, c.out, 0, c.output, c.out)
	}
}

func (c *cellTrace) reserveConvolution(rows int) {
	c.gates = grow(c.gates, rows*c.units)
	c.emitted = c.gates
	c.gateGradient = grow(c.gateGradient, rows*c.units)
	c.joined = grow(c.joined, rows*c.cell.joined())
	c.joinedGradient = grow(c.joinedGradient, rows*c.cell.joined())
	if !c.projected {
		c.output = c.emitted
		return
	}
	c.output = grow(c.output, rows*c.out)
	c.emittedGradient = grow(c.emittedGradient, rows*c.units)
}

// joinInputs writes the previous inputs next to every row's x: the first inputs in the row of the
// previous step, or zeros.
func (c *cellTrace) joinInputs(batch *packed, x []float32) {
	for t := range batch.steps() {
		for i := range batch.active(t) {
			r := batch.start[t] + i
			joined := row(c.joined, r, c.cell.joined())
			copy(joined, row(x, r, c.in))
			if t == 0 {
				clear(joined[c.in:])
			} else {
				copy(joined[c.in:], row(c.joined, batch.start[t-1]+i, c.cell.joined()))
			}
		}
	}
}

// convolveBack is backward of a convolution.
func (c *cellTrace) convolveBack(batch *packed, w *layerWeights, outputGradient, dx []float32) {
	rows, width := batch.rows(), c.cell.joined()
	emitted := outputGradient
	if c.projected {
		emitted = c.emittedGradient
		kernels.Gemm(false, true, rows, c.units, c.out, 1, outputGradient, c.out, w.projection, c.out, 0, emitted, c.units)
	}
	for r := range rows {
		c.rowGradient(r, nil, row(emitted, r, c.units), nil)
	}
	kernels.Gemm(false, true, rows, width, c.units, 1, c.gateGradient, c.units, w.inputAndRecurrent, c.units, 0, c.joinedGradient, width)
	c.addInputGradients(batch, dx)
}

// addInputGradients sets dx to the sum of an input's gradients in the rows that hold it: its own
// row and, one position further back in each, the rows of later steps.
func (c *cellTrace) addInputGradients(batch *packed, dx []float32) {
	for t := range batch.steps() {
		for i := range batch.active(t) {
			sum := row(dx, batch.start[t]+i, c.in)
			copy(sum, row(c.joinedGradient, batch.start[t]+i, c.cell.joined()))
			for back := 1; back < c.kernel && t+back < batch.steps() && i < batch.active(t+back); back++ {
				later := row(c.joinedGradient, batch.start[t+back]+i, c.cell.joined())
				kernels.Add(sum, row(later, back, c.in))
			}
		}
	}
}

// rectify sets negative values to 0 and keeps NaN.
func rectify(x []float32) {
	for i, v := range x {
		if v < 0 {
			x[i] = 0
		}
	}
}

// rectifyBack sets dx to the gradient dy where the rectified output y is not 0, and to 0 otherwise.
func rectifyBack(y, dy, dx []float32) {
	for i, v := range y {
		dx[i] = 0
		if v != 0 {
			dx[i] = dy[i]
		}
	}
}
