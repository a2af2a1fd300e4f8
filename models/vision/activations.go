package vision

import "math"

// rectifier holds the slopes of a piecewise linear activation, for positive inputs and for all
// others, including 0 as in TensorFlow. The activation keeps signs, so the output determines the
// slope.
type rectifier [2]float32

var (
	relu      = rectifier{1, 0}
	leakyReLU = rectifier{1, 0.01}
)

// slope returns the slope at x. It has no branch, because the sign is
// unpredictable.
func (r *rectifier) slope(x float32) float32 {
	bits := math.Float32bits(x)
	return r[(bits|(bits-1))>>31]
}

// apply replaces x by its activation.
func (r *rectifier) apply(x []float32) {
	for i, v := range x {
		x[i] = v * r.slope(v)
	}
}

// pass multiplies d by the slopes at the activations y: it turns a gradient of the outputs into the
// gradient of the inputs, and a change of the inputs into the change of the outputs.
func (r *rectifier) pass(d, y []float32) {
	y = y[:len(d)]
	for i, v := range y {
		d[i] *= r.slope(v)
	}
}
