package vision

import (
	"fmt"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
	"coalmine/models"
)

// ClassifierLearner computes gradients of a Classifier. It implements models.Learner.
type ClassifierLearner struct{ layersLearner }

// layersLearner computes gradients of the layers.
type layersLearner struct {
	trace  classifierTrace
	logits []float32    // gradients of the trace's fields
	units  []float32    // gradient of features
	last   []float32    // gradient of the last conv; those of the others replace conv
	pooled [2][]float32 // gradient of pooled
}

// NewLearner implements models.Network.
func (c *Classifier) NewLearner([]float32) models.Learner {
	return &ClassifierLearner{layersLearner{trace: classifierTrace{network: &c.convolutional}}}
}

// Gradient implements models.Learner: the loss is the cross-entropy of the labels, in nats, and a
// target is an image. Sums run through the images in order.
func (l *ClassifierLearner) Gradient(params []float32, examples [][]int32, gradient []float32) (models.Loss, error) {
	shape := l.trace.network.Config().Image.ImageShape
	if err := checkCall(l.trace.network, params, gradient); err != nil {
		return models.Loss{}, err
	}
	if err := checkExamples(shape, examples); err != nil {
		return models.Loss{}, err
	}
	if err := checkLabels(examples); err != nil {
		return models.Loss{}, err
	}
	l.resize(len(examples))
	readImages(l.trace.images, examples, 1)
	return l.gradient(params, gradient, func() float64 { return l.crossEntropy(examples) })
}

// gradient sets the gradient for the images read. losses returns the sum of their losses, and sets
// the gradient of the logits to the gradient of the mean loss.
func (l *layersLearner) gradient(params, gradient []float32, losses func() float64) (models.Loss, error) {
	t := &l.trace
	w, g := t.network.views(params), t.network.views(gradient)
	t.forward(&w)
	loss := models.Loss{Sum: losses(), Tokens: t.n}
	if !numbers.IsFinite(loss.Sum) {
		return models.Loss{}, &models.DivergedError{Name: "loss", Value: loss.Sum}
	}
	l.backward(&w, &g)
	return loss, nil
}

func checkCall(n interface{ Trained() int }, params, gradient []float32) error {
	if len(params) != n.Trained() {
		return fmt.Errorf("the parameter vector has %d elements, want %d", len(params), n.Trained())
	}
	if len(gradient) != n.Trained() {
		return fmt.Errorf("the gradient has %d elements, want %d", len(gradient), n.Trained())
	}
	return nil
}

func (l *layersLearner) resize(n int) {
	t := &l.trace
	t.resize(n)
	l.logits = grow(l.logits, len(t.logits))
	l.units = grow(l.units, len(t.features))
	l.last = grow(l.last, len(t.conv[2]))
	for i := range t.pooled {
		l.pooled[i] = grow(l.pooled[i], len(t.pooled[i]))
	}
}

// crossEntropy returns the sum of -log p(label), and sets the gradient of the logits to the
// gradient of the mean: (p - 1 at the label) / images.
func (l *ClassifierLearner) crossEntropy(examples [][]int32) (sum float64) {
	classes := l.trace.network.dense[1].out
	for i, e := range examples {
		logits, gradient := part(l.trace.logits, i, i+1, classes), part(l.logits, i, i+1, classes)
		label, most := labelOf(e), kernels.Max(logits)
		total := kernels.ExpSum(gradient, logits, most)
		sum += kernels.LogFloat64(total) - float64(logits[label]-most)
		kernels.Scale(float32(1/(total*float64(len(examples)))), gradient)
		gradient[label] -= 1 / float32(len(examples))
	}
	return sum
}

// backward sets g from the gradient of the logits.
func (l *layersLearner) backward(w, g *classifierWeights) {
	t := &l.trace
	c := t.network
	l.layerBackward(4, t.features, l.logits, w, g, l.units)
	relu.pass(l.units, t.features)
	l.layerBackward(3, t.conv[2], l.units, w, g, l.last)
	relu.pass(l.last, t.conv[2])
	dy := l.last
	for i := 2; i > 0; i-- {
		l.layerBackward(i, t.pooled[i-1], dy, w, g, l.pooled[i-1])
		relu.pass(l.pooled[i-1], t.pooled[i-1])
		dy = t.conv[i-1]
		maxPoolBackward(c.conv[i-1].out, l.pooled[i-1], dy, t.n)
	}
	l.layerBackward(0, t.images, dy, w, g, nil)
}

// layerBackward sets the gradients of layer i, and dx, unless it is nil, to the gradient of its
// inputs x, from dy, the gradient of its outputs.
func (l *layersLearner) layerBackward(i int, x, dy []float32, w, g *classifierWeights, dx []float32) {
	t := &l.trace
	layer := t.network.layers[i]
	layer.kernelGradient(&t.scratch, x, dy, g.kernel[i], t.n)
	kernels.SumRows(g.bias[i], dy)
	if dx != nil {
		layer.backward(&t.scratch, dy, w.kernel[i], dx, t.n)
	}
}
