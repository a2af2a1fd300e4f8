package vision

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// minZeros is TensorFlow's padding "same" along one side, as its documentation has it.
func minZeros(pixels, side, stride int) (outputs, before int) {
	outputs = pixels / stride
	if pixels%stride != 0 {
		outputs++
	}
	zeros := side - stride
	if pixels%stride != 0 {
		zeros = side - pixels%stride
	}
	return outputs, max(0, zeros) / 2
}

// drawConvolution draws sizes at which nothing divides, strides longer than filters too.
func drawConvolution(rng *rand.Rand) convolution {
	side := 1 + rng.IntN(5)
	in := area{side + rng.IntN(9), side + rng.IntN(9), []int{1, 2, 3, 17}[rng.IntN(4)]}
	filters := 1 + rng.IntN(6)
	if rng.IntN(2) == 0 {
		return *valid(in, side, filters)
	}
	return same(in, side, 1+rng.IntN(3), filters)
}

func drawReference(rng *rand.Rand, shape ...int) (reference, []float32) {
	r := newReference(shape...)
	for i := range r.values {
		r.values[i] = float64(float32(rng.NormFloat64()))
	}
	return r, narrowed(r.values)
}

func TestConvolutionsEqualTheirDefinition(t *testing.T) {
	t.Parallel()
	rng := testRand(1)
	var s scratch
	for range 60 {
		c, n := drawConvolution(rng), 1+rng.IntN(3)
		what := fmt.Sprintf("%+v, %d images: ", c, n)
		x, images := drawReference(rng, n, c.in.height, c.in.width, c.in.channels)
		k, kernel := drawReference(rng, c.shape()...)
		d, gradient := drawReference(rng, n, c.out.height, c.out.width, c.out.channels)
		b, bias := drawReference(rng, c.out.channels)

		y := make([]float32, len(d.values))
		c.forward(&s, images, kernel, bias, y, n)
		near(t, what+"output", y, shift(convolveAt(c, x, k), b).values, 1e-4)
		dx := make([]float32, len(x.values))
		c.backward(&s, gradient, kernel, dx, n)
		near(t, what+"gradient of the images", dx, spreadAt(c, d, k).values, 1e-4)
		dk := make([]float32, len(k.values))
		c.kernelGradient(&s, images, gradient, dk, n)
		near(t, what+"gradient of the kernel", dk, kernelGradientAt(c, x, d).values, 1e-4)
	}
}

func TestPaddingMatchesTensorFlow(t *testing.T) {
	t.Parallel()
	for side := 1; side < 8; side++ {
		for stride := 1; stride < 5; stride++ {
			for pixels := 1; pixels < 30; pixels++ {
				outputs, before := padded(pixels, side, stride)
				if wantOutputs, wantBefore := minZeros(pixels, side, stride); outputs != wantOutputs || before != wantBefore {
					t.Fatalf("%d pixels, filters of %d, stride %d: %d outputs after %d zeros, want %d after %d", pixels, side, stride, outputs, before, wantOutputs, wantBefore)
				}
			}
		}
	}
}

// A convolution of stride 1 is the transpose of its reversed one, with the kernel turned.
func TestTheReversedConvolutionsTransposeIsTheConvolution(t *testing.T) {
	t.Parallel()
	rng := testRand(2)
	var s scratch
	for range 20 {
		c := same(area{4 + rng.IntN(5), 4 + rng.IntN(5), 1 + rng.IntN(4)}, 1+rng.IntN(4), 1, 1+rng.IntN(3))
		x, images := drawReference(rng, 2, c.in.height, c.in.width, c.in.channels)
		k, kernel := drawReference(rng, c.shape()...)
		turned, y := make([]float32, len(kernel)), make([]float32, 2*c.out.values())
		turnKernel(turned, kernel, c.side*c.side, c.in.channels, c.out.channels)
		r := c.reversed()
		r.backward(&s, images, turned, y, 2)
		near(t, fmt.Sprintf("%+v: output", c), y, convolveAt(c, x, k).values, 1e-4)
	}
}

// convolveAt, spreadAt and kernelGradientAt are sums over all pairs of a place and a pixel.
func convolveAt(c convolution, x, k reference) reference {
	y := newReference(x.shape[0], c.out.height, c.out.width, c.out.channels)
	eachPair(c, x.shape[0], func(i, oy, ox, f, iy, ix, ch, ky, kx int) {
		y.add(x.get(i, iy, ix, ch)*k.get(ky, kx, ch, f), i, oy, ox, f)
	})
	return y
}

func spreadAt(c convolution, d, k reference) reference {
	x := newReference(d.shape[0], c.in.height, c.in.width, c.in.channels)
	eachPair(c, d.shape[0], func(i, oy, ox, f, iy, ix, ch, ky, kx int) {
		x.add(d.get(i, oy, ox, f)*k.get(ky, kx, ch, f), i, iy, ix, ch)
	})
	return x
}

func kernelGradientAt(c convolution, x, d reference) reference {
	k := newReference(c.shape()...)
	eachPair(c, x.shape[0], func(i, oy, ox, f, iy, ix, ch, ky, kx int) {
		k.add(x.get(i, iy, ix, ch)*d.get(i, oy, ox, f), ky, kx, ch, f)
	})
	return k
}

func eachPair(c convolution, n int, do func(i, oy, ox, f, iy, ix, ch, ky, kx int)) {
	for oy := range c.out.height {
		for ox := range c.out.width {
			for iy := range c.in.height {
				for ix := range c.in.width {
					ky, kx := iy-oy*c.stride+c.top, ix-ox*c.stride+c.left
					if ky < 0 || kx < 0 || ky >= c.side || kx >= c.side {
						continue
					}
					for i := range n {
						for ch := range c.in.channels {
							for f := range c.out.channels {
								do(i, oy, ox, f, iy, ix, ch, ky, kx)
							}
						}
					}
				}
			}
		}
	}
}
