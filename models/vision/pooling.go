package vision

import "coalmine/internal/kernels"

// pool is the side of the squares that are reduced to their largest value.
const pool = 2

// pooled returns the area after pooling: the largest value of each square of 2 x 2 pixels in each
// channel. An incomplete last row or column is dropped.
func pooled(a area) area { return area{a.height / pool, a.width / pool, a.channels} }

// maxPool writes the largest values of n images of shape a to y; the first in a tie.
func maxPool(a area, x, y []float32, n int) {
	eachRowPair(a, n, func(from, to int) {
		kernels.MaxPool(a.width/pool, a.channels, a.width*a.channels, x[from:], y[to:])
	})
}

// maxPoolBackward replaces n images x by their gradient, given the gradient of the pooled values.
func maxPoolBackward(a area, dy, x []float32, n int) {
	row, whole := a.width*a.channels, a.width/pool*pool*a.channels
	eachRowPair(a, n, func(from, to int) {
		kernels.MaxPoolBackward(a.width/pool, a.channels, row, x[from:], dy[to:], x[from:])
		clear(x[from+whole : from+row])
		clear(x[from+row+whole : from+2*row])
	})
	for i := range n {
		clear(x[i*a.values()+a.height/pool*pool*row : (i+1)*a.values()])
	}
}

// eachRowPair calls do with the positions of each pair of rows in n images and of its pooled row.
func eachRowPair(a area, n int, do func(from, to int)) {
	out := pooled(a)
	for i := range n {
		for y := range out.height {
			do(i*a.values()+y*pool*a.width*a.channels, i*out.values()+y*out.width*out.channels)
		}
	}
}

// rectifier is the slope of a piecewise linear activation for inputs that are not positive, 0 included as in
// TensorFlow; for the others it is 1. The activation keeps signs, so the output determines the slope.
type rectifier float32

const (
	relu      rectifier = 0
	leakyReLU rectifier = 0.01
)

// apply replaces x by its activation.
func (r rectifier) apply(x []float32) { kernels.Rectify(float32(r), x, x) }

// pass multiplies d by the slopes at the activations y: it turns a gradient of the outputs into the
// gradient of the inputs, and a change of the inputs into the change of the outputs.
func (r rectifier) pass(d, y []float32) { kernels.Rectify(float32(r), d, y) }
