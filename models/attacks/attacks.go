// Package attacks has the models that attribute a device's update to its user, one class per user
// (Orekondy et al. 2018, section 4.3). Each is trained on the updates of shadow devices, and then
// scores any update for every class:
//
//	mlp     one hidden layer of 128 ReLU, softmax; SGD with momentum
//	svm     linear, one class against the rest
//	knn     the share of the class among the 10 nearest updates
//	cosine  the cosine to the class's mean update; nothing is trained
//
// Data come as a stream of blocks, so memory is limited to a block, a batch and the model for any
// number of examples. The network is a graph of package networks.
package attacks

import (
	"context"
	"fmt"
	"math/rand/v2"

	"coalmine/internal/registry"
)

// Kind names an attack.
type Kind string

// Kinds of attacks.
const (
	MLP    Kind = "mlp"
	SVM    Kind = "svm"
	KNN    Kind = "knn"
	Cosine Kind = "cosine"
)

// Choices lists the kinds for the experiment file.
func (Kind) Choices() []string { return kinds.Words() }

// Kinds lists all kinds, in the order of tables.
func Kinds() []Kind { return kinds.Names() }

type entry struct {
	kind    Kind
	title   string
	summary string
	// validates reports that the loss of a validation part ends the training.
	validates bool
	start     func(Shape, Options, *rand.Rand) Attack
}

var kinds = registry.New("attack", func(e entry) Kind { return e.kind },
	entry{MLP, "MLP", "a network with one hidden layer of 128 ReLU", true, newMLP},
	entry{SVM, "SVM", "a linear support vector machine, one class against the rest", false, newSVMAttack},
	entry{KNN, "kNN", "the share of a class among the 10 nearest updates", false, newNearest},
	entry{Cosine, "cosine", "the cosine to the mean update of a class, without training", false, newCosine})

// Title is the name for tables, such as "MLP".
func (k Kind) Title() string {
	e, err := kinds.Find(k)
	if err != nil {
		return string(k)
	}
	return e.title
}

// Validates reports whether the attack needs a validation part. Other attacks learn from all data.
func (k Kind) Validates() bool {
	e, err := kinds.Find(k)
	return err == nil && e.validates
}

// Shape is the shape of the data: vectors of Inputs values in Classes classes.
type Shape struct{ Inputs, Classes int }

// Options of attacks that are trained in epochs.
type Options struct {
	// Epochs is the largest number of epochs: fewer if the training converges.
	Epochs int
	// Batch is the number of examples in a step.
	Batch int
}

// Block is a list of examples: Rows has Inputs values for each, one after another, and Labels
// its class.
type Block struct {
	Rows   []float32
	Labels []int
	// At holds the positions of the examples in the source, the same in every epoch. It is nil for
	// a validation part.
	At []int
}

// Data are the training examples of an attack. They must not include the updates that the
// attack is tested on.
type Data interface {
	// Examples returns the number of examples.
	Examples() int
	// Blocks calls do with all examples, a block at a time. Epoch 0 has the order of the source;
	// each later epoch has its own random order. A block is valid only during the call.
	Blocks(ctx context.Context, epoch int, do func(Block) error) error
	// Validation returns examples that Blocks leaves out; empty except for kinds that validate.
	Validation() Block
}

// Attack attributes updates to users.
type Attack interface {
	// Train learns from the data, which Score may read again.
	Train(ctx context.Context, data Data) (Training, error)
	// Score writes the scores of vectors, row by row: scores is [len(rows)/Inputs, Classes].
	// A higher score is stronger evidence for the class. Scores are compared within a class
	// and within a row.
	Score(ctx context.Context, rows, scores []float32) error
}

// Training is the record of the training of an attack.
type Training struct {
	// Epochs is the number of completed epochs; 0 without epochs. The attack keeps the state after
	// epoch Best.
	Epochs int `json:"epochs,omitempty" doc:"completed epochs of training"`
	Best   int `json:"best,omitempty" doc:"epoch with the lowest validation loss; the attack keeps its state"`
	// Loss is the mean loss of the validation part after epoch Best.
	Loss float64 `json:"validation_loss,omitempty" doc:"mean validation loss after the best epoch"`
	// Converged reports that the loss stopped falling before the last epoch.
	Converged bool `json:"converged,omitempty"`
}

// Unfinished reports whether the limit on epochs ended the training.
func (t *Training) Unfinished() bool { return t.Epochs > 0 && !t.Converged }

// New returns an untrained attack. Initial weights are drawn from rng.
func New(kind Kind, shape Shape, o Options, rng *rand.Rand) (Attack, error) {
	e, err := kinds.Find(kind)
	if err != nil {
		return nil, err
	}
	if shape.Inputs < 1 || shape.Classes < 2 {
		return nil, fmt.Errorf("attack %s on vectors of %d values and %d classes; expected at least 1 and 2", kind, shape.Inputs, shape.Classes)
	}
	if o.Epochs < 1 || o.Batch < 1 {
		return nil, fmt.Errorf("attack %s in %d epochs with batches of %d; expected at least 1 of each", kind, o.Epochs, o.Batch)
	}
	return e.start(shape, o, rng), nil
}

func (s Shape) check(b Block, examples int) error {
	if len(b.Rows) != len(b.Labels)*s.Inputs || len(b.At) != len(b.Labels) {
		return fmt.Errorf("a block has %d values and %d places for %d examples; expected %d values and a place for each", len(b.Rows), len(b.At), len(b.Labels), s.Inputs)
	}
	for i, label := range b.Labels {
		if label < 0 || label >= s.Classes {
			return fmt.Errorf("example %d of a block has the class %d; expected 0 to %d", i, label, s.Classes-1)
		}
		if at := b.At[i]; at < 0 || at >= examples {
			return fmt.Errorf("example %d of a block has the place %d of %d examples", i, at, examples)
		}
	}
	return nil
}
