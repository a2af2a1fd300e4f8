package models

import "coalmine/internal/kernels"

// cell is the shape of a layer. x is its input, h its output, c the memory of a sentence, and '
// marks the previous step, zero at the start of a sentence:
//
//	cifg-lstm   i, z, o    = sigmoid, tanh, sigmoid (x W + h' U + b)
//	            c = c' + i (z - c');  e = o tanh c
//	lstm        i, f, z, o = sigmoid, sigmoid, tanh, sigmoid (x W + h' U + b)
//	            c = f c' + i z;       e = o tanh c
//	gru         r, u = sigmoid (x W + h' U + b);  z = tanh(x W + b + r (h' U + b_z))
//	            c = z + u (c' - z);   e = c
//	conv        e = max(0, x W + c' U + b);  c = x followed by all of c' but its oldest input
//
// and h = e P, or h = e without projection.
type cell struct {
	kind           *CellKind
	in, units, out int
	kernel         int // of a convolution: number of inputs of an output, including x
	projected      bool
	// Of a transformer; its units are the units of the feed-forward layers.
	blocks, heads, context int
	options                Blocks
}

// cellsOf returns the layers of a model of a known kind, lowest first.
func cellsOf(c Config) []cell {
	if c.Kind == Transformer {
		return []cell{{
			kind: &attention, in: c.Embedding, units: c.Units, out: c.Embedding,
			blocks: c.layers(), heads: c.Heads, context: c.context(), options: c.Blocks,
		}}
	}
	cells := make([]cell, c.layers())
	kind, _ := kinds.Find(c.Kind) // Validate has checked the kind
	for i := range cells {
		cells[i] = cell{kind: kind, in: c.outputWidth(), units: c.Units, out: c.outputWidth(), projected: c.Projection != Unprojected}
		if kind.convolves {
			cells[i].kernel = c.kernel()
		}
	}
	cells[0].in = c.Embedding
	return cells
}

// gates returns the number of gate values; for a transformer, the length of a query, a key and a value together.
func (c cell) gates() int {
	if c.kind.attends {
		return c.in + 2*c.keyWidth()
	}
	return c.kind.gatesPerUnit * c.units
}

// direct returns the number of gate columns to which the previous output adds
// directly: all except the candidate's, if a reset gate scales that part.
func (c cell) direct() int {
	if c.kind.resets {
		return c.gates() - c.units
	}
	return c.gates()
}

// recalled returns the width of the operand of the weights U, the values that a layer recalls from
// earlier steps: its previous output or, for a convolution, its last inputs.
func (c cell) recalled() int {
	if c.kind.convolves {
		return (c.kernel - 1) * c.in
	}
	return c.out
}

// joined returns the width of an input together with the recalled values.
func (c cell) joined() int { return c.in + c.recalled() }

// memory returns the width of the memory. For a convolution it holds the recalled values.
func (c cell) memory() int {
	switch {
	case c.kind.convolves:
		return c.recalled()
	case c.kind.attends:
		return 0 // a transformer's states have positions instead
	}
	return c.units
}

// products is the number of multiply-adds in the matrix products of one step.
func (c cell) products() int {
	if c.kind.attends {
		return c.blocks * c.in * (c.gates() + c.in + c.fedWidth() + c.units)
	}
	n := c.joined() * c.gates()
	if c.projected {
		n += c.units * c.out
	}
	return n
}

// activate computes one row's memory and emission from its gates, which hold pre-activations and
// receive activations. With a reset gate, candidate is the recurrent part of the candidate. squash
// receives tanh c if the kind keeps it. memory may be previous; emitted may be memory if the kind
// emits it.
func (c cell) activate(gates, candidate, previous, memory, squash, emitted []float32) {
	c.kind.forward(gates, candidate, previous, memory, squash, emitted)
}

// remember sets a convolution's memory to x, followed by the previous memory without its oldest
// input. For other cells it does nothing, because activate has set the memory. memory may be
// previous.
func (c cell) remember(x, previous, memory []float32) {
	if !c.kind.convolves {
		return
	}
	copy(memory[c.in:], previous)
	copy(memory, x[:c.in])
}

func row(matrix []float32, i, width int) []float32 { return matrix[i*width : (i+1)*width] }

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

func gatherRows[I int | int32](matrix, table []float32, width int, chosen []I) {
	for i, r := range chosen {
		copy(row(matrix, i, width), row(table, int(r), width))
	}
}
