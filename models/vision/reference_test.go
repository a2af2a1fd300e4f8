package vision

import (
	"math"
	"strings"

	"coalmine/models"
)

// The networks once more, in float64 and as plain loops over indices, written from their
// equations: the reference for the fast ones.

// tensors are parameters by name.
type tensors map[string]reference

// reference is an array of any shape.
type reference struct {
	shape  []int
	values []float64
}

func newReference(shape ...int) reference {
	return reference{shape, make([]float64, models.Tensor{Shape: shape}.Size())}
}

// at is the place of an element.
func (r reference) at(index ...int) int {
	at := 0
	for i, n := range r.shape {
		at = at*n + index[i]
	}
	return at
}

func (r reference) get(index ...int) float64 { return r.values[r.at(index...)] }

func (r reference) add(x float64, index ...int) { r.values[r.at(index...)] += x }

func (r reference) flat() reference {
	return reference{[]int{r.shape[0], len(r.values) / r.shape[0]}, r.values}
}

// row is the part of one image.
func (r reference) row(i int) reference {
	size := len(r.values) / r.shape[0]
	return reference{append([]int{1}, r.shape[1:]...), r.values[i*size : (i+1)*size]}
}

func (r reference) each(f func(float64) float64) reference {
	out := newReference(r.shape...)
	for i, v := range r.values {
		out.values[i] = f(v)
	}
	return out
}

// tensorsOf are the tensors of a network with values of a flat vector.
func tensorsOf(list []models.Tensor, flat []float64) tensors {
	t := tensors{}
	for _, tensor := range list {
		t[tensor.Name] = reference{tensor.Shape, flat[tensor.Offset : tensor.Offset+tensor.Size()]}
	}
	return t
}

// convolve is a convolution with before zeros before the image and given numbers of outputs a side.
func convolve(x, kernel reference, stride, before, height, width int) reference {
	n, filters := x.shape[0], kernel.shape[3]
	y := newReference(n, height, width, filters)
	eachTap(kernel, stride, before, height, width, x.shape[1], x.shape[2], func(oy, ox, iy, ix, ky, kx int) {
		for i := range n {
			for c := range x.shape[3] {
				for f := range filters {
					y.add(x.get(i, iy, ix, c)*kernel.get(ky, kx, c, f), i, oy, ox, f)
				}
			}
		}
	})
	return y
}

// spread is the convolution's transpose: it spreads x over an image of a size.
func spread(x, kernel reference, stride, before, height, width int) reference {
	n, channels := x.shape[0], kernel.shape[2]
	y := newReference(n, height, width, channels)
	eachTap(kernel, stride, before, x.shape[1], x.shape[2], height, width, func(oy, ox, iy, ix, ky, kx int) {
		for i := range n {
			for c := range channels {
				for f := range x.shape[3] {
					y.add(x.get(i, oy, ox, f)*kernel.get(ky, kx, c, f), i, iy, ix, c)
				}
			}
		}
	})
	return y
}

// eachTap calls do for every output, input and place of the filter that belong together.
func eachTap(kernel reference, stride, before, height, width, inHeight, inWidth int, do func(oy, ox, iy, ix, ky, kx int)) {
	for oy := range height {
		for ox := range width {
			for ky := range kernel.shape[0] {
				for kx := range kernel.shape[1] {
					iy, ix := oy*stride+ky-before, ox*stride+kx-before
					if iy >= 0 && iy < inHeight && ix >= 0 && ix < inWidth {
						do(oy, ox, iy, ix, ky, kx)
					}
				}
			}
		}
	}
}

func multiply(x, kernel reference) reference {
	y := newReference(x.shape[0], kernel.shape[1])
	for i := range x.shape[0] {
		for k := range kernel.shape[0] {
			for j := range kernel.shape[1] {
				y.add(x.get(i, k)*kernel.get(k, j), i, j)
			}
		}
	}
	return y
}

// multiplyBack is the product with the transposed matrix.
func multiplyBack(dy, kernel reference) reference {
	dx := newReference(dy.shape[0], kernel.shape[0])
	for i := range dy.shape[0] {
		for k := range kernel.shape[0] {
			for j := range kernel.shape[1] {
				dx.add(dy.get(i, j)*kernel.get(k, j), i, k)
			}
		}
	}
	return dx
}

func shift(x, bias reference) reference {
	y := newReference(x.shape...)
	for i, v := range x.values {
		y.values[i] = v + bias.values[i%len(bias.values)]
	}
	return y
}

func squash(slope float64) func(float64) float64 {
	return func(x float64) float64 {
		if x > 0 {
			return x
		}
		return slope * x
	}
}

func largest(x reference) reference {
	y := newReference(x.shape[0], x.shape[1]/2, x.shape[2]/2, x.shape[3])
	for i := range y.shape[0] {
		for py := range y.shape[1] {
			for px := range y.shape[2] {
				for c := range y.shape[3] {
					y.add(max(x.get(i, 2*py, 2*px, c), x.get(i, 2*py, 2*px+1, c), x.get(i, 2*py+1, 2*px, c), x.get(i, 2*py+1, 2*px+1, c)), i, py, px, c)
				}
			}
		}
	}
	return y
}

func (t tensors) classify(x reference) (logits, features reference) {
	for _, name := range []string{"conv1", "conv2", "conv3"} {
		k := t[name+".kernel"]
		x = shift(convolve(x, k, 1, 0, x.shape[1]-2, x.shape[2]-2), t[name+".bias"]).each(squash(0))
		if name != "conv3" {
			x = largest(x)
		}
	}
	features = shift(multiply(x.flat(), t["dense1.kernel"]), t["dense1.bias"]).each(squash(0))
	return shift(multiply(features, t["dense2.kernel"]), t["dense2.bias"]), features
}

// crossEntropyOf is the mean of -log p(label).
func crossEntropyOf(logits reference, labels []int) float64 {
	sum := 0.0
	for i, label := range labels {
		total := 0.0
		for j := range logits.shape[1] {
			total += math.Exp(logits.get(i, j))
		}
		sum += math.Log(total) - logits.get(i, label)
	}
	return sum / float64(len(labels))
}

// imagesOf returns the network inputs of examples.
func imagesOf(shape models.ImageShape, examples [][]int32) (images reference, labels []int) {
	images = newReference(len(examples), shape.Height, shape.Width, shape.Channels)
	for i, e := range examples {
		for j, v := range e[2:] {
			images.values[i*shape.Values()+j] = float64(v-4)/127.5 - 1
		}
		labels = append(labels, int(e[1])-4)
	}
	return images, labels
}

// moving reports whether a tensor holds moving statistics, which have no gradient.
func moving(name string) bool {
	return strings.HasSuffix(name, ".mean") || strings.HasSuffix(name, ".variance") || strings.HasSuffix(name, ".initial_share")
}
