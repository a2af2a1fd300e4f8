package models

import "coalmine/internal/kernels"

// gatesPerUnit is the number of gate values of a CIFG cell: input gate,
// candidate, output gate. The forget gate is one minus the input gate.
const gatesPerUnit = 3

// cell is a CIFG-LSTM layer with projection. With x the token vector, h the
// output and c the memory of a sentence:
//
//	i, z, o = sigmoid, tanh, sigmoid (x W + h' U + b)
//	c = c' + i (z - c')
//	h = (o tanh c) P
//
// where ' marks the step before, zero at the start of a sentence.
type cell struct{ width, units int }

func (m *Language) cell() cell { return cell{m.config.Embedding, m.config.Units} }

func (c cell) gates() int { return gatesPerUnit * c.units }

// cellTrace runs a cell over the packed rows of a batch, forward and then back
// through time, and owns the memory for it.
type cellTrace struct {
	cell

	gates   []float32 // [rows, 3*units], activated
	memory  []float32 // [active(0)+rows, units]: zeros for step 0 to start from, then c
	squash  []float32 // [rows, units]: tanh c
	emitted []float32 // [rows, units]: o tanh c
	output  []float32 // [rows, width]: h

	gateGradient    []float32 // [rows, 3*units], before the activation
	memoryGradient  []float32 // [active(0), units]
	emittedGradient []float32 // [active(0), units]
	previous        []float32 // [rows-active(0), width]: h' of the rows past step 0

	recurrent, recurrentBack   kernels.Packed // U, and its transpose
	projection, projectionBack kernels.Packed // P, and its transpose
}

func (c *cellTrace) reserve(batch *packed) {
	rows, first := batch.rows(), batch.active(0)
	c.gates = grow(c.gates, rows*c.cell.gates())
	c.memory = grow(c.memory, (first+rows)*c.units)
	c.squash = grow(c.squash, rows*c.units)
	c.emitted = grow(c.emitted, rows*c.units)
	c.output = grow(c.output, rows*c.width)
	c.gateGradient = grow(c.gateGradient, rows*c.cell.gates())
	c.memoryGradient = grow(c.memoryGradient, first*c.units)
	c.emittedGradient = grow(c.emittedGradient, first*c.units)
	c.previous = grow(c.previous, (rows-first)*c.width)
}

// forward computes c.output from the token vectors x [rows, width].
func (c *cellTrace) forward(batch *packed, w *weights, x []float32) {
	c.reserve(batch)
	gates := c.cell.gates()
	kernels.PackB(false, c.width, gates, w.recurrent, gates, &c.recurrent)
	kernels.PackB(false, c.units, c.width, w.projection, c.width, &c.projection)
	fillRows(c.gates, w.bias)
	kernels.Gemm(false, false, batch.rows(), gates, c.width, 1, x, c.width, w.input, gates, 1, c.gates, gates)
	clear(c.memory[:batch.active(0)*c.units])
	for t := range batch.steps() {
		c.forwardStep(batch, t)
	}
}

func (c *cellTrace) forwardStep(batch *packed, t int) {
	start, end := batch.start[t], batch.start[t+1]
	n, gates := end-start, c.cell.gates()
	active := c.gates[start*gates : end*gates]
	if t > 0 {
		previous := c.output[batch.start[t-1]*c.width:]
		kernels.GemmPacked(false, n, 1, previous, c.width, &c.recurrent, 1, active, gates)
	}
	before, after := c.memoryBefore(batch, t), c.memoryAfter(batch, t)
	for i := range n {
		kernels.CIFGForward(row(active, i, gates), row(before, i, c.units), row(after, i, c.units),
			row(c.squash, start+i, c.units), row(c.emitted, start+i, c.units))
	}
	kernels.GemmPacked(false, n, 1, c.emitted[start*c.units:], c.units, &c.projection, 0, c.output[start*c.width:], c.width)
}

// memoryBefore is c' of the rows of step t: the first rows of the step before.
func (c *cellTrace) memoryBefore(batch *packed, t int) []float32 {
	at := 0
	if t > 0 {
		at = batch.active(0) + batch.start[t-1]
	}
	return c.memory[at*c.units : (at+batch.active(t))*c.units]
}

func (c *cellTrace) memoryAfter(batch *packed, t int) []float32 {
	at := batch.active(0) + batch.start[t]
	return c.memory[at*c.units : (at+batch.active(t))*c.units]
}

// backward takes the gradient of the outputs [rows, width], to which it adds
// what flows back through the recurrence, sets the cell's tensors of g, and
// sets the gradient of the token vectors, dx [rows, width].
func (c *cellTrace) backward(batch *packed, w, g *weights, x, outputGradient, dx []float32) {
	gates := c.cell.gates()
	kernels.PackB(true, gates, c.width, w.recurrent, gates, &c.recurrentBack)
	kernels.PackB(true, c.width, c.units, w.projection, c.width, &c.projectionBack)
	clear(c.memoryGradient)
	for t := batch.steps() - 1; t >= 0; t-- {
		c.backwardStep(batch, t, outputGradient)
	}
	c.weightGradients(batch, g, x, outputGradient)
	kernels.Gemm(false, true, batch.rows(), c.width, gates, 1, c.gateGradient, gates, w.input, gates, 0, dx, c.width)
}

func (c *cellTrace) backwardStep(batch *packed, t int, outputGradient []float32) {
	start, end := batch.start[t], batch.start[t+1]
	n, gates := end-start, c.cell.gates()
	dh := outputGradient[start*c.width : end*c.width]
	if t+1 < batch.steps() {
		kernels.GemmPacked(false, batch.active(t+1), 1, c.gateGradient[end*gates:], gates, &c.recurrentBack, 1, dh, c.width)
	}
	emitted := c.emittedGradient[:n*c.units]
	kernels.GemmPacked(false, n, 1, dh, c.width, &c.projectionBack, 0, emitted, c.units)
	before := c.memoryBefore(batch, t)
	for i := range n {
		kernels.CIFGBackward(row(c.gates, start+i, gates), row(before, i, c.units), row(c.squash, start+i, c.units),
			row(emitted, i, c.units), row(c.memoryGradient, i, c.units), row(c.gateGradient, start+i, gates))
	}
}

// weightGradients sums over all rows, in their order, in one product each.
func (c *cellTrace) weightGradients(batch *packed, g *weights, x, outputGradient []float32) {
	rows, first, gates := batch.rows(), batch.active(0), c.cell.gates()
	kernels.Gemm(true, false, c.width, gates, rows, 1, x, c.width, c.gateGradient, gates, 0, g.input, gates)
	kernels.Gemm(true, false, c.units, c.width, rows, 1, c.emitted, c.units, outputGradient, c.width, 0, g.projection, c.width)
	clear(g.bias)
	addRows(g.bias, c.gateGradient)
	if rows == first {
		clear(g.recurrent)
		return
	}
	c.alignPrevious(batch)
	kernels.Gemm(true, false, c.width, gates, rows-first, 1, c.previous, c.width, c.gateGradient[first*gates:], gates, 0, g.recurrent, gates)
}

// alignPrevious puts h' of every row past step 0 beside it: between steps the
// rows of the sentences that have ended fall out.
func (c *cellTrace) alignPrevious(batch *packed) {
	first := batch.active(0)
	for t := 1; t < batch.steps(); t++ {
		from := c.output[batch.start[t-1]*c.width:]
		copy(c.previous[(batch.start[t]-first)*c.width:(batch.start[t+1]-first)*c.width], from)
	}
}

// row is row i of a matrix with the given width.
func row(matrix []float32, i, width int) []float32 { return matrix[i*width : (i+1)*width] }

// fillRows sets every row of the matrix to row.
func fillRows(matrix, row []float32) {
	for at := 0; at < len(matrix); at += len(row) {
		copy(matrix[at:at+len(row)], row)
	}
}

// addRows adds the matrix's rows to sum, in order.
func addRows(sum, matrix []float32) {
	for at := 0; at < len(matrix); at += len(sum) {
		kernels.Add(sum, matrix[at:at+len(sum)])
	}
}

// gatherRows copies the chosen rows of table into matrix.
func gatherRows(matrix, table []float32, width int, chosen []int32) {
	for i, r := range chosen {
		copy(row(matrix, i, width), row(table, int(r), width))
	}
}
