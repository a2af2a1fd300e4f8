// Package towers has the small networks that tell what two vectors have in common, or several
// things of one: dense layers on the project's kernels, in float32.
//
//	Tower   dense layers, each with ReLU
//	Pairs   two towers and the distance between what they make of two vectors: a Siamese
//	        network where the two share their parameters
//	Shared  one tower, and a softmax for each of several tasks on top of it
//
// Package networks builds such networks of Gorgonia's graphs. Here vectors have tens of
// thousands of values and batches are few: what costs time is the first layer's product and
// the optimizer's step, and a graph's copies of both would double it.
//
// A network is a layout: it knows where each matrix lies in a flat vector of parameters, and
// holds none. Passes have the memory of a batch; each belongs to one goroutine. The order of
// every sum is fixed, so that equal arguments give equal bytes.
package towers

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// Tower is dense layers, each followed by ReLU.
type Tower struct {
	widths []int // of the inputs, then of each layer
	linear bool  // the last layer has no ReLU
}

// NewTower is a tower on so many inputs with layers of these widths, all at least 1.
func NewTower(inputs int, widths ...int) (*Tower, error) {
	t := &Tower{widths: append([]int{inputs}, widths...)}
	for _, w := range t.widths {
		if w < 1 {
			return nil, fmt.Errorf("tower of widths %v: want each at least 1", t.widths)
		}
	}
	if len(widths) == 0 {
		return nil, fmt.Errorf("tower on %d inputs without a layer: want one at least", inputs)
	}
	return t, nil
}

// Inputs and Outputs are the widths of what goes in and comes out.
func (t *Tower) Inputs() int { return t.widths[0] }

// Outputs is the width of what comes out.
func (t *Tower) Outputs() int { return t.widths[len(t.widths)-1] }

// Parameters is the length of the flat vector: of each layer the weights [in, out], row-major,
// and then the bias [out].
func (t *Tower) Parameters() int {
	n := 0
	for i, out := range t.widths[1:] {
		n += (t.widths[i] + 1) * out
	}
	return n
}

// Init draws weights uniformly within sqrt(6/(in+out)) of 0 (Glorot and Bengio 2010, equation
// 16), in the order of the vector; biases are 0.
func (t *Tower) Init(rng *rand.Rand, params []float32) {
	for i := range t.widths[1:] {
		var w, b []float32
		w, b, params = t.layer(i, params)
		bound := math.Sqrt(6 / float64(t.widths[i]+t.widths[i+1]))
		for j := range w {
			w[j] = float32(bound * (2*rng.Float64() - 1))
		}
		clear(b)
	}
}

// layer cuts layer i off the front of what is left of a flat vector.
func (t *Tower) layer(i int, flat []float32) (weights, bias, rest []float32) {
	in, out := t.widths[i], t.widths[i+1]
	return flat[:in*out], flat[in*out : (in+1)*out], flat[(in+1)*out:]
}

// offset is where layer i begins in a flat vector.
func (t *Tower) offset(i int) int {
	n := 0
	for j := range i {
		n += (t.widths[j] + 1) * t.widths[j+1]
	}
	return n
}

// pass is what a tower makes of up to some rows. Of a pass of pairs the rows of the second half
// are the partners of those of the first.
type pass struct {
	tower     *Tower
	pairs     bool
	rows      int
	outs      [][]float32 // of each layer
	gradients [][]float32 // with respect to these, before ReLU
}

func (t *Tower) newPass(rows int) *pass {
	p := &pass{tower: t}
	for _, width := range t.widths[1:] {
		p.outs = append(p.outs, make([]float32, rows*width))
		p.gradients = append(p.gradients, make([]float32, rows*width))
	}
	return p
}

// forward returns the outputs [rows, Outputs] of x [rows, Inputs]. They are overwritten by the
// next call.
func (p *pass) forward(params, x []float32, rows int) []float32 {
	p.rows = rows
	t := p.tower
	for i, out := range t.widths[1:] {
		var w, b []float32
		w, b, params = t.layer(i, params)
		y := p.outs[i][:rows*out]
		kernels.GemmBias(false, false, rows, out, t.widths[i], x, t.widths[i], w, out, b, y, out)
		if !t.linear || i+2 < len(t.widths) {
			for j, v := range y {
				y[j] = max(0, v)
			}
		}
		x = y
	}
	return x
}

// backward turns the gradient [rows, Outputs] with respect to the outputs of forward on x into
// that of the parameters, which it writes to gradient. Where inputs is not nil it is the
// gradient with respect to x.
func (p *pass) backward(params, x []float32, outputs, gradient, inputs []float32) {
	t := p.tower
	for i := len(t.widths) - 2; i >= 0; i-- {
		in, out := t.widths[i], t.widths[i+1]
		w, _, _ := t.layer(i, params[t.offset(i):])
		dw, db, _ := t.layer(i, gradient[t.offset(i):])
		d := p.gradients[i][:p.rows*out]
		copy(d, outputs)
		if !t.linear || i+2 < len(t.widths) {
			maskBy(d, p.outs[i])
		}
		below, dBelow := x, inputs
		if i > 0 {
			below, dBelow = p.outs[i-1], p.gradients[i-1]
		}
		kernels.Gemm(true, false, in, out, p.rows, 1, below, in, d, out, 0, dw, out)
		if p.pairs {
			sumPairs(db, d)
		} else {
			sumRows(db, d)
		}
		if dBelow != nil {
			kernels.Gemm(false, true, p.rows, in, out, 1, d, out, w, out, 0, dBelow, in)
		}
		outputs = dBelow
	}
}

// maskBy sets to 0 what ReLU has kept from the outputs.
func maskBy(d, outputs []float32) {
	for i := range d {
		if outputs[i] <= 0 {
			d[i] = 0
		}
	}
}

// sumPairs adds up the rows of a matrix, each of the first half with its partner before it is
// added to the others: where the two cancel, nothing is left that rounding could magnify.
func sumPairs(sum, rows []float32) {
	clear(sum)
	half := len(rows) / 2
	for i := 0; i < half; i += len(sum) {
		for j := range sum {
			sum[j] += rows[i+j] + rows[half+i+j]
		}
	}
}

// sumRows adds up the rows of a matrix.
func sumRows(sum, rows []float32) {
	clear(sum)
	for i := 0; i < len(rows); i += len(sum) {
		kernels.Add(sum, rows[i:i+len(sum)])
	}
}
