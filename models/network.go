package models

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Network is a model of any architecture, as used by trainings and checkpoints: the layout of one
// flat vector of parameters, and its learners. It holds no parameters, is immutable and may be
// shared. checkpoints.NewNetwork makes the network of a Config; Language is one implementation.
type Network interface {
	// Config describes the network: an equal network can be made from it.
	Config() Config
	// Parameters is the length of the flat vector. The first Trained parameters are learned from
	// data: all, unless the server trains a part of the network, or a part is frozen.
	Parameters() int
	Trained() int
	// Tensors lists the named tensors in the order of the flat vector, which they fill
	// without gaps. No tensor crosses the end of the trained part.
	Tensors() []Tensor
	// Init draws the initial parameters.
	Init(rng *rand.Rand) []float32
	// NewLearner returns a learner, which allocates memory with its first batch. fixed holds the
	// parameters after the trained ones; empty if all are trained. The learner reads them.
	NewLearner(fixed []float32) Learner
	// ScoringFLOPs is the number of floating-point operations in the matrix products that
	// score one target (Loss.Tokens), a multiply-add counting as two, and TrainingFLOPs in
	// those of its gradient.
	ScoringFLOPs() float64
	TrainingFLOPs() float64
}

// Learner computes gradients of one network. It reuses its memory between batches; its results do
// not depend on previous batches. It is not safe for concurrent use.
type Learner interface {
	// Gradient computes the loss of a batch of examples at params, the trained parameters, and sets
	// gradient, of the same length, to the gradient of the mean loss per target. A loss that shows
	// that training diverged, such as NaN, gives a *DivergedError. After any error the content of gradient is undefined.
	Gradient(params []float32, examples [][]int32, gradient []float32) (Loss, error)
}

// Dropping is a learner that can drop elements of its layers' outputs; see Trainer.UseDropout.
type Dropping interface {
	UseDropout(rate float64, rng *rand.Rand) error
}

// Drawing is a learner that draws random numbers in addition to those of dropout.
type Drawing interface {
	// UseStream makes later gradients draw from rng.
	UseStream(rng *rand.Rand)
}

// Precomputing is a learner that can precompute the inputs of its gradients other than examples and
// trained parameters. The untrained parameters can then be released.
type Precomputing interface {
	Drawing
	// Precompute precomputes from rng, for batches of the given sizes in order, the draws of
	// Gradient and their results: one vector per batch, for learners of the same network.
	Precompute(rng *rand.Rand, batches []int) ([][]float32, error)
	// UsePrecomputed makes later gradients use the precomputed vectors, one each. The vectors are
	// only read. A batch of a different size is an error.
	UsePrecomputed(vectors [][]float32)
}

// Tracking is a learner or generator that keeps moving statistics of its batches among the
// parameters. No gradient changes them.
type Tracking interface {
	// Track updates the statistics in params with the batch of the last Gradient. Call it once
	// after each step. params holds the parameters that the step changed: the trained ones for a
	// learner, the whole vector for a generator.
	Track(params []float32)
}

// Clipping is a learner that can clip the gradient of every example; see Trainer.ClippedSum.
type Clipping interface {
	ClippedSum(params []float32, examples [][]int32, factor func(norm float64) float64, sum []float32, norms []float64) (Loss, error)
}

// Classifying is a network that predicts the label of an example.
type Classifying interface {
	// NewClassifier returns a classifier at params, which it only reads.
	NewClassifier(params []float32) Classifier
}

// Classifier predicts labels. It is not safe for concurrent use.
type Classifier interface {
	// Classify predicts the label of each example, in their order. A prediction does
	// not depend on the other examples.
	Classify(examples [][]int32) ([]Prediction, error)
}

// NoLabel is the label of an unlabelled example.
const NoLabel = -1

// Prediction is the output of a classifier for one example.
type Prediction struct {
	// Label is the label of the example, or NoLabel; Class is the predicted label, the first in a
	// tie.
	Label, Class int
	// Loss is -log p(Label), in nats; 0 without a label.
	Loss float64
	// Features are the outputs of the last hidden layer, Logits the inputs of the softmax,
	// Probabilities its outputs.
	Features, Logits, Probabilities []float32
}

// Labelling is a network that predicts properties of a whole text: a score, or its labels.
type Labelling interface {
	// NewLabeller returns a labeller at params, which it only reads.
	NewLabeller(params []float32) Labeller
}

// Labeller predicts labels of texts. It is not safe for concurrent use.
type Labeller interface {
	// Label predicts the labels of each example, in their order. A prediction does not
	// depend on the other examples.
	Label(examples [][]int32) ([]Labelled, error)
}

// Labelled holds the true and the predicted values of a text: one score each for a regressor; for a
// tagger, by label, 1 or 0 and the predicted probability.
type Labelled struct{ Truth, Predicted []float32 }

// Generating is a network with a generator after the parameters that learn from data. The server
// trains it.
type Generating interface {
	// NewGenerator returns the generator at params, the whole vector. It reads params in each call,
	// because the trainer changes them between gradients.
	NewGenerator(params []float32) Generator
	// GeneratorFLOPs counts the floating-point operations in the matrix products of Generator.Gradient for one
	// image, as TrainingFLOPs does.
	GeneratorFLOPs() float64
}

// Generator makes images. It is not safe for concurrent use.
type Generator interface {
	// Gradient computes the generator's loss on a batch of its own images, made from inputs drawn
	// from rng. It sets gradient, with one element for each parameter after the trained ones.
	Gradient(rng *rand.Rand, batch int, gradient []float32) (loss float64, err error)
	// Generate makes n images from inputs drawn from rng. Each has ImageShape.Values values, from 0
	// to 255.
	Generate(rng *rand.Rand, n int) ([][]byte, error)
}

// CheckParameters returns an error unless the vector has the network's length.
func CheckParameters(n interface{ Parameters() int }, params []float32) error {
	return checkLength("the parameter vector", len(params), n.Parameters())
}

// TrainedTensors lists the tensors of the trained parameters.
func TrainedTensors(n Network) []Tensor {
	return slices.DeleteFunc(n.Tensors(), func(t Tensor) bool { return t.Offset >= n.Trained() })
}

// LanguageOf returns the network as a language model, or an error that names its kind.
func LanguageOf(n Network) (*Language, error) {
	if l, ok := n.(*Language); ok {
		return l, nil
	}
	return nil, fmt.Errorf("the model is a %s; expected a language model, of kind %v", n.Config().Kind, Kinds())
}

// NewLearner implements Network: it returns a Trainer, or for a transformer a learner that returns an error.
func (m *Language) NewLearner([]float32) Learner {
	if m.config.Kind == Transformer {
		return untrainable{}
	}
	return m.NewTrainer()
}
