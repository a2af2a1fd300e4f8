package models

import "coalmine/internal/kernels"

// cellTrace runs a layer over the packed rows of a batch, forward and then back
// through time, and owns the memory for it. A convolution uses a part of it.
type cellTrace struct {
	cell

	gates     []float32 // [rows, gates], activated
	candidate []float32 // with a reset gate: [rows, units], the candidate's recurrent part
	memory    []float32 // [active(0)+rows, units]: the first states, then c
	squash    []float32 // [rows, units]: tanh c, unless memory is emitted
	emitted   []float32 // [rows, units]: e; part of memory if memory is emitted
	output    []float32 // [rows, out]: h; without projection it is emitted

	gateGradient      []float32 // [rows, gates], before the activation
	candidateGradient []float32 // with a reset gate: [rows, units]
	memoryGradient    []float32 // [active(0), units]
	emittedGradient   []float32 // [active(0), units], of a convolution [rows, units], if projected
	joined            []float32 // [rows, joined()]: x and h'; of a convolution x and c'
	joinedGradient    []float32 // of a convolution: [rows, joined()]

	recurrent  recurrentWeights // U; in backward its transpose
	projection kernels.Packed   // P; in backward its transpose

	// The first states, and the gradient of the last states; nil for zeros. A
	// convolution has neither.
	start, endGradient *stateTrace
}

// stateTrace is the state of a layer for each sentence of a batch, or its gradient.
type stateTrace struct {
	memory []float32 // [active(0), units]
	output []float32 // [active(0), out]
}

// recurrentWeights are the weights U, in two parts if a reset gate scales one.
type recurrentWeights struct {
	direct    kernels.Packed
	candidate kernels.Packed
}

func (r *recurrentWeights) pack(c cell, w *layerWeights) {
	kernels.PackB(false, c.recalled(), c.direct(), w.recurrent, c.gates(), &r.direct)
	if c.kind.resets {
		kernels.PackB(false, c.out, c.units, w.recurrent[c.direct():], c.gates(), &r.candidate)
	}
}

func (r *recurrentWeights) packTransposed(c cell, w *layerWeights) {
	kernels.PackB(true, c.direct(), c.out, w.recurrent, c.gates(), &r.direct)
	if c.kind.resets {
		kernels.PackB(true, c.units, c.out, w.recurrent[c.direct():], c.gates(), &r.candidate)
	}
}

// add adds the product of the recalled values to beta times n rows of gates and, if a
// reset gate scales it, to candidate.
func (r *recurrentWeights) add(c cell, n int, recalled []float32, beta float32, gates, candidate []float32) {
	kernels.GemmPacked(false, n, 1, recalled, c.recalled(), &r.direct, beta, gates, c.gates())
	if c.kind.resets {
		kernels.GemmPacked(false, n, 1, recalled, c.recalled(), &r.candidate, 1, candidate, c.units)
	}
}

func (c *cellTrace) reserve(batch *packed) {
	rows, first := batch.rows(), batch.active(0)
	c.gates = grow(c.gates, rows*c.cell.gates())
	c.memory = grow(c.memory, (first+rows)*c.units)
	c.gateGradient = grow(c.gateGradient, rows*c.cell.gates())
	c.memoryGradient = grow(c.memoryGradient, first*c.units)
	c.joined = grow(c.joined, rows*c.cell.joined())
	if c.kind.resets {
		c.candidate = grow(c.candidate, rows*c.units)
		c.candidateGradient = grow(c.candidateGradient, rows*c.units)
	}
	if c.kind.emitsMemory {
		c.emitted = c.memory[first*c.units:]
	} else {
		c.squash = grow(c.squash, rows*c.units)
		c.emitted = grow(c.emitted, rows*c.units)
	}
	if c.projected {
		c.output = grow(c.output, rows*c.out)
		c.emittedGradient = grow(c.emittedGradient, first*c.units)
	} else {
		c.output = c.emitted
	}
}

// forward computes c.output from the inputs x [rows, in].
func (c *cellTrace) forward(batch *packed, w *layerWeights, x []float32) {
	if c.kind.convolves {
		c.convolve(batch, w, x)
		return
	}
	c.reserve(batch)
	gates := c.cell.gates()
	c.recurrent.pack(c.cell, w)
	if c.projected {
		kernels.PackB(false, c.units, c.out, w.projection, c.out, &c.projection)
	}
	kernels.GemmBias(false, false, batch.rows(), gates, c.in, x, c.in, w.input, gates, w.bias, c.gates, gates)
	if c.kind.resets {
		fillRows(c.candidate, w.candidateBias)
	}
	clear(c.memory[:batch.active(0)*c.units])
	if c.start != nil {
		copy(c.memory, c.start.memory)
	}
	for t := range batch.steps() {
		c.forwardStep(batch, t)
	}
}

func (c *cellTrace) forwardStep(batch *packed, t int) {
	start, end := batch.start[t], batch.start[t+1]
	n, gates := end-start, c.cell.gates()
	active := c.gates[start*gates : end*gates]
	if previous := c.outputBefore(batch, t); previous != nil {
		c.recurrent.add(c.cell, n, previous, 1, active, c.candidateFrom(start))
	}
	before, after := c.memoryBefore(batch, t), c.memoryAfter(batch, t)
	for i := range n {
		c.activate(row(active, i, gates), c.candidateRow(start+i), row(before, i, c.units), row(after, i, c.units),
			c.squashRow(start+i), row(c.emitted, start+i, c.units))
	}
	if c.projected {
		kernels.GemmPacked(false, n, 1, c.emitted[start*c.units:], c.units, &c.projection, 0, c.output[start*c.out:], c.out)
	}
}

// Fields that only some kinds use are nil for other kinds.

func (c *cellTrace) candidateFrom(r int) []float32 {
	if !c.kind.resets {
		return nil
	}
	return c.candidate[r*c.units:]
}

func (c *cellTrace) candidateRow(r int) []float32 {
	if !c.kind.resets {
		return nil
	}
	return row(c.candidate, r, c.units)
}

func (c *cellTrace) candidateGradientRow(r int) []float32 {
	if !c.kind.resets {
		return nil
	}
	return row(c.candidateGradient, r, c.units)
}

func (c *cellTrace) squashRow(r int) []float32 {
	if c.kind.emitsMemory || c.kind.convolves {
		return nil
	}
	return row(c.squash, r, c.units)
}

// memoryBefore returns c' of the rows of step t: the first rows of the previous step.
func (c *cellTrace) memoryBefore(batch *packed, t int) []float32 {
	at := 0
	if t > 0 {
		at = batch.active(0) + batch.start[t-1]
	}
	return c.memory[at*c.units : (at+batch.active(t))*c.units]
}

// outputBefore returns h' of the rows of step t, and the rows after them; nil for zeros.
func (c *cellTrace) outputBefore(batch *packed, t int) []float32 {
	switch {
	case t > 0:
		return c.output[batch.start[t-1]*c.out:]
	case c.start != nil:
		return c.start.output
	}
	return nil
}

func (c *cellTrace) memoryAfter(batch *packed, t int) []float32 {
	at := batch.active(0) + batch.start[t]
	return c.memory[at*c.units : (at+batch.active(t))*c.units]
}

// backward takes the gradient of the outputs [rows, out], adds the gradient through the recurrence
// to it, and sets the gradients of the gates and of the inputs, dx [rows, in]. weightGradients uses
// the results. startGradient returns the gradient of the first states, if any.
func (c *cellTrace) backward(batch *packed, w *layerWeights, x, outputGradient, dx []float32) {
	if c.kind.convolves {
		c.convolveBack(batch, w, outputGradient, dx)
		return
	}
	gates := c.cell.gates()
	c.recurrent.packTransposed(c.cell, w)
	if c.projected {
		kernels.PackB(true, c.out, c.units, w.projection, c.out, &c.projection)
	}
	clear(c.memoryGradient)
	if c.endGradient != nil {
		copy(c.memoryGradient, c.endGradient.memory)
		c.addEndGradient(batch, outputGradient)
	}
	for t := batch.steps() - 1; t >= 0; t-- {
		c.backwardStep(batch, t, outputGradient)
	}
	c.join(batch, x)
	kernels.Gemm(false, true, batch.rows(), c.in, gates, 1, c.gateGradient, gates, w.input, gates, 0, dx, c.in)
}

func (c *cellTrace) backwardStep(batch *packed, t int, outputGradient []float32) {
	start, end := batch.start[t], batch.start[t+1]
	dh := outputGradient[start*c.out : end*c.out]
	if t+1 < batch.steps() {
		c.addRecurrentGradient(batch.active(t+1), end, dh)
	}
	emitted := dh
	if c.projected {
		emitted = c.emittedGradient[:(end-start)*c.units]
		kernels.GemmPacked(false, end-start, 1, dh, c.out, &c.projection, 0, emitted, c.units)
	}
	before := c.memoryBefore(batch, t)
	for i := range end - start {
		c.rowGradient(start+i, row(before, i, c.units), row(emitted, i, c.units), row(c.memoryGradient, i, c.units))
	}
}

// addEndGradient adds the gradient of the last output of each sentence.
func (c *cellTrace) addEndGradient(batch *packed, outputGradient []float32) {
	for turn := range batch.active(0) {
		kernels.Add(row(outputGradient, batch.last(turn), c.out), row(c.endGradient.output, turn, c.out))
	}
}

// startGradient sets g to the gradient of the first states, after backward.
func (c *cellTrace) startGradient(batch *packed, g *stateTrace) {
	n := batch.active(0)
	g.memory = append(g.memory[:0], c.memoryGradient[:n*c.units]...)
	g.output = grow(g.output, n*c.out)
	clear(g.output)
	c.addRecurrentGradient(n, 0, g.output)
}

// end sets s to the states after the last token of each sentence, after forward.
func (c *cellTrace) end(batch *packed, s *stateTrace) {
	n := batch.active(0)
	s.resize(c.cell, n)
	for turn := range n {
		last := batch.last(turn)
		copy(row(s.memory, turn, c.units), row(c.memory, n+last, c.units))
		copy(row(s.output, turn, c.out), row(c.output, last, c.out))
	}
}

// addRecurrentGradient adds to dh the gradient from the n rows of the next
// step, which begin at row next.
func (c *cellTrace) addRecurrentGradient(n, next int, dh []float32) {
	gates := c.cell.gates()
	kernels.GemmPacked(false, n, 1, c.gateGradient[next*gates:], gates, &c.recurrent.direct, 1, dh, c.out)
	if c.kind.resets {
		kernels.GemmPacked(false, n, 1, c.candidateGradient[next*c.units:], c.units, &c.recurrent.candidate, 1, dh, c.out)
	}
}

// rowGradient propagates the gradient of row r's emission to its gates, and the gradient of its
// memory to the previous memory.
func (c *cellTrace) rowGradient(r int, previous, emitted, memory []float32) {
	gates, gradient := row(c.gates, r, c.cell.gates()), row(c.gateGradient, r, c.cell.gates())
	c.kind.backward(gates, c.candidateRow(r), previous, c.squashRow(r), emitted, memory, gradient, c.candidateGradientRow(r))
}

// weightGradients sets the layer's tensors of g: sums over all rows, in their
// order, in one product each.
func (c *cellTrace) weightGradients(rows int, g *layerWeights, outputGradient []float32) {
	if c.kind.resets {
		c.resetGradients(rows, g)
	} else {
		c.gatesGradient(rows, c.cell.joined(), c.cell.gates(), c.joined, g.inputAndRecurrent)
	}
	if c.projected {
		kernels.Gemm(true, false, c.units, c.out, rows, 1, c.emitted, c.units, outputGradient, c.out, 0, g.projection, c.out)
	}
	clear(g.bias)
	addRows(g.bias, c.gateGradient)
}

// resetGradients sets the gradients of the part that the reset gate scales.
func (c *cellTrace) resetGradients(rows int, g *layerWeights) {
	previous := c.joined[c.in:]
	c.gatesGradient(rows, c.in, c.cell.gates(), c.joined, g.input)
	c.gatesGradient(rows, c.out, c.direct(), previous, g.recurrent)
	kernels.Gemm(true, false, c.out, c.units, rows, 1, previous, c.cell.joined(), c.candidateGradient, c.units, 0, g.recurrent[c.direct():], c.cell.gates())
	clear(g.candidateBias)
	addRows(g.candidateBias, c.candidateGradient)
}

// gatesGradient sets the leading columns of the gradient of the weights that
// multiply columns of joined.
func (c *cellTrace) gatesGradient(rows, width, columns int, joined, g []float32) {
	gates := c.cell.gates()
	kernels.Gemm(true, false, width, columns, rows, 1, joined, c.cell.joined(), c.gateGradient, gates, 0, g, gates)
}

// join writes h' of every row next to its x, so that the gradients of W and U, which are adjacent,
// are one product. Finished sentences drop out between steps.
func (c *cellTrace) join(batch *packed, x []float32) {
	for r := range batch.rows() {
		copy(row(c.joined, r, c.cell.joined()), row(x, r, c.in))
	}
	for r := range batch.active(0) {
		if clear(c.joinedOutput(r)); c.start != nil {
			copy(c.joinedOutput(r), row(c.start.output, r, c.out))
		}
	}
	for t := 1; t < batch.steps(); t++ {
		for i := range batch.active(t) {
			copy(c.joinedOutput(batch.start[t]+i), row(c.output, batch.start[t-1]+i, c.out))
		}
	}
}

// joinedOutput returns h' of row r.
func (c *cellTrace) joinedOutput(r int) []float32 { return row(c.joined, r, c.cell.joined())[c.in:] }
