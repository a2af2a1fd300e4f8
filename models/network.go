package models

import (
	"fmt"
	"math/rand/v2"
)

// Network is a model of any architecture, as trainings and checkpoints know it: the
// layout of one flat vector of parameters, and what learns them. It holds no parameters
// itself, is immutable and may be shared. Package architectures makes the network of a
// Config; Language is one.
type Network interface {
	// Config describes the network: New of package architectures makes an equal one of it.
	Config() Config
	// Parameters is the length of the flat vector, of which the first Trained are learned
	// on data: all, but for a network that the server trains a part of by itself.
	Parameters() int
	Trained() int
	// Tensors lists the named tensors in the order of the flat vector, which they fill
	// without gaps. None lies across the end of what is trained.
	Tensors() []Tensor
	// Init draws the initial parameters.
	Init(rng *rand.Rand) []float32
	// NewLearner returns a learner with no memory yet. fixed are the parameters after the
	// trained ones, which it reads; none where all are trained.
	NewLearner(fixed []float32) Learner
	// ScoringFLOPs is the number of floating-point operations in the matrix products that
	// score one target (Loss.Tokens), a multiply-add counting as two, and TrainingFLOPs in
	// those of its gradient.
	ScoringFLOPs() float64
	TrainingFLOPs() float64
}

// Learner computes gradients of one network. It keeps its memory from batch to batch; what
// it computes does not depend on the batches before. It is not safe for concurrent use.
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
	// UseStream makes the gradients that follow draw from rng.
	UseStream(rng *rand.Rand)
}

// Foreseeing learners can make ahead of time what their gradients take beside examples
// and trained parameters. The parameters that are not trained can be let go of then.
type Foreseeing interface {
	Drawing
	// Foresee draws from rng for batches of so many examples each, in their order, what
	// Gradient would draw and make of it: one vector a batch, which only a learner of the
	// same network understands.
	Foresee(rng *rand.Rand, batches []int) ([][]float32, error)
	// UseForeseen makes the gradients that follow take the vectors, one each. They are only
	// read. A batch of another size than was foreseen is an error.
	UseForeseen(vectors [][]float32)
}

// Tracking learners and generators keep moving statistics of their batches among the
// parameters, where no gradient moves them.
type Tracking interface {
	// Track moves the statistics in params by those of the batch of the last Gradient. It
	// is called once after each, when the step has been taken. params are the ones that
	// the step moved: a learner's trained ones, of a generator the whole vector.
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
	// Classify predicts the label of each example, in their order. What it says of one
	// does not depend on the others.
	Classify(examples [][]int32) ([]Prediction, error)
}

// NoLabel stands for the label of an example that has none.
const NoLabel = -1

// Prediction is what a classifier says of one example.
type Prediction struct {
	// Label is the example's own, or NoLabel; Class the predicted one: of equals the first.
	Label, Class int
	// Loss is -log p(Label), in nats; 0 without a label.
	Loss float64
	// Features are the outputs of the last hidden layer, Logits the inputs of the softmax,
	// Probabilities its outputs.
	Features, Logits, Probabilities []float32
}

// Labelling networks predict what is said of a whole text: a score, or which labels it has.
type Labelling interface {
	// NewLabeller returns a labeller at params, which it only reads.
	NewLabeller(params []float32) Labeller
}

// Labeller predicts labels of texts. It is not safe for concurrent use.
type Labeller interface {
	// Label predicts of each example, in their order. What it says of one does not depend
	// on the others.
	Label(examples [][]int32) ([]Labelled, error)
}

// Labelled is what is said of a text, and what a network predicts: of a regressor one
// score each; of a tagger by label 1 or 0, whether the text has it, and its probability.
type Labelled struct{ Truth, Predicted []float32 }

// Generating networks have a generator behind the parameters that learn from data, which
// the server trains.
type Generating interface {
	// NewGenerator returns the generator at params, the whole vector, which it only reads,
	// anew each time: whoever trains it changes params between two gradients.
	NewGenerator(params []float32) Generator
}

// Generator makes images. It is not safe for concurrent use.
type Generator interface {
	// Gradient computes the generator's loss on so many images of its own, made of inputs
	// drawn from rng, and sets gradient, which has an element for each parameter after the
	// trained ones, to its gradient.
	Gradient(rng *rand.Rand, batch int, gradient []float32) (loss float64, err error)
	// Generate makes so many images of inputs drawn from rng: each has ImageShape.Values
	// values, from 0 to 255.
	Generate(rng *rand.Rand, n int) ([][]byte, error)
}

// CheckParameters returns an error unless the vector has the network's length.
func CheckParameters(n interface{ Parameters() int }, params []float32) error {
	return checkLength("the parameter vector", len(params), n.Parameters())
}

// LanguageOf returns the network as a language model, or an error that says what it is.
func LanguageOf(n Network) (*Language, error) {
	if l, ok := n.(*Language); ok {
		return l, nil
	}
	return nil, fmt.Errorf("the model is a %s; expected a language model, of kind %v", n.Config().Kind, Kinds())
}

// Trained implements Network: all parameters are.
func (m *Language) Trained() int { return m.Parameters() }

// NewLearner implements Network: a Trainer.
func (m *Language) NewLearner([]float32) Learner { return m.NewTrainer() }
