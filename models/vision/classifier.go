package vision

import (
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// classifierSizes holds the numbers of filters of a classifier's convolutions and of units of its
// hidden layer.
type classifierSizes struct {
	filters [3]int
	units   int
}

// paperClassifier holds the sizes of Augenstein et al. 2020.
var paperClassifier = classifierSizes{filters: [3]int{32, 64, 64}, units: 64}

// Classifier is the convolutional classifier. Its layout holds no parameters, is immutable
// and may be shared. With images of 28 x 28:
//
//	layer                                          outputs
//	conv1: 3x3 convolution, 32 filters             26 x 26 x 32
//	largest of each 2x2 pixels, ReLU               13 x 13 x 32
//	conv2: 3x3 convolution, 64 filters             11 x 11 x 64
//	largest of each 2x2 pixels, ReLU               5 x 5 x 64
//	conv3: 3x3 convolution, 64 filters, ReLU       3 x 3 x 64
//	dense1: dense, 64 units, ReLU                  64, the features
//	dense2: dense, and a softmax over it           the classes, the logits
//
// No convolution is padded. Each layer has a .kernel and a .bias tensor, in this order. Kernels are
// [side, side, in, out] for a convolution, [in, out] for a dense layer.
type Classifier struct{ convolutional }

// convolutional is the layout of the layers, common to Classifier and Tagger.
type convolutional struct {
	models.Layout
	conv   [3]*convolution
	dense  [2]dense
	layers [5]linear // of conv and dense
	kernel [5]models.Span
	bias   [5]models.Span
}

func newConvolutional(config models.Config, sizes classifierSizes) convolutional {
	shape := config.Image.ImageShape
	c := convolutional{Layout: models.NewLayout(config)}
	c.conv[0] = valid(area{shape.Height, shape.Width, shape.Channels}, 3, sizes.filters[0])
	c.conv[1] = valid(pooled(c.conv[0].out), 3, sizes.filters[1])
	c.conv[2] = valid(pooled(c.conv[1].out), 3, sizes.filters[2])
	c.dense = [2]dense{{c.conv[2].out.values(), sizes.units}, {sizes.units, shape.Classes}}
	c.layers = [5]linear{c.conv[0], c.conv[1], c.conv[2], c.dense[0], c.dense[1]}
	for i, name := range []string{"conv1", "conv2", "conv3", "dense1", "dense2"} {
		shape := c.layers[i].shape()
		c.kernel[i] = c.Add(name+kernelName, shape...)
		c.bias[i] = c.Add(name+biasName, shape[len(shape)-1])
	}
	return c
}

// Init implements models.Network: see initialize.
func (c *convolutional) Init(rng *rand.Rand) []float32 { return initialize(&c.Layout, rng) }

// ScoringFLOPs is the number of floating-point operations in the matrix products of one
// image, a multiply-add counting as two.
func (c *convolutional) ScoringFLOPs() float64 {
	products := 0
	for _, l := range c.layers {
		products += l.products()
	}
	return 2 * float64(products)
}

// TrainingFLOPs implements models.Network. The gradient of the image itself is not computed.
func (c *convolutional) TrainingFLOPs() float64 {
	return 3*c.ScoringFLOPs() - 2*float64(c.conv[0].products())
}

// classifierWeights are the views of one flat vector, by layer.
type classifierWeights struct{ kernel, bias [5][]float32 }

func (c *convolutional) views(flat []float32) (w classifierWeights) {
	for i := range c.kernel {
		w.kernel[i], w.bias[i] = c.kernel[i].Of(flat), c.bias[i].Of(flat)
	}
	return w
}

// classifierTrace is the state of a forward pass of n images.
type classifierTrace struct {
	network *convolutional
	scratch scratch
	n       int
	images  []float32
	conv    [3][]float32 // outputs of the convolutions, before pooling, until the backward pass
	pooled  [2][]float32 // after pooling and ReLU
	// features are after the ReLU of dense1, [n, units]; logits are [n, classes].
	features, logits []float32
}

// resize makes room for n images.
func (t *classifierTrace) resize(n int) {
	c := t.network
	t.n = n
	t.images = grow(t.images, n*c.conv[0].in.values())
	for i := range c.conv {
		t.conv[i] = grow(t.conv[i], n*c.conv[i].out.values())
	}
	for i := range t.pooled {
		t.pooled[i] = grow(t.pooled[i], n*pooled(c.conv[i].out).values())
	}
	t.features = grow(t.features, n*c.dense[0].out)
	t.logits = grow(t.logits, n*c.dense[1].out)
}

func (t *classifierTrace) forward(w *classifierWeights) {
	c, x := t.network, t.images
	for i := range c.conv {
		c.conv[i].forward(&t.scratch, x, w.kernel[i], w.bias[i], t.conv[i], t.n)
		x = t.activate(i)
	}
	c.dense[0].forward(&t.scratch, x, w.kernel[3], w.bias[3], t.features, t.n)
	relu.apply(t.features)
	c.dense[1].forward(&t.scratch, t.features, w.kernel[4], w.bias[4], t.logits, t.n)
}

// activate turns a convolution's outputs into the next layer's inputs. Pooling precedes
// the ReLU, which gives the same result with a quarter of the work.
func (t *classifierTrace) activate(i int) []float32 {
	y := t.conv[i]
	if i < len(t.pooled) {
		maxPool(t.network.conv[i].out, y, t.pooled[i], t.n)
		y = t.pooled[i]
	}
	relu.apply(y)
	return y
}

const classifiedAtOnce = 32

// classifying applies one set of parameters of a Classifier. It implements models.Classifier.
type classifying struct {
	trace  classifierTrace
	params []float32
}

// NewClassifier implements models.Classifying.
func (c *Classifier) NewClassifier(params []float32) models.Classifier {
	return &classifying{classifierTrace{network: &c.convolutional}, params}
}

func (c *classifying) Classify(examples [][]int32) ([]models.Prediction, error) {
	network := c.trace.network
	if err := models.CheckParameters(network, c.params); err != nil {
		return nil, err
	}
	for _, e := range examples {
		if err := checkExample(network.Config().Image.ImageShape, e); err != nil {
			return nil, err
		}
	}
	predictions := make([]models.Prediction, 0, len(examples))
	for batch := range slices.Chunk(examples, classifiedAtOnce) {
		predictions = c.classify(predictions, batch)
	}
	return predictions, nil
}

func (c *classifying) classify(predictions []models.Prediction, batch [][]int32) []models.Prediction {
	t := &c.trace
	t.resize(len(batch))
	readImages(t.images, batch, 1)
	w := t.network.views(c.params)
	t.forward(&w)
	for i, e := range batch {
		logits := part(t.logits, i, i+1, t.network.dense[1].out)
		features := part(t.features, i, i+1, t.network.dense[0].out)
		predictions = append(predictions, predict(labelOf(e), logits, features))
	}
	return predictions
}

func predict(label int, logits, features []float32) models.Prediction {
	most := kernels.Max(logits)
	probabilities := make([]float32, len(logits))
	total := kernels.ExpSum(probabilities, logits, most)
	kernels.Scale(float32(1/total), probabilities)
	p := models.Prediction{
		Label:         max(models.NoLabel, label),
		Class:         max(0, slices.Index(logits, most)), // 0 for NaN
		Logits:        slices.Clone(logits),
		Features:      slices.Clone(features),
		Probabilities: probabilities,
	}
	if label >= 0 {
		p.Loss = kernels.LogFloat64(total) - float64(logits[label]-most)
	}
	return p
}
