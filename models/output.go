package models

import "coalmine/internal/kernels"

// The output layer predicts the next token from h: its logits are
// h E^T + output.bias, with E the output weights (the embedding, if tied), and
// its loss is the cross-entropy of their softmax over the whole vocabulary.
//
// It works through the vocabulary in tiles that stay in the cache. In scoring, a tile's logits are
// reduced at once to their peak (maximum) and to the sum of exp(logit - peak); these two numbers
// per row and tile are combined into the row's normaliser. Training (outputTrace) knows the targets
// in advance, and uses one number instead of all peaks: the two agree except for rounding.

// tileWidth is the number of tokens of a tile: a multiple of the widths of the matrix kernels. It
// affects the order of arithmetic, so changing it changes the last bits of every result.
const tileWidth = 240

func tileCount(vocabulary int) int { return (vocabulary + tileWidth - 1) / tileWidth }

// tileBounds returns the first token of tile k and the token after its last.
func tileBounds(vocabulary, k int) (from, to int) {
	return k * tileWidth, min((k+1)*tileWidth, vocabulary)
}

// normaliser reduces rows of logits, tile by tile, to the logarithm of their softmax's denominator.
type normaliser struct {
	tiles int
	// peaks and sums are [rows, tiles]. finish overwrites the peaks.
	peaks []float32
	sums  []float64
	// moments, if requested, are [rows, tiles] too; exps is one tile.
	moments []tileMoments
	exps    [tileWidth]float32
	// logs holds the log sum exp of each row, after finish.
	logs []float64
}

func (z *normaliser) reset(rows, tiles int) {
	z.tiles = tiles
	z.peaks = grow(z.peaks, rows*tiles)
	z.sums = grow(z.sums, rows*tiles)
	z.logs = grow(z.logs, rows)
}

// add reduces a row's logits of tile k and turns them into exp(logit - peak).
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

// unless returns the beta of a matrix product: 0, to overwrite, if first, otherwise 1, to add.
func unless(first bool) float32 {
	if first {
		return 0
	}
	return 1
}
