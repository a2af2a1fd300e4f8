package vision

import "math"

// pool is the side of the squares that are reduced to their largest value.
const pool = 2

// pooled returns the area after pooling: the largest value of each square of 2 x 2 pixels in each
// channel. An incomplete last row or column is dropped.
func pooled(a area) area { return area{a.height / pool, a.width / pool, a.channels} }

// maxPool writes the largest values of n images of shape a to y, and the index of the pixel in its
// square, 0 to 3, to chosen; the first in a tie.
func maxPool(a area, x, y []float32, chosen []uint8, n int) {
	out := pooled(a)
	for i := range n {
		image := part(x, i, i+1, a.values())
		for p := range out.pixels() {
			at := (i*out.pixels() + p) * a.channels
			poolSquare(a, image[corner(a, out, p):], y[at:at+a.channels], chosen[at:at+a.channels])
		}
	}
}

// corner returns the position of the first pixel of square p in an image.
func corner(a, out area, p int) int {
	return (p/out.width*a.width + p%out.width) * pool * a.channels
}

// poolSquare finds the largest of four rows, element by element. It compares integers without a
// branch, because the result is unpredictable.
func poolSquare(a area, x, y []float32, chosen []uint8) {
	next, below := a.channels, a.width*a.channels
	x0, x1 := x[:len(y)], x[next:][:len(y)]
	x2, x3 := x[below:][:len(y)], x[below+next:][:len(y)]
	chosen = chosen[:len(y)]
	for i := range y {
		best := max(rank(x0[i], 0), rank(x1[i], 1), rank(x2[i], 2), rank(x3[i], 3))
		y[i], chosen[i] = unrank(best)
	}
}

// rank orders values by size, and equal ones by pixel index, the first highest. Positive zero ranks
// above negative zero.
func rank(x float32, which int64) int64 {
	bits := int32(math.Float32bits(x))
	return int64(bits^(bits>>31&math.MaxInt32))<<2 | (pool*pool - 1 - which)
}

func unrank(rank int64) (x float32, which uint8) {
	bits := int32(rank >> 2)
	return math.Float32frombits(uint32(bits ^ (bits >> 31 & math.MaxInt32))), uint8(pool*pool - 1 - rank&3)
}

// maxPoolBackward turns the gradient of the pooled values into the gradient of n images.
func maxPoolBackward(a area, dy []float32, chosen []uint8, dx []float32, n int) {
	out := pooled(a)
	clear(dx[:n*a.values()])
	for i := range n {
		image := part(dx, i, i+1, a.values())
		for p := range out.pixels() {
			at := (i*out.pixels() + p) * a.channels
			square := image[corner(a, out, p):]
			for c, d := range dy[at : at+a.channels] {
				which := int(chosen[at+c])
				square[(which/pool*a.width+which%pool)*a.channels+c] = d
			}
		}
	}
}

// rectifier holds the slopes of a piecewise linear activation, for positive inputs and for all
// others, including 0 as in TensorFlow. The activation keeps signs, so the output determines the
// slope.
type rectifier [2]float32

var (
	relu      = rectifier{1, 0}
	leakyReLU = rectifier{1, 0.01}
)

// slope returns the slope at x. It has no branch, because the sign is unpredictable.
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
