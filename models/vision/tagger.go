package vision

import (
	"fmt"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/models"
)

// Tagger is a network for images with any number of labels: the layers of a Classifier, with
// sigmoid(logit) as the probability of each label instead of a softmax. An example has a number for
// each label, 0 or 1, instead of one label.
type Tagger struct{ convolutional }

func (c *convolutional) labels() int { return c.Config().Image.Classes }

func (c *convolutional) checkTagged(examples [][]int32) error {
	labels, values := c.labels(), c.Config().Image.Values()
	for i, e := range examples {
		if want := 1 + labels + values; len(e) != want {
			return fmt.Errorf("image %d of a batch: it has %d numbers; expected a begin, %d labels and %d values, %d in all", i, len(e), labels, values, want)
		}
		for j, v := range e[1 : 1+labels] {
			if v != firstWord && v != firstWord+1 {
				return fmt.Errorf("image %d of a batch: label %d is %d: want 0 or 1", i, j, v-firstWord)
			}
		}
		if err := checkValues(e[1+labels:]); err != nil {
			return fmt.Errorf("image %d of a batch: %w", i, err)
		}
	}
	return nil
}

func truthOf(dst []float32, example []int32) {
	for i := range dst {
		dst[i] = float32(example[1+i] - firstWord)
	}
}

// TaggerLearner computes gradients of a Tagger. It implements models.Learner.
type TaggerLearner struct {
	layersLearner
	truth []float32 // of one image
}

// NewLearner implements models.Network.
func (n *Tagger) NewLearner([]float32) models.Learner {
	return &TaggerLearner{
		layersLearner: layersLearner{trace: classifierTrace{network: &n.convolutional}},
		truth:         make([]float32, n.labels()),
	}
}

// Gradient implements models.Learner: the loss is the mean over labels of the binary cross-entropy,
// in nats, and a target is an image. Sums run through the images in order.
func (l *TaggerLearner) Gradient(params []float32, examples [][]int32, gradient []float32) (models.Loss, error) {
	network := l.trace.network
	if err := checkCall(network, params, gradient); err != nil {
		return models.Loss{}, err
	}
	if len(examples) == 0 {
		return models.Loss{}, errNoImages
	}
	if err := network.checkTagged(examples); err != nil {
		return models.Loss{}, err
	}
	l.resize(len(examples))
	readImages(l.trace.images, examples, network.labels())
	return l.gradient(params, gradient, func() float64 { return l.crossEntropies(examples) })
}

// crossEntropies returns the sum of the losses, and sets the gradient of the logits to the gradient
// of the mean.
func (l *TaggerLearner) crossEntropies(examples [][]int32) (sum float64) {
	labels := l.trace.network.labels()
	for i, e := range examples {
		truthOf(l.truth, e)
		sum += models.CrossEntropies(part(l.trace.logits, i, i+1, labels), l.truth, part(l.logits, i, i+1, labels))
	}
	kernels.Scale(1/float32(len(examples)), l.logits)
	return sum
}

// tagging applies one set of parameters of a Tagger. It implements models.Labeller.
type tagging struct {
	trace  classifierTrace
	params []float32
}

// NewLabeller implements models.Labelling.
func (n *Tagger) NewLabeller(params []float32) models.Labeller {
	return &tagging{classifierTrace{network: &n.convolutional}, params}
}

// Label implements models.Labeller. An output that is not finite gives a *models.DivergedError.
func (l *tagging) Label(examples [][]int32) ([]models.Labelled, error) {
	if err := models.CheckParameters(l.trace.network, l.params); err != nil {
		return nil, err
	}
	if err := l.trace.network.checkTagged(examples); err != nil {
		return nil, err
	}
	labelled := make([]models.Labelled, 0, len(examples))
	for batch := range slices.Chunk(examples, classifiedAtOnce) {
		if err := l.label(batch); err != nil {
			return nil, err
		}
		labelled = l.appendLabelled(labelled, batch)
	}
	return labelled, nil
}

func (l *tagging) label(batch [][]int32) error {
	t := &l.trace
	t.resize(len(batch))
	readImages(t.images, batch, t.network.labels())
	w := t.network.views(l.params)
	t.forward(&w)
	_, err := models.FiniteNorm("prediction", t.logits)
	return err
}

// appendLabelled appends the true and the predicted labels of the images of a batch.
func (l *tagging) appendLabelled(labelled []models.Labelled, batch [][]int32) []models.Labelled {
	labels := l.trace.network.labels()
	for i, e := range batch {
		p := models.Labelled{Truth: make([]float32, labels), Predicted: make([]float32, labels)}
		truthOf(p.Truth, e)
		kernels.Sigmoid(p.Predicted, part(l.trace.logits, i, i+1, labels))
		labelled = append(labelled, p)
	}
	return labelled
}
