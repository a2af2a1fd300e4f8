package vision

import "coalmine/internal/kernels"

// area is the shape of a layer's output for each image: rows from the top, pixels from
// the left, channels innermost.
type area struct{ height, width, channels int }

func (a area) pixels() int { return a.height * a.width }

func (a area) values() int { return a.height * a.width * a.channels }

// convolution describes a convolution of square filters. Its kernel is a tensor [side, side, in,
// out], and so a matrix with the filters as columns. A patch of an image, in the same layout, times
// that matrix is the outputs at one position.
type convolution struct {
	in, out      area
	side, stride int
	top, left    int // rows and columns of zeros before the image
}

// valid returns a convolution at the positions where the whole filter lies on the image.
func valid(in area, side, filters int) *convolution {
	return &convolution{in: in, out: area{in.height - side + 1, in.width - side + 1, filters}, side: side, stride: 1}
}

// same returns a convolution at every stride-th pixel, with TensorFlow's padding "same": the image
// is padded with as few zeros as the filters need, half before it and half after it; if the number
// is odd, one more after it.
func same(in area, side, stride, filters int) convolution {
	height, top := padded(in.height, side, stride)
	width, left := padded(in.width, side, stride)
	return convolution{in, area{height, width, filters}, side, stride, top, left}
}

// padded returns the number of outputs along one side of an image, and of zeros before it.
func padded(pixels, side, stride int) (outputs, before int) {
	outputs = (pixels + stride - 1) / stride
	return outputs, max(0, (outputs-1)*stride+side-pixels) / 2
}

// patch returns the number of values that an output depends on.
func (c *convolution) patch() int { return c.side * c.side * c.in.channels }

func (c *convolution) shape() []int { return []int{c.side, c.side, c.in.channels, c.out.channels} }

func (c *convolution) products() int { return c.out.pixels() * c.patch() * c.out.channels }

// scratch is memory that layers reuse one after the other.
type scratch struct {
	patches []float32
	packed  kernels.Packed
}

// blockValues is roughly the number of patch values made at a time, few enough to stay in the
// second-level cache. maxRows limits their rows, so that a sum over them is one chain
// (kernels.BlockDepth).
const (
	blockValues = 96 << 10
	maxRows     = kernels.BlockDepth
)

// block returns the number of images processed at a time. It depends only on the sizes, because it
// determines the order of the sums in kernelGradient.
func (c *convolution) block() int {
	rows := min(maxRows, blockValues/c.patch())
	return max(1, rows/c.out.pixels())
}

// blocks calls do for the images [from, to) of each block of n.
func (c *convolution) blocks(n int, s *scratch, do func(from, to int)) {
	s.patches = grow(s.patches, c.block()*c.out.pixels()*c.patch())
	for from := 0; from < n; from += c.block() {
		do(from, min(n, from+c.block()))
	}
}

// forward computes the outputs y of n images x. bias has one element per filter, or is nil.
func (c *convolution) forward(s *scratch, x, kernel, bias, y []float32, n int) {
	patch, filters := c.patch(), c.out.channels
	kernels.PackB(false, patch, filters, kernel, filters, &s.packed)
	c.blocks(n, s, func(from, to int) {
		c.gather(s.patches, x, from, to)
		rows, out := (to-from)*c.out.pixels(), part(y, from, to, c.out.values())
		if bias == nil {
			kernels.GemmPacked(false, rows, 1, s.patches, patch, &s.packed, 0, out, filters)
		} else {
			kernels.GemmPackedBias(false, rows, s.patches, patch, &s.packed, bias, out, filters)
		}
	})
}

// backward computes the gradient dx of n images from the gradient of the outputs. It is
// also the transposed convolution from out to in.
func (c *convolution) backward(s *scratch, dy, kernel, dx []float32, n int) {
	patch, filters := c.patch(), c.out.channels
	kernels.PackB(true, filters, patch, kernel, filters, &s.packed)
	clear(dx[:n*c.in.values()])
	c.blocks(n, s, func(from, to int) {
		rows, out := (to-from)*c.out.pixels(), part(dy, from, to, c.out.values())
		kernels.GemmPacked(false, rows, 1, out, filters, &s.packed, 0, s.patches, patch)
		c.scatter(dx, s.patches, from, to)
	})
}

// kernelGradient sets dk to the gradient of the kernel: the sum over n images and their
// positions of patch times gradient of the outputs.
func (c *convolution) kernelGradient(s *scratch, x, dy, dk []float32, n int) {
	patch, filters := c.patch(), c.out.channels
	var beta float32
	c.blocks(n, s, func(from, to int) {
		c.gather(s.patches, x, from, to)
		rows, out := (to-from)*c.out.pixels(), part(dy, from, to, c.out.values())
		kernels.Gemm(true, false, patch, filters, rows, 1, s.patches, patch, out, filters, beta, dk, filters)
		beta = 1
	})
}

// gather writes the patches of images [from, to), one per row, position after position.
func (c *convolution) gather(patches, x []float32, from, to int) {
	size := c.out.pixels() * c.patch()
	for i := range to - from {
		c.eachLine(part(patches, i, i+1, size), part(x, from+i, from+i+1, c.in.values()), c.gatherLine)
	}
}

// scatter adds patches to the images, the reverse of gather.
func (c *convolution) scatter(x, patches []float32, from, to int) {
	size := c.out.pixels() * c.patch()
	for i := range to - from {
		c.eachLine(part(patches, i, i+1, size), part(x, from+i, from+i+1, c.in.values()), c.scatterLine)
	}
}

// eachLine calls do for each line of outputs and each line of the filter, with the patches from the
// first position and that line of the filter on, and the line of the image there; nil for padding.
func (c *convolution) eachLine(patches, image []float32, do func(patches, line []float32)) {
	patch, run, width := c.patch(), c.side*c.in.channels, c.in.width*c.in.channels
	for y := range c.out.height {
		for k := range c.side {
			var line []float32
			if at := y*c.stride + k - c.top; at >= 0 && at < c.in.height {
				line = image[at*width : (at+1)*width]
			}
			do(patches[y*c.out.width*patch+k*run:], line)
		}
	}
}

// covered returns the pixels [from, to) of a line of the filter that lie on the image at output
// position x. The first of them lies on pixel at.
func (c *convolution) covered(x int) (from, to, at int) {
	at = x*c.stride - c.left
	return max(0, -at), min(c.side, c.in.width-at), max(0, at)
}

func (c *convolution) gatherLine(patches, line []float32) {
	patch, channels := c.patch(), c.in.channels
	if line != nil && c.unpadded() {
		copyRuns(patches, line, c.side*channels, patch, c.stride*channels, c.out.width)
		return
	}
	for x := range c.out.width {
		run := patches[x*patch:][:c.side*channels]
		if line == nil {
			clear(run)
			continue
		}
		from, to, at := c.covered(x)
		if to-from < c.side {
			clear(run)
		}
		copyShort(run[from*channels:to*channels], line[at*channels:])
	}
}

// unpadded reports whether the filter lies within the image's width at every position of a line.
func (c *convolution) unpadded() bool {
	return c.left == 0 && (c.out.width-1)*c.stride+c.side <= c.in.width
}

// copyRuns copies count runs of n elements, toStep and fromStep apart. Filters of three pixels on images of
// one channel have runs so short that a loop costs more than the copy.
func copyRuns(dst, x []float32, n, toStep, fromStep, count int) {
	for i := range count {
		to, from := dst[i*toStep:][:n], x[i*fromStep:][:n]
		if n == 3 {
			*(*[3]float32)(to) = *(*[3]float32)(from)
		} else {
			copyShort(to, from)
		}
	}
}

func (c *convolution) scatterLine(patches, line []float32) {
	if line == nil {
		return
	}
	patch, channels := c.patch(), c.in.channels
	for x := range c.out.width {
		from, to, at := c.covered(x)
		addShort(line[at*channels:(at+to-from)*channels], patches[x*patch:][from*channels:to*channels])
	}
}

// copyShort copies x to dst, fast for a few elements.
func copyShort(dst, x []float32) {
	if len(dst) >= shortest {
		copy(dst, x)
		return
	}
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = x[i]
	}
}

// shortest is the number of elements from which a call is faster than a loop.
const shortest = 16

// addShort adds x to dst, fast for a few elements.
func addShort(dst, x []float32) {
	if len(dst) >= shortest {
		kernels.Add(dst, x)
		return
	}
	for i, v := range x {
		dst[i] += v
	}
}

// reversed returns the convolution whose transpose is c, which has stride 1: its filters are
// reversed. With few filters the transpose is faster, because its matrix has all positions of the
// filter next to each other.
func (c *convolution) reversed() convolution {
	return convolution{c.out, c.in, c.side, c.stride, c.side - 1 - c.top, c.side - 1 - c.left}
}

// linear is a layer that computes a matrix product. n is the number of images, bias may be nil, and
// kernelGradient sets dk.
type linear interface {
	shape() []int
	products() int
	forward(s *scratch, x, kernel, bias, y []float32, n int)
	backward(s *scratch, dy, kernel, dx []float32, n int)
	kernelGradient(s *scratch, x, dy, dk []float32, n int)
}

// dense is a fully connected layer. Its kernel is a tensor [in, out].
type dense struct{ in, out int }

func (d dense) shape() []int { return []int{d.in, d.out} }

func (d dense) products() int { return d.in * d.out }

// forward computes the outputs y of n rows x. bias has one element per output, or is nil.
func (d dense) forward(_ *scratch, x, kernel, bias, y []float32, n int) {
	if bias == nil {
		kernels.Gemm(false, false, n, d.out, d.in, 1, x, d.in, kernel, d.out, 0, y, d.out)
		return
	}
	kernels.GemmBias(false, false, n, d.out, d.in, x, d.in, kernel, d.out, bias, y, d.out)
}

// backward computes the gradient dx of n rows from the gradient of the outputs. It computes the
// transpose, to read the kernel, by far the largest matrix, in place.
func (d dense) backward(s *scratch, dy, kernel, dx []float32, n int) {
	s.patches = grow(s.patches, d.in*n)
	kernels.Gemm(false, true, d.in, n, d.out, 1, kernel, d.out, dy, d.out, 0, s.patches, n)
	kernels.Transpose(dx, d.in, s.patches, n, d.in, n)
}

// kernelGradient sets dk to the gradient of the kernel over n rows.
func (d dense) kernelGradient(_ *scratch, x, dy, dk []float32, n int) {
	kernels.Gemm(true, false, d.in, d.out, n, 1, x, d.in, dy, d.out, 0, dk, d.out)
}

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
