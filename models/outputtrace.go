package models

import (
	"coalmine/internal/kernels"
	"coalmine/internal/memory"
)

// outputTrace computes loss and gradient of the output layer in training, and
// owns the memory for it. It has a row for every target.
//
// It keeps e^(logit - reference) of all tokens, token by token: the transpose of rows of logits. So
// none of its three products, for the logits and for the gradients of h and of the weights, has to
// repack a large operand. The reference of a row is the logit of its target, so that the sum of the
// row's exps is 1/p(target), and, as the reference is known beforehand, one factor, scale/sum,
// turns the exps of the row into the gradient of its logits:
//
//	dlogits = scale/sum * exps - scale at the target
//
// The factor multiplies h, and finally dh, instead of the many exps; likewise for the targets'
// terms.
type outputTrace struct {
	vocabulary, width int
	block             int // maximum number of rows handled at a time

	columns, stride int            // of the exps: a block's rows, rounded up, and the distance in memory
	inputs          []float32      // [columns, width]: h, and zeros past a block's rows
	targets         []float32      // [rows]: the logits of the targets
	references      []float32      // [rows]
	shift           []float32      // [columns]: minus the references
	exps            []float32      // [vocabulary, stride]: e^(logit - reference)
	sums            []float64      // [columns]: of exps
	factors         []float32      // [columns]: scale/sum
	packed          kernels.Packed // h, packed for one of the products
	turned          []float32      // the transpose of dh before the factors: [width, columns]
}

// logitMemory limits the logits that training keeps at a time, in elements.
const logitMemory = 1 << 22

// rowBlock returns the largest number of rows that the output layer handles at a time in training:
// as many as a product sums up at once, within logitMemory. It affects the order of arithmetic.
func rowBlock(vocabulary int) int {
	return min(max(logitMemory/vocabulary/48, 1)*48, kernels.BlockDepth)
}

// loss returns the sum over rows of -log p(target), and sets the gradients of scale times the sum:
// g.outputBias, g.output, and dh [rows, width], the gradient of the outputs h.
func (o *outputTrace) loss(w, g *weights, h []float32, targets []int32, scale float32, dh []float32) float64 {
	clear(g.outputBias)
	var sum float64
	blocks := (len(targets) + o.block - 1) / o.block
	for i := range blocks {
		from, to := i*len(targets)/blocks, (i+1)*len(targets)/blocks
		h, dh, targets := h[from*o.width:to*o.width], dh[from*o.width:to*o.width], targets[from:to]
		sum += o.forward(w, h, targets, largestSum)
		o.backward(w, g, h, targets, scale, dh, i == 0)
	}
	return sum
}

// forward returns the loss of a row block. It stores the block's exponentials, their sums, at most
// about largest, and their product with the weights.
func (o *outputTrace) forward(w *weights, h []float32, targets []int32, largest float64) float64 {
	o.prepare(w, h, targets)
	o.exponentiate(w)
	if !o.bounded(len(targets), largest) {
		o.raiseReferences(w, len(targets))
		o.exponentiate(w)
	}
	var loss float64
	for i, logit := range o.targets {
		loss += max(kernels.LogFloat64(o.sums[i])+float64(o.references[i])-float64(logit), 0)
	}
	return loss
}

// prepare lays out a row block. Padding rows are zero.
func (o *outputTrace) prepare(w *weights, h []float32, targets []int32) {
	rows := len(targets)
	o.columns = roundUp(rows, kernels.ColumnUnit)
	o.stride = oddLines(o.columns)
	o.inputs = grow(o.inputs, o.columns*o.width)
	clear(o.inputs[copy(o.inputs, h):])
	o.targets, o.references = grow(o.targets, rows), grow(o.references, rows)
	for i, target := range targets {
		product := kernels.Dot(row(h, i, o.width), row(w.output, int(target), o.width))
		o.targets[i] = float32(product) + w.outputBias[target]
		o.references[i] = o.targets[i]
	}
	kernels.PackB(true, o.width, o.columns, o.inputs, o.width, &o.packed)
}

// exponentiate sets exps, sums and turned, tile by tile of tokens.
func (o *outputTrace) exponentiate(w *weights) {
	o.reserve(o.vocabulary * o.stride)
	o.turned = grow(o.turned, o.width*o.columns)
	o.sums, o.shift = grow(o.sums, o.columns), grow(o.shift, o.columns)
	clear(o.sums)
	clear(o.shift)
	for i, reference := range o.references {
		o.shift[i] = -reference
	}
	for k := range tileCount(o.vocabulary) {
		from, to := tileBounds(o.vocabulary, k)
		n, weights, exps := to-from, w.output[from*o.width:to*o.width], o.exps[from*o.stride:to*o.stride]
		kernels.GemmPackedBias(false, n, weights, o.width, &o.packed, o.shift, exps, o.stride)
		kernels.ExpColumns(exps, o.stride, n, o.columns, w.outputBias[from:to], o.sums)
		kernels.Gemm(true, false, o.width, o.columns, n, 1, weights, o.width, exps, o.stride, unless(k == 0), o.turned, o.columns)
	}
}

// reserve makes room for n exps, in large pages: they are most of the memory that
// a training step passes through.
func (o *outputTrace) reserve(n int) {
	if cap(o.exps) < n {
		o.exps = memory.Floats(n)
	}
	o.exps = o.exps[:n]
}

// largestSum keeps the factors, and their products with the exps, well inside the range of float32.
const largestSum = 1e26

// largestSquaredSum also keeps the squares of the sums inside that range.
const largestSquaredSum = 1e15

// bounded reports whether every reference is high enough: no row has a token
// that is more probable than the target by largest or more.
func (o *outputTrace) bounded(rows int, largest float64) bool {
	for _, sum := range o.sums[:rows] {
		if !(sum <= largest) {
			return false
		}
	}
	return true
}

// raiseReferences sets each row's reference to its largest logit.
func (o *outputTrace) raiseReferences(w *weights, rows int) {
	for k := range tileCount(o.vocabulary) {
		from, to := tileBounds(o.vocabulary, k)
		n := to - from
		o.reserve(rows * n)
		kernels.GemmBias(false, true, rows, n, o.width, o.inputs, o.width, w.output[from*o.width:], o.width, w.outputBias[from:to], o.exps, n)
		for i := range o.references {
			o.references[i] = max(o.references[i], kernels.Max(row(o.exps, i, n)))
		}
	}
}

// backward computes the gradients of the layer from the results of forward.
func (o *outputTrace) backward(w, g *weights, h []float32, targets []int32, scale float32, dh []float32, first bool) {
	o.scaleInputs(len(targets), scale)
	for k := range tileCount(o.vocabulary) {
		from, to := tileBounds(o.vocabulary, k)
		exps := o.exps[from*o.stride : to*o.stride]
		kernels.GemmPacked(false, to-from, 1, exps, o.stride, &o.packed, unless(first), g.output[from*o.width:], o.width)
		kernels.AddRowDots(g.outputBias[from:to], exps, o.stride, to-from, o.columns, o.factors)
	}
	kernels.Transpose(dh, o.width, o.turned, o.columns, o.width, len(targets))
	for i, target := range targets {
		dh, token := row(dh, i, o.width), int(target)
		kernels.Scale(o.factors[i], dh)
		kernels.Axpy(-scale, row(w.output, token, o.width), dh)
		kernels.Axpy(-scale, row(h, i, o.width), row(g.output, token, o.width))
		g.outputBias[token] -= scale
	}
}

func (o *outputTrace) scaleInputs(rows int, scale float32) {
	o.factors = grow(o.factors, o.columns)
	clear(o.factors[rows:])
	for i, sum := range o.sums[:rows] {
		o.factors[i] = float32(float64(scale) / sum)
		kernels.Scale(o.factors[i], row(o.inputs, i, o.width))
	}
	kernels.PackB(false, rows, o.width, o.inputs, o.width, &o.packed)
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// oddLines returns a stride of at least n elements that is an odd number of
// cache lines, so that consecutive rows lie in different sets of the cache.
func oddLines(n int) int {
	const line = 64 / 4
	return ((n+line-1)/line | 1) * line
}
