package networks

import "fmt"

// batch is the part of a graph that takes examples: at most rows at a time, the
// rows that are left being zeros without weight.
type batch[T Real] struct {
	config Config
	rows   int
	inputs []T // [rows, inputs]
}

// fill copies the examples, row-major, and returns their number.
func (b *batch[T]) fill(inputs []T) (int, error) {
	n := len(inputs) / b.config.Inputs
	if n < 1 || n > b.rows || len(inputs) != n*b.config.Inputs {
		return 0, fmt.Errorf("%d features: want those of 1 to %d examples, %d each", len(inputs), b.rows, b.config.Inputs)
	}
	clear(b.inputs[copy(b.inputs, inputs):])
	return n, nil
}

// Trainer computes gradients of a classifier, for use in float32. It is not safe
// for concurrent use.
type Trainer[T Real] struct {
	batch[T]
	graph  *Graph[T]
	labels []T // [rows, classes]: one-hot over the number of examples
}

// NewTrainer returns a trainer for batches of at most the given number of examples.
func (c *Classifier) NewTrainer(examples int) (*Trainer[float32], error) {
	return newTrainer[float32](c.config, examples)
}

func newTrainer[T Real](c Config, examples int) (*Trainer[T], error) {
	if examples < 1 {
		return nil, fmt.Errorf("batches of %d examples: want at least 1", examples)
	}
	g := NewGraph[T]()
	t := &Trainer[T]{graph: g, batch: batch[T]{config: c, rows: examples}}
	x, inputs := g.Input("inputs", examples, c.Inputs)
	y, labels := g.Input("labels", examples, c.Classes)
	t.inputs, t.labels = inputs, labels
	scores, err := logits(g, c, x)
	if err != nil {
		return nil, err
	}
	loss, err := crossEntropy(scores, y)
	if err != nil {
		return nil, err
	}
	return t, g.CompileLoss(loss)
}

// Gradient returns the mean cross-entropy of the examples, in nats, and sets
// gradient to its gradient. inputs is [examples, Config.Inputs], row-major; labels
// has one label for each example. A loss that is not finite gives a
// *models.DivergedError.
func (t *Trainer[T]) Gradient(params, inputs []T, labels []int, gradient []T) (float64, error) {
	n, err := t.fill(inputs)
	if err != nil {
		return 0, err
	}
	if err := checkLabels(labels, n, t.config.Classes); err != nil {
		return 0, err
	}
	clear(t.labels)
	for i, label := range labels {
		t.labels[i*t.config.Classes+label] = 1 / T(n)
	}
	return t.graph.Gradient(params, gradient)
}

func checkLabels(labels []int, examples, classes int) error {
	if len(labels) != examples {
		return fmt.Errorf("%d labels for %d examples: want one each", len(labels), examples)
	}
	for i, label := range labels {
		if label < 0 || label >= classes {
			return fmt.Errorf("example %d has label %d: want 0 to %d", i, label, classes-1)
		}
	}
	return nil
}

// Close releases the trainer.
func (t *Trainer[T]) Close() error { return t.graph.Close() }

// Scorer computes the logits of a classifier. It is not safe for concurrent use.
type Scorer struct {
	batch[float32]
	graph *Graph[float32]
}

// NewScorer returns a scorer for batches of at most the given number of examples.
func (c *Classifier) NewScorer(examples int) (*Scorer, error) {
	if examples < 1 {
		return nil, fmt.Errorf("batches of %d examples: want at least 1", examples)
	}
	g := NewGraph[float32]()
	x, inputs := g.Input("inputs", examples, c.config.Inputs)
	scores, err := logits(g, c.config, x)
	if err != nil {
		return nil, err
	}
	g.Compile(scores)
	return &Scorer{batch[float32]{c.config, examples, inputs}, g}, nil
}

// Logits returns the logits [examples, classes] of inputs [examples, inputs],
// row-major. They are valid until the next call.
func (s *Scorer) Logits(params, inputs []float32) ([]float32, error) {
	n, err := s.fill(inputs)
	if err != nil {
		return nil, err
	}
	out, err := s.graph.Run(params)
	if err != nil {
		return nil, err
	}
	return out[:n*s.config.Classes], nil
}

// Classify returns the label with the largest logit of each example, the lowest
// of equals.
func (s *Scorer) Classify(params, inputs []float32) ([]int, error) {
	logits, err := s.Logits(params, inputs)
	if err != nil {
		return nil, err
	}
	labels := make([]int, len(logits)/s.config.Classes)
	for i := range labels {
		row := logits[i*s.config.Classes:][:s.config.Classes]
		for label, score := range row {
			if score > row[labels[i]] {
				labels[i] = label
			}
		}
	}
	return labels, nil
}

// Close releases the scorer.
func (s *Scorer) Close() error { return s.graph.Close() }
