package vision

import (
	"fmt"
	"math/rand/v2"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// hiddenLayers is the number of normalized layers of a generator.
const hiddenLayers = 4

// transposed is the transpose of a convolution, which maps its outputs to its inputs, without bias.
type transposed struct{ *convolution }

func (t transposed) forward(s *scratch, x, kernel, _, y []float32, n int) {
	t.convolution.backward(s, x, kernel, y, n)
}

func (t transposed) backward(s *scratch, dy, kernel, dx []float32, n int) {
	t.convolution.forward(s, dy, kernel, nil, dx, n)
}

func (t transposed) kernelGradient(s *scratch, x, dy, dk []float32, n int) {
	t.convolution.kernelGradient(s, dy, x, dk, n)
}

// generator is the network that makes images. The equations are at GAN.
type generator struct {
	latent         int
	layers         [hiddenLayers]linear
	features       [hiddenLayers]int // normalized features
	outputs        [hiddenLayers]int // values per image
	last           convolution
	kernel, beta   [hiddenLayers]models.Span
	mean, variance [hiddenLayers]models.Span
	initialShare   models.Span // share of the initial values in the statistics
	lastKernel     models.Span
	lastBias       models.Span
	decayed        []models.Span
}

func newGenerator(shape models.ImageShape, latent int, sizes ganSizes) *generator {
	f := sizes.generator
	whole := area{shape.Height, shape.Width, f[2]}
	half := same(whole, ganSide, ganStride, f[1])
	quarter := same(half.out, ganSide, ganStride, f[0])
	g := &generator{latent: latent, last: same(whole, ganSide, 1, shape.Channels)}
	g.layers = [hiddenLayers]linear{
		dense{latent, sizes.units}, dense{sizes.units, quarter.out.values()}, transposed{&quarter}, transposed{&half},
	}
	g.features = [hiddenLayers]int{sizes.units, quarter.out.values(), f[1], f[2]}
	g.outputs = [hiddenLayers]int{sizes.units, quarter.out.values(), half.out.values(), whole.values()}
	return g
}

// name lays out the tensors.
func (g *generator) name(l *models.Layout) {
	for i, name := range []string{"dense1", "dense2", "conv1", "conv2"} {
		g.kernel[i] = l.Add("generator."+name+kernelName, g.layers[i].shape()...)
		norm := fmt.Sprintf("generator.norm%d", i+1)
		g.beta[i] = l.Add(norm+betaName, g.features[i])
		g.mean[i] = l.Add(norm+meanName, g.features[i])
		g.variance[i] = l.Add(norm+varianceName, g.features[i])
		g.decayed = append(g.decayed, g.kernel[i])
	}
	g.initialShare = l.Add("generator.norm"+shareName, 1)
	g.lastKernel = l.Add("generator.conv3"+kernelName, g.last.shape()...)
	g.lastBias = l.Add("generator.conv3"+biasName, g.last.out.channels)
}

func (g *generator) products() int {
	n := g.last.products()
	for _, l := range g.layers {
		n += l.products()
	}
	return n
}

// generatorTrace is the memory of passes through the generator.
type generatorTrace struct {
	g       *generator
	scratch scratch
	n       int // images
	inputs  []float32
	// normalized are the normalized outputs of the hidden layers, outputs their values after beta
	// and activation. Each has its own memory or, in a pass without a backward pass, shares two
	// buffers. images are the network's outputs, in [-1, 1].
	normalized, outputs [hiddenLayers][]float32
	own                 [2][hiddenLayers][]float32
	spare               [2][]float32
	images              []float32
	norms               [hiddenLayers]norm
	// Gradients of images and of outputs. The latter become gradients of the values before
	// normalization.
	dImages  []float32
	dOutputs [hiddenLayers][]float32
	turned   []float32 // the kernel of the last convolution, or its gradient
}

func (t *generatorTrace) resize(n int) {
	t.n = n
	t.inputs = grow(t.inputs, n*t.g.latent)
	t.images = grow(t.images, n*t.g.last.out.values())
	t.turned = grow(t.turned, t.g.last.patch()*t.g.last.out.channels)
}

func (t *generatorTrace) keepNothing() {
	for i, values := range t.g.outputs {
		spare := &t.spare[i%len(t.spare)]
		*spare = grow(*spare, t.n*values)
		t.normalized[i], t.outputs[i] = *spare, *spare
	}
}

func (t *generatorTrace) keep() {
	t.dImages = grow(t.dImages, len(t.images))
	for i, values := range t.g.outputs {
		t.own[0][i], t.own[1][i] = grow(t.own[0][i], t.n*values), grow(t.own[1][i], t.n*values)
		t.normalized[i], t.outputs[i] = t.own[0][i], t.own[1][i]
		t.dOutputs[i] = grow(t.dOutputs[i], t.n*values)
	}
}

// draw draws the inputs, normal numbers, from rng, image after image.
func (t *generatorTrace) draw(rng *rand.Rand) {
	for i := range t.inputs {
		t.inputs[i] = float32(rng.NormFloat64())
	}
}

// train makes images in training: each feature is normalized by the statistics of the
// batch. params is the generator's part of the vector.
func (t *generatorTrace) train(params []float32) {
	t.run(params, func(i int, z []float32) {
		features := t.g.features[i]
		t.norms[i].reset(models.BatchNorm, len(z)/features, features)
		t.norms[i].normalize(z)
	})
}

// generate makes images with the moving statistics, so that images do not depend on each other.
func (t *generatorTrace) generate(params []float32) {
	share := t.g.initialShare.Of(params)[0]
	t.run(params, func(i int, z []float32) {
		normalizeBy(t.g.mean[i].Of(params), t.g.variance[i].Of(params), share, z)
	})
}

// track updates the moving statistics with the batch.
func (t *generatorTrace) track(params []float32) {
	for i := range t.norms {
		t.norms[i].track(t.g.mean[i].Of(params), t.g.variance[i].Of(params))
	}
	share := t.g.initialShare.Of(params)
	share[0] = approach(share[0], 0)
}

func (t *generatorTrace) run(params []float32, normalize func(i int, z []float32)) {
	x := t.inputs
	for i, l := range t.g.layers {
		z, y := t.normalized[i], t.outputs[i]
		l.forward(&t.scratch, x, t.g.kernel[i].Of(params), nil, z, t.n)
		normalize(i, z)
		copy(y, z)
		addRows(y, t.g.beta[i].Of(params))
		relu.apply(y)
		x = y
	}
	t.turn(t.turned, t.g.lastKernel.Of(params))
	c := t.g.last.reversed()
	c.backward(&t.scratch, x, t.turned, t.images, t.n)
	addRows(t.images, t.g.lastBias.Of(params))
	kernels.Tanh(t.images, t.images)
}

// addRows adds x to each row of a matrix with the same number of columns.
func addRows(rows, x []float32) {
	for at := 0; at < len(rows); at += len(x) {
		addShort(rows[at:at+len(x)], x)
	}
}

// backward sets gradient from dImages, the gradient of the images. params and gradient are the
// generator's parts of the vectors.
func (t *generatorTrace) backward(params, gradient []float32) {
	g := t.g
	for i, y := range t.images {
		t.dImages[i] *= 1 - float32(y*y)
	}
	t.lastBackward(params, gradient)
	for i := hiddenLayers - 1; i >= 0; i-- {
		d := t.dOutputs[i]
		relu.pass(d, t.outputs[i])
		kernels.SumRows(g.beta[i].Of(gradient), d)
		t.norms[i].jacobian(&t.norms[i].backward, d, d, t.normalized[i])
		x := t.inputs
		if i > 0 {
			x = t.outputs[i-1]
			g.layers[i].backward(&t.scratch, d, g.kernel[i].Of(params), t.dOutputs[i-1], t.n)
		}
		g.layers[i].kernelGradient(&t.scratch, x, d, g.kernel[i].Of(gradient), t.n)
		clear(g.mean[i].Of(gradient))
		clear(g.variance[i].Of(gradient))
	}
	clear(g.initialShare.Of(gradient))
}

// lastBackward sets the gradients of the last convolution and of its inputs.
func (t *generatorTrace) lastBackward(params, gradient []float32) {
	g := t.g
	c := g.last.reversed()
	top := hiddenLayers - 1
	kernels.SumRows(g.lastBias.Of(gradient), t.dImages)
	c.kernelGradient(&t.scratch, t.dImages, t.outputs[top], t.turned, t.n)
	t.turnBack(g.lastKernel.Of(gradient), t.turned)
	t.turn(t.turned, g.lastKernel.Of(params))
	c.forward(&t.scratch, t.dImages, t.turned, nil, t.dOutputs[top], t.n)
}

// turn converts a kernel of the last convolution to a kernel of the reversed convolution, and
// turnBack the reverse: they reverse rows and columns, and exchange in and out.
func (t *generatorTrace) turn(dst, kernel []float32) {
	c := &t.g.last
	turnKernel(dst, kernel, c.side*c.side, c.in.channels, c.out.channels)
}

func (t *generatorTrace) turnBack(dst, kernel []float32) {
	c := &t.g.last
	turnKernel(dst, kernel, c.side*c.side, c.out.channels, c.in.channels)
}

func turnKernel(dst, kernel []float32, places, in, out int) {
	for p := range places {
		from, to := part(kernel, p, p+1, in*out), part(dst, places-1-p, places-p, in*out)
		kernels.Transpose(to, in, from, out, in, out)
	}
}
