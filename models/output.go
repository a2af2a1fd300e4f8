package models

import (
	"iter"

	"coalmine/internal/kernels"
)

// The output layer predicts the next token from h: its logits are
// h E^T + output.bias, with E the output weights (the embedding, if tied), and
// its loss is the cross-entropy of their softmax over the whole vocabulary.
//
// It works through the vocabulary in tiles that stay in the cache. A tile's
// logits are reduced at once to their peak (maximum) and to the sum of
// exp(logit - peak); these two numbers per row and tile are then combined into
// the row's normaliser. Training and scoring share this arithmetic, so that
// they agree to the last bit.

// tileWidth is the number of tokens of a tile: a multiple of the widths of the
// matrix kernels. It takes part in the order of arithmetic, so changing it
// changes the last bits of every result.
const tileWidth = 240

func tileCount(vocabulary int) int { return (vocabulary + tileWidth - 1) / tileWidth }

// tileBounds are the first token of tile k and the one past its last.
func tileBounds(vocabulary, k int) (from, to int) {
	return k * tileWidth, min((k+1)*tileWidth, vocabulary)
}

// normaliser reduces rows of logits, tile by tile, to the logarithm of their
// softmax's denominator.
type normaliser struct {
	tiles int
	// peaks and sums are [rows, tiles]. finish turns each peak into the weight
	// that makes probabilities of its tile's exps.
	peaks []float32
	sums  []float64
	// logs is each row's log sum exp, after finish.
	logs []float64
}

func (z *normaliser) reset(rows, tiles int) {
	z.tiles = tiles
	z.peaks = grow(z.peaks, rows*tiles)
	z.sums = grow(z.sums, rows*tiles)
	z.logs = grow(z.logs, rows)
}

// add takes in a row's logits of tile k and turns them into exp(logit - peak).
func (z *normaliser) add(i, k int, logits []float32) {
	at := i*z.tiles + k
	z.peaks[at], z.sums[at] = kernels.SoftmaxTile(logits)
}

// finish combines the tiles. Logits that are not finite give a row of NaN.
func (z *normaliser) finish() {
	for i := range z.logs {
		from, to := i*z.tiles, (i+1)*z.tiles
		z.logs[i] = kernels.SoftmaxMerge(z.peaks[from:to], z.sums[from:to])
	}
}

// logProb is the log probability, at most 0, of a token of row i with the given logit.
func (z *normaliser) logProb(i int, logit float32) float32 {
	return min(float32(float64(logit)-z.logs[i]), 0)
}

// weight turns row i's exps of tile k into probabilities, after finish. It is
// at most 1, and 0 for a tile too improbable for a float32.
func (z *normaliser) weight(i, k int) float32 { return z.peaks[i*z.tiles+k] }

// logitMemory bounds the logits that training keeps at a time, in elements.
const logitMemory = 1 << 22

// rowBlock is how many rows the output layer handles at a time in training: a
// multiple of the heights of the matrix kernels. Like tileWidth it takes part
// in the order of arithmetic.
func rowBlock(vocabulary int) int { return max(logitMemory/vocabulary/48, 1) * 48 }

// outputTrace computes loss and gradient of the output layer, and owns the
// memory for it.
type outputTrace struct {
	vocabulary, width int
	block             int       // rows handled at a time
	logits            []float32 // a row block's, tile after tile: [rows, columns of the tile]
	targets           []float32 // the logit of each row's target
	normaliser        normaliser
	packed            kernels.Packed // a tile's weights, as one of the products reads them
	turned            []float32      // the transpose of a row block's outputs h: [width, rows]
	gradient          []float32      // the transpose of a tile's gradient of the weights: [width, columns]
}

// loss returns the sum over rows of -log p(target), and sets the gradients of
// scale times that sum: g.outputBias, g.output, and dh
// [rows, width], that of the outputs h.
func (o *outputTrace) loss(w, g *weights, h []float32, targets []int32, scale float32, dh []float32) float64 {
	clear(g.outputBias)
	var sum float64
	for from := 0; from < len(targets); from += o.block {
		to := min(from+o.block, len(targets))
		sum += o.forward(w, h[from*o.width:to*o.width], targets[from:to])
		o.backward(w, g, h[from*o.width:to*o.width], targets[from:to], scale, dh[from*o.width:to*o.width], from == 0)
	}
	return sum
}

// forward returns the loss of a row block and leaves exp(logit - peak of the
// tile) in o.logits.
func (o *outputTrace) forward(w *weights, h []float32, targets []int32) float64 {
	rows, tiles := len(targets), tileCount(o.vocabulary)
	o.logits = grow(o.logits, rows*o.vocabulary)
	o.targets = grow(o.targets, rows)
	o.normaliser.reset(rows, tiles)
	for k := range tiles {
		from, to := tileBounds(o.vocabulary, k)
		columns, tile := to-from, o.tile(k, rows)
		kernels.PackB(true, o.width, columns, w.output[from*o.width:], o.width, &o.packed)
		for start, end := range bands(rows) {
			kernels.GemmPackedBias(false, end-start, h[start*o.width:], o.width, &o.packed, w.outputBias[from:to], tile[start*columns:], columns)
			for i := start; i < end; i++ {
				logits := row(tile, i, columns)
				if at := int(targets[i]) - from; 0 <= at && at < columns {
					o.targets[i] = logits[at]
				}
				o.normaliser.add(i, k, logits)
			}
		}
	}
	o.normaliser.finish()
	var sum float64
	for i, logit := range o.targets {
		sum -= float64(o.normaliser.logProb(i, logit))
	}
	return sum
}

// backward turns the exps of forward into the gradient of the logits,
// scale (p - 1 at the target), and from it the gradients of the layer.
func (o *outputTrace) backward(w, g *weights, h []float32, targets []int32, scale float32, dh []float32, first bool) {
	rows := len(targets)
	o.turned = grow(o.turned, o.width*rows)
	kernels.Transpose(o.turned, rows, h, o.width, rows, o.width)
	for k := range o.normaliser.tiles {
		from, to := tileBounds(o.vocabulary, k)
		columns, tile := to-from, o.tile(k, rows)
		kernels.PackB(false, columns, o.width, w.output[from*o.width:], o.width, &o.packed)
		for start, end := range bands(rows) {
			o.logitGradient(k, start, tile[start*columns:end*columns], targets[start:end], scale, g.outputBias[from:to])
			kernels.GemmPacked(false, end-start, 1, tile[start*columns:], columns, &o.packed, unless(k == 0), dh[start*o.width:], o.width)
		}
		o.weightGradient(tile, columns, g.output[from*o.width:to*o.width], first)
	}
}

// logitGradient turns the exps of tile k in rows from start on into gradients,
// and adds them to that of the bias.
func (o *outputTrace) logitGradient(k, start int, exps []float32, targets []int32, scale float32, bias []float32) {
	from, columns := k*tileWidth, len(bias)
	for i, target := range targets {
		at := int(target) - from
		if at >= columns {
			at = -1
		}
		kernels.CrossEntropyTile(row(exps, i, columns), o.normaliser.weight(start+i, k), scale, at, bias)
	}
}

// weightGradient adds a tile's part to the gradient of its weights
// [columns, width], or sets it at first. It computes the transpose, since
// neither of the operands of that product needs packing.
func (o *outputTrace) weightGradient(tile []float32, columns int, gradient []float32, first bool) {
	rows := len(tile) / columns
	o.gradient = grow(o.gradient, o.width*columns)
	if !first {
		kernels.Transpose(o.gradient, columns, gradient, o.width, columns, o.width)
	}
	kernels.Gemm(false, false, o.width, columns, rows, 1, o.turned, rows, tile, columns, unless(first), o.gradient, columns)
	kernels.Transpose(gradient, o.width, o.gradient, columns, o.width, columns)
}

// bandRows is how many rows of a tile are computed at a time, so that they are
// still in the cache when they are needed again. It shows in no result.
const bandRows = 96

// bands yields the first row of each band, and the one past its last.
func bands(rows int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < rows; from += bandRows {
			if !yield(from, min(from+bandRows, rows)) {
				return
			}
		}
	}
}

// tile is the memory of tile k's logits.
func (o *outputTrace) tile(k, rows int) []float32 {
	from, to := tileBounds(o.vocabulary, k)
	return o.logits[rows*from : rows*to]
}

// unless is the beta of a matrix product that overwrites at first and adds after.
func unless(first bool) float32 {
	if first {
		return 0
	}
	return 1
}
