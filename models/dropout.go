package models

import (
	"fmt"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// dropout zeroes elements of a layer's outputs to the layer above, never to the next token, and
// scales the remaining elements to preserve the expected value (Zaremba et al., "Recurrent Neural
// Network Regularization", 2014, section 3). The zero value drops nothing.
type dropout struct {
	rate float64
	rng  *rand.Rand
}

// UseDropout makes later gradients drop every element of every layer's output with
// probability rate, 0 <= rate < 1, independently, before the next layer or the output layer reads
// it. rng selects the elements, row by row of the packed batch and layer by layer from the lowest,
// the encoder's before the decoder's: equal streams and batches drop the same elements. Rate 0
// drops nothing and takes nothing from rng. Scoring never drops anything.
func (t *Trainer) UseDropout(rate float64, rng *rand.Rand) error {
	if !(rate >= 0 && rate < 1) {
		return fmt.Errorf("dropout rate %v: want at least 0 and below 1", rate)
	}
	t.dropout = dropout{rate, rng}
	return nil
}

// draw sets each element to 0, or to the factor that compensates for the zeros.
func (d *dropout) draw(mask []float32) {
	keep := float32(1 / (1 - d.rate))
	for i := range mask {
		mask[i] = keep
		if d.rng.Float64() < d.rate {
			mask[i] = 0
		}
	}
}

// layerTrace is a layer with the dropout above it.
type layerTrace struct {
	cellTrace
	mask     []float32 // [rows, out], with dropout
	dropped  []float32 // [rows, out], with dropout: output times mask
	passed   []float32 // output or dropped: the input of the layer above
	gradient []float32 // [rows, out]: gradient of passed, then of the layer's output
}

func (l *layerTrace) pass(d *dropout) {
	n := len(l.output)
	l.gradient = grow(l.gradient, n)
	if d.rate == 0 {
		l.passed = l.output
		return
	}
	l.mask, l.dropped = grow(l.mask, n), grow(l.dropped, n)
	d.draw(l.mask)
	kernels.Mul(l.dropped, l.output, l.mask)
	l.passed = l.dropped
}

// passBack turns the gradient of the passed outputs into the gradient of the outputs.
func (l *layerTrace) passBack(d *dropout) {
	if d.rate > 0 {
		kernels.Mul(l.gradient, l.gradient, l.mask)
	}
}
