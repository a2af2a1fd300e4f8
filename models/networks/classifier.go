package networks

import (
	"errors"
	"slices"

	"gorgonia.org/gorgonia"

	"coalmine/internal/kernels"
)

// Config describes a classifier: hidden ReLU layers, followed by a softmax layer for each task
// (Caruana 1997; Orekondy et al. 2018, figure 3d).
type Config struct {
	// Inputs is the number of features.
	Inputs int
	// Hidden are the widths of the hidden layers.
	Hidden []int
	// Classes is the number of classes of each task; at least one task.
	Classes []int
}

// logits adds the network to a graph.
func logits[T Real](l *layers[T], c Config) (outputs gorgonia.Nodes, inputs []T) {
	x, inputs := l.Input("inputs", l.rows, c.Inputs)
	hidden := l.relu(x, c.Hidden...)
	for _, classes := range c.Classes {
		outputs = append(outputs, l.dense(hidden, classes))
	}
	return outputs, inputs
}

// classifier is the graph of the sum of the losses of all tasks.
type classifier[T Real] struct {
	*layers[T]
	Config
	inputs  []T
	targets [][]T
}

func newClassifier[T Real](c Config, rows int) (*classifier[T], error) {
	building.Lock()
	defer building.Unlock()
	n := &classifier[T]{layers: newLayers[T](rows), Config: c}
	outputs, inputs := logits(n.layers, c)
	n.inputs = inputs
	losses := make(gorgonia.Nodes, len(outputs))
	for i, output := range outputs {
		loss, targets := n.softmax(output)
		losses[i], n.targets = loss, append(n.targets, targets)
	}
	return n, n.CompileLoss(gorgonia.Must(gorgonia.ReduceAdd(losses)))
}

func (n *classifier[T]) learn(examples int, row func(i int) []T, labels [][]int) (loss float64, gradient []T, err error) {
	return n.fold(examples, func(from, to int) {
		fillRows(n.inputs, from, to, row)
		for task, targets := range n.targets {
			clear(targets)
			for i, label := range labels[task][from:to] {
				if label >= 0 {
					targets[i*n.Classes[task]+label] = 1 / T(examples)
				}
			}
		}
	})
}

// Classifier classifies vectors for each task. It is not safe for concurrent use.
type Classifier struct {
	training *classifier[float32]
	scoring  *layers[float32]
	inputs   []float32
	outputs  [][]float32
}

// NewClassifier returns a classifier with parameters of 0. batch is the typical number of examples;
// batches of other sizes take more time.
func NewClassifier(c Config, batch int) (*Classifier, error) {
	if err := checkSizes(slices.Concat([]int{batch, c.Inputs}, c.Hidden, c.Classes)...); err != nil {
		return nil, err
	}
	if len(c.Classes) == 0 {
		return nil, errors.New("classifier without a task: want one at least")
	}
	training, err := newClassifier[float32](c, rowsFor(batch))
	if err != nil {
		return nil, err
	}
	n := &Classifier{training: training}
	return n, n.addScoring()
}

// addScoring makes a graph of only the logits.
func (n *Classifier) addScoring() (err error) {
	building.Lock()
	defer building.Unlock()
	n.scoring = newLayers[float32](n.training.rows)
	outputs, inputs := logits(n.scoring, n.training.Config)
	n.inputs = inputs
	n.outputs, err = n.scoring.Compile(n.training.Params, outputs...)
	return err
}

// Graph returns the training graph.
func (n *Classifier) Graph() *Graph[float32] { return n.training.Graph }

// Learn returns the sum over tasks of the mean cross-entropy of some examples, in nats, and its
// gradient, which is valid until the next call. row returns the vector of an example; labels has
// the labels of each task, negative for an example without a label.
func (n *Classifier) Learn(examples int, row func(i int) []float32, labels [][]int) (loss float64, gradient []float32, err error) {
	return n.training.learn(examples, row, labels)
}

// Logits returns the logits of vectors for each task, [examples, classes].
func (n *Classifier) Logits(examples int, row func(i int) []float32) ([][]float32, error) {
	all := make([][]float32, len(n.outputs))
	for from := 0; from < examples; from += n.scoring.rows {
		to := min(from+n.scoring.rows, examples)
		fillRows(n.inputs, from, to, row)
		if _, err := n.scoring.Run(); err != nil {
			return nil, err
		}
		for i, output := range n.outputs {
			all[i] = append(all[i], output[:(to-from)*n.training.Classes[i]]...)
		}
	}
	return all, nil
}

// Loss returns the loss of Learn, without a gradient; NaN without examples.
func (n *Classifier) Loss(examples int, row func(i int) []float32, labels [][]int) (loss float64, err error) {
	logits, err := n.Logits(examples, row)
	if err != nil {
		return 0, err
	}
	for task, classes := range n.training.Classes {
		for i, label := range labels[task] {
			if row := logits[task][i*classes : (i+1)*classes]; label >= 0 {
				loss += kernels.LogSumExp(row) - float64(row[label])
			}
		}
	}
	return loss / float64(examples), nil
}
