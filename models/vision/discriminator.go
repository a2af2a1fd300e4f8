package vision

import (
	"coalmine/internal/kernels"
	"coalmine/models"
)

// ganSizes holds the numbers of filters and units of the two networks of a GAN: of the
// discriminator's convolutions; of the generator's images at a quarter and at half of the side, and
// of its last hidden layer; and of the dense layers of both.
type ganSizes struct {
	discriminator [2]int
	generator     [3]int
	units         int
}

// paperGAN holds the sizes in the authors' code.
var paperGAN = ganSizes{discriminator: [2]int{64, 128}, generator: [3]int{256, 64, 32}, units: 1024}

// discriminator is the network that distinguishes real from generated images. The equations are at
// GAN.
type discriminator struct {
	kind               models.Normalization
	conv               [2]convolution
	hidden             dense
	kernel, bias       [2]models.Span // tensors of the convolutions
	hiddenKernel, beta models.Span
	mean, variance     models.Span // only with batch normalization
	outKernel, outBias models.Span
	decayed            []models.Span
}

func newDiscriminator(shape models.ImageShape, kind models.Normalization, sizes ganSizes) *discriminator {
	d := &discriminator{kind: kind}
	in := area{shape.Height, shape.Width, shape.Channels}
	for i, filters := range sizes.discriminator {
		d.conv[i] = same(in, ganSide, ganStride, filters)
		in = d.conv[i].out
	}
	d.hidden = dense{in.values(), sizes.units}
	return d
}

// name lays out the tensors.
func (d *discriminator) name(l *models.Layout) {
	for i, name := range []string{"discriminator.conv1", "discriminator.conv2"} {
		d.kernel[i] = l.Add(name+kernelName, d.conv[i].shape()...)
		d.bias[i] = l.Add(name+biasName, d.conv[i].out.channels)
	}
	units := d.hidden.out
	d.hiddenKernel = l.Add("discriminator.dense1"+kernelName, d.hidden.shape()...)
	d.beta = l.Add("discriminator.norm"+betaName, units)
	if d.kind == models.BatchNorm {
		d.mean = l.Add("discriminator.norm"+meanName, units)
		d.variance = l.Add("discriminator.norm"+varianceName, units)
	}
	d.outKernel = l.Add("discriminator.dense2"+kernelName, units, 1)
	d.outBias = l.Add("discriminator.dense2"+biasName, 1)
	d.decayed = []models.Span{d.kernel[0], d.bias[0], d.kernel[1], d.bias[1], d.hiddenKernel, d.outKernel, d.outBias}
}

func (d *discriminator) products() int {
	return d.conv[0].products() + d.conv[1].products() + d.hidden.products() + d.hidden.out
}

// discriminatorWeights are the views of one flat vector.
type discriminatorWeights struct {
	kernel, bias       [2][]float32
	hidden, beta       []float32
	outKernel, outBias []float32
}

func (d *discriminator) views(flat []float32) discriminatorWeights {
	return discriminatorWeights{
		kernel:    [2][]float32{d.kernel[0].Of(flat), d.kernel[1].Of(flat)},
		bias:      [2][]float32{d.bias[0].Of(flat), d.bias[1].Of(flat)},
		hidden:    d.hiddenKernel.Of(flat),
		beta:      d.beta.Of(flat),
		outKernel: d.outKernel.Of(flat),
		outBias:   d.outBias.Of(flat),
	}
}

// Groups of rows that go through the discriminator: batches of equal size, each normalized
// separately. A learner has four, in an order that makes the rows of every matrix product
// contiguous. The activations of tangent are changes of the activations of interpolated. tangent
// holds the gradients of interpolated, and interpolated holds their changes. A generator's step has
// only the first group.
const (
	interpolated = iota
	generated
	given
	tangent
	groups

	onlyGroup = 0
)

// activationsOf returns the group whose activations belong to the gradients of a group.
func activationsOf(group int) int {
	if group == tangent {
		return interpolated
	}
	return group
}

// discriminatorTrace is the memory of passes through the discriminator.
type discriminatorTrace struct {
	d       *discriminator
	scratch scratch
	batch   int // rows of a group
	// Activations by group and row: the images, the activated outputs of the convolutions, the
	// normalized outputs of the hidden layer, the same after beta and activation, and the outputs
	// of the network.
	images     []float32
	conv       [2][]float32
	normalized []float32
	hidden     []float32
	outputs    []float32
	// Gradients in use: of conv before its activation, of normalized, and of the values before
	// normalization.
	dImages     []float32
	dConv       [2][]float32
	dNormalized []float32
	dHidden     []float32
	dOutputs    []float32

	norms [groups]norm
}

// resize makes room for a number of groups of a batch.
func (t *discriminatorTrace) resize(batch, count int) {
	d, n := t.d, batch*count
	t.batch = batch
	t.images = grow(t.images, n*d.conv[0].in.values())
	t.dImages = grow(t.dImages, batch*d.conv[0].in.values())
	for i := range d.conv {
		t.conv[i] = grow(t.conv[i], n*d.conv[i].out.values())
		t.dConv[i] = grow(t.dConv[i], n*d.conv[i].out.values())
	}
	for _, x := range []*[]float32{&t.normalized, &t.hidden, &t.dNormalized, &t.dHidden} {
		*x = grow(*x, n*d.hidden.out)
	}
	t.outputs, t.dOutputs = grow(t.outputs, n), grow(t.dOutputs, n)
	for g := range min(count, tangent) {
		t.norms[g].reset(d.kind, batch, d.hidden.out)
	}
}

// rows returns groups [from, to) of a matrix with a number of columns.
func (t *discriminatorTrace) rows(x []float32, from, to, columns int) []float32 {
	return part(x, from*t.batch, to*t.batch, columns)
}

// group returns one group of such a matrix.
func (t *discriminatorTrace) group(x []float32, group, columns int) []float32 {
	return t.rows(x, group, group+1, columns)
}

// forward runs groups [from, to) of images through the network, in training: each group is
// normalized by its own statistics.
func (t *discriminatorTrace) forward(w *discriminatorWeights, from, to int) {
	d := t.d
	x := t.convolve(w, from, to)
	n, units := (to-from)*t.batch, d.hidden.out
	d.hidden.forward(&t.scratch, x, w.hidden, nil, t.rows(t.normalized, from, to, units), n)
	for g := from; g < to; g++ {
		t.norms[g].normalize(t.group(t.normalized, g, units))
	}
	copy(t.rows(t.hidden, from, to, units), t.rows(t.normalized, from, to, units))
	for i := from * t.batch; i < to*t.batch; i++ {
		h := part(t.hidden, i, i+1, units)
		kernels.Add(h, w.beta)
		leakyReLU.apply(h)
		t.outputs[i] = float32(kernels.Dot(h, w.outKernel)) + w.outBias[0]
	}
}

// convolve runs groups of images through the convolutions, and returns the outputs of the last one.
func (t *discriminatorTrace) convolve(w *discriminatorWeights, from, to int) []float32 {
	x := t.rows(t.images, from, to, t.d.conv[0].in.values())
	for i := range t.d.conv {
		c := &t.d.conv[i]
		y := t.rows(t.conv[i], from, to, c.out.values())
		c.forward(&t.scratch, x, w.kernel[i], w.bias[i], y, (to-from)*t.batch)
		leakyReLU.apply(y)
		x = y
	}
	return x
}

// backward computes the gradients of groups [from, to) from the gradients of the outputs, except
// for the images.
func (t *discriminatorTrace) backward(w *discriminatorWeights, from, to int) {
	units := t.d.hidden.out
	for g := from; g < to; g++ {
		t.hiddenBackward(w, g)
		a := activationsOf(g)
		n := &t.norms[a]
		n.jacobian(&n.backward, t.group(t.dHidden, g, units), t.group(t.dNormalized, g, units), t.group(t.normalized, a, units))
	}
	t.convBackward(w, from, to)
}

func (t *discriminatorTrace) hiddenBackward(w *discriminatorWeights, group int) {
	units, a := t.d.hidden.out, activationsOf(group)
	for i := range t.batch {
		d := part(t.dNormalized, group*t.batch+i, group*t.batch+i+1, units)
		copy(d, w.outKernel)
		kernels.Scale(t.dOutputs[group*t.batch+i], d)
		leakyReLU.pass(d, part(t.hidden, a*t.batch+i, a*t.batch+i+1, units))
	}
}

// convBackward computes the gradients of the convolutions of groups [from, to) from the gradient of
// the hidden layer before its normalization.
func (t *discriminatorTrace) convBackward(w *discriminatorWeights, from, to int) {
	d, n := t.d, (to-from)*t.batch
	dy := t.rows(t.dConv[1], from, to, d.conv[1].out.values())
	d.hidden.backward(&t.scratch, t.rows(t.dHidden, from, to, d.hidden.out), w.hidden, dy, n)
	t.passBack(1, from, to)
	d.conv[1].backward(&t.scratch, dy, w.kernel[1], t.rows(t.dConv[0], from, to, d.conv[0].out.values()), n)
	t.passBack(0, from, to)
}

// passBack propagates the gradient of groups through the activation of a convolution.
func (t *discriminatorTrace) passBack(i, from, to int) {
	values := t.d.conv[i].out.values()
	for g := from; g < to; g++ {
		a := activationsOf(g)
		leakyReLU.pass(t.group(t.dConv[i], g, values), t.group(t.conv[i], a, values))
	}
}

func (t *discriminatorTrace) imageGradient(w *discriminatorWeights, group int) []float32 {
	c := &t.d.conv[0]
	c.backward(&t.scratch, t.group(t.dConv[0], group, c.out.values()), w.kernel[0], t.dImages, t.batch)
	return t.dImages
}

// weightGradients sets g to the gradient of the weights: sums over groups [from, to).
func (t *discriminatorTrace) weightGradients(g *discriminatorWeights, from, to int) {
	d, n := t.d, (to-from)*t.batch
	x := t.rows(t.images, from, to, d.conv[0].in.values())
	for i := range d.conv {
		c := &d.conv[i]
		values := c.out.values()
		c.kernelGradient(&t.scratch, x, t.rows(t.dConv[i], from, to, values), g.kernel[i], n)
		kernels.SumRows(g.bias[i], t.rows(t.dConv[i], from, min(to, tangent), values))
		x = t.rows(t.conv[i], from, to, values)
	}
	d.hidden.kernelGradient(&t.scratch, x, t.rows(t.dHidden, from, to, d.hidden.out), g.hidden, n)
	t.outputGradients(g, to)
}

// outputGradients sets the gradients of beta and of the output layer. The interpolated images do
// not affect the gradients of the biases: the gradients of their outputs are constant.
func (t *discriminatorTrace) outputGradients(g *discriminatorWeights, to int) {
	units := t.d.hidden.out
	kernels.SumRows(g.beta, t.rows(t.dNormalized, generated, given+1, units))
	g.outBias[0] = 0
	for i := range t.batch { // in pairs, so that equal terms cancel exactly
		g.outBias[0] += t.dOutputs[generated*t.batch+i] + t.dOutputs[given*t.batch+i]
	}
	clear(g.outKernel)
	for i := generated * t.batch; i < to*t.batch; i++ {
		kernels.Axpy(t.dOutputs[i], part(t.hidden, i, i+1, units), g.outKernel)
	}
}
