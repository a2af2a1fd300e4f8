package models

import (
	"fmt"
	"math/rand/v2"
)

// Network is a model of any architecture as used by trainings and checkpoints: the
// layout of one flat vector of parameters, and its learners. It holds no parameters
// itself, is immutable and may be shared. Package architectures makes the network of a
// Config; Language is one.
type Network interface {
	// Config describes the network: New of package architectures makes an equal network
	// from it.
	Config() Config
	// Parameters is the length of the flat vector, of which the first Trained are learned
	// from data: all, except for a network with a part that the server trains.
	Parameters() int
	Trained() int
	// Tensors lists the named tensors in the order of the flat vector, which they fill
	// without gaps. No tensor crosses the end of the trained part.
	Tensors() []Tensor
	// Init draws the initial parameters.
	Init(rng *rand.Rand) []float32
	// NewLearner returns a learner with no memory yet. fixed are the parameters after the
	// trained ones, which it reads; none if all are trained.
	NewLearner(fixed []float32) Learner
	// ScoringFLOPs is the number of floating-point operations in the matrix products that
	// score one target (Loss.Tokens), a multiply-add counting as two, and TrainingFLOPs in
	// those of its gradient.
	ScoringFLOPs() float64
	TrainingFLOPs() float64
}

// Learner computes gradients of one network. It reuses its memory from batch to batch; its
// results do not depend on the batches before. It is not safe for concurrent use.
type Learner interface {
	// Gradient computes the loss of a batch of examples at params, the trained parameters,
	// and sets gradient, of the same length, to that of the mean loss per target.
	// A loss that is not finite gives a *DivergedError. After any error the content of
	// gradient is undefined.
	Gradient(params []float32, examples [][]int32, gradient []float32) (Loss, error)
}

// Dropping learners can drop elements of their layers' outputs; see Trainer.UseDropout.
type Dropping interface {
	UseDropout(rate float64, rng *rand.Rand) error
}

// Drawing learners draw random numbers beside those of dropout.
type Drawing interface {
	// UseStream makes later gradients draw from rng.
	UseStream(rng *rand.Rand)
}

// Precomputing learners can precompute the inputs of their gradients other than examples
// and trained parameters. The untrained parameters can be released then.
type Precomputing interface {
	Drawing
	// Precompute precomputes from rng, for batches of the given sizes in order, the draws of
	// Gradient and their results: one vector a batch, which only a learner of the same
	// network understands.
	Precompute(rng *rand.Rand, batches []int) ([][]float32, error)
	// UsePrecomputed makes later gradients use the precomputed vectors, one each. They are
	// only read. A batch of another size than precomputed is an error.
	UsePrecomputed(vectors [][]float32)
}

// Tracking learners and generators keep moving statistics of their batches among the
// parameters, which no gradient moves.
type Tracking interface {
	// Track moves the statistics in params by those of the batch of the last Gradient. It
	// is called once after each, when the step has been taken. params are the ones that
	// the step moved: a learner's trained ones, for a generator the whole vector.
	Track(params []float32)
}

// Clipping learners can clip the gradient of every example; see Trainer.ClippedSum.
type Clipping interface {
	ClippedSum(params []float32, examples [][]int32, factor func(norm float64) float64, sum []float32, norms []float64) (Loss, error)
}

// Classifying networks predict the label of an example.
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
	// Label is the example's own, or NoLabel; Class the predicted one, the first of equals.
	Label, Class int
	// Loss is -log p(Label), in nats; 0 without a label.
	Loss float64
	// Features are the outputs of the last hidden layer, Logits the inputs of the softmax,
	// Probabilities its outputs.
	Features, Logits, Probabilities []float32
}

// Labelling networks predict properties of a whole text: a score, or its labels.
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

// Labelled holds the true and the predicted values of a text: one score each for a
// regressor; for a tagger by label 1 or 0, whether the text has it, and its probability.
type Labelled struct{ Truth, Predicted []float32 }

// Generating networks have a generator after the parameters that learn from data. The
// server trains it.
type Generating interface {
	// NewGenerator returns the generator at params, the whole vector, which it reads anew
	// for each call: its trainer changes params between two gradients.
	NewGenerator(params []float32) Generator
}

// Generator makes images. It is not safe for concurrent use.
type Generator interface {
	// Gradient computes the generator's loss on a batch of its own images, generated from
	// inputs drawn from rng, and sets gradient, which has an element for each parameter
	// after the trained ones, to its gradient.
	Gradient(rng *rand.Rand, batch int, gradient []float32) (loss float64, err error)
	// Generate makes n images of inputs drawn from rng: each has ImageShape.Values
	// values, from 0 to 255.
	Generate(rng *rand.Rand, n int) ([][]byte, error)
}

// CheckParameters returns an error unless the vector has the network's length.
func CheckParameters(n interface{ Parameters() int }, params []float32) error {
	return checkLength("the parameter vector", len(params), n.Parameters())
}

// LanguageOf returns the network as a language model, or an error that names its kind.
func LanguageOf(n Network) (*Language, error) {
	if l, ok := n.(*Language); ok {
		return l, nil
	}
	return nil, fmt.Errorf("the model is a %s; expected a language model, of kind %v", n.Config().Kind, Kinds())
}

// Trained implements Network: all parameters are.
func (m *Language) Trained() int { return m.Parameters() }

// NewLearner implements Network: it returns a Trainer, or for a transformer a learner that returns an error.
func (m *Language) NewLearner([]float32) Learner {
	if m.config.Kind == Transformer {
		return untrainable{}
	}
	return m.NewTrainer()
}
