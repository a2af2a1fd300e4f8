package networks

import (
	"errors"
	"math"
	"slices"

	"gorgonia.org/gorgonia"
)

// Tower describes ReLU layers on vectors of Inputs values.
type Tower struct {
	Inputs int
	Units  []int
}

func (t *Tower) outputs() int { return t.Units[len(t.Units)-1] }

// pairs is the graph of the loss of pairs of vectors.
type pairs[T Real] struct {
	*layers[T]
	first, second []T // the vectors of the pairs
	same          []T // [rows, 2]
}

// newSiamese returns a graph with one tower for both vectors.
func newSiamese[T Real](t *Tower, rows int) (*pairs[T], error) {
	building.Lock()
	defer building.Unlock()
	n := &pairs[T]{layers: newLayers[T](rows)}
	x, vectors := n.pairs(t.Inputs)
	n.first, n.second = vectors[:rows*t.Inputs], vectors[rows*t.Inputs:]
	distance := gorgonia.Must(gorgonia.Abs(n.difference(n.relu(x, t.Units...))))
	loss, same := n.logistic(distance)
	n.same = same
	return n, n.CompileLoss(loss)
}

func newEncoders[T Real](first, second *Tower, rows int) (*pairs[T], error) {
	building.Lock()
	defer building.Unlock()
	n := &pairs[T]{layers: newLayers[T](rows)}
	x, vectors := n.Input("first", rows, first.Inputs)
	y, others := n.Input("second", rows, second.Inputs)
	n.first, n.second = vectors, others
	distance := gorgonia.Must(gorgonia.Abs(gorgonia.Must(gorgonia.Sub(n.relu(x, first.Units...), n.relu(y, second.Units...)))))
	loss, same := n.logistic(distance)
	n.same = same
	return n, n.CompileLoss(loss)
}

func (n *pairs[T]) learn(same []bool, first, second func(i int) []T) (loss float64, gradient []T, err error) {
	return n.fold(len(same), func(from, to int) {
		fillRows(n.first, from, to, first)
		fillRows(n.second, from, to, second)
		clear(n.same)
		for i, one := range same[from:to] {
			n.same[2*i+int(given[T](one))] = 1 / T(len(same))
		}
	})
}

// Pairs predicts whether two vectors belong together: with the towers' outputs u and v, the logit
// is the inner product of |u - v| with weights, plus a bias. If both vectors are of the same kind,
// the towers share their parameters: a Siamese network (Orekondy et al. 2018, figures 3b and 3c).
// It is not safe for concurrent use.
type Pairs struct {
	training      *pairs[float32]
	first, second *embedder // equal in a Siamese network
}

// NewPairs returns a network with parameters of 0; the same tower twice makes a Siamese network.
// batch is the typical number of pairs; batches of other sizes take more time.
func NewPairs(first, second *Tower, batch int) (n *Pairs, err error) {
	for _, t := range []*Tower{first, second} {
		if err := checkSizes(slices.Concat([]int{batch, t.Inputs}, t.Units)...); err != nil {
			return nil, err
		}
		if len(t.Units) == 0 || t.outputs() != first.outputs() {
			return nil, errors.New("towers of a network of pairs: want layers, and the same number of units in the last of each")
		}
	}
	n = new(Pairs)
	if first == second {
		n.training, err = newSiamese[float32](first, rowsFor(batch))
	} else {
		n.training, err = newEncoders[float32](first, second, rowsFor(batch))
	}
	if err != nil {
		return nil, err
	}
	if n.first, err = newEmbedder(first, n.training.Params); err != nil {
		return nil, err
	}
	if n.second = n.first; first != second {
		n.second, err = newEmbedder(second, n.training.Params[len(n.first.Params):])
	}
	return n, err
}

// Graph returns the training graph.
func (n *Pairs) Graph() *Graph[float32] { return n.training.Graph }

// Learn returns the mean binary cross-entropy of some pairs, in nats, and its gradient, which is
// valid until the next call. first and second are the vectors of a pair.
func (n *Pairs) Learn(same []bool, first, second func(i int) []float32) (loss float64, gradient []float32, err error) {
	return n.training.learn(same, first, second)
}

// First returns the first tower's outputs for some vectors.
func (n *Pairs) First(examples int, row func(i int) []float32) (*Embedding, error) {
	return n.first.embed(examples, row)
}

// Second returns the second tower's outputs for some vectors.
func (n *Pairs) Second(examples int, row func(i int) []float32) (*Embedding, error) {
	return n.second.embed(examples, row)
}

// Embedding holds a tower's outputs for some vectors.
type Embedding struct {
	width  int
	values []float32
}

// Row returns the output for vector i.
func (e *Embedding) Row(i int) []float32 { return e.values[i*e.width : (i+1)*e.width] }

// Logit returns the logit of two embeddings, in float64; higher if they are likelier to belong
// together.
func (n *Pairs) Logit(u, v []float32) float64 {
	params := n.training.Params
	weights, sum := params[len(params)-len(u)-1:], float64(params[len(params)-1])
	for i := range u {
		sum += float64(float64(weights[i]) * math.Abs(float64(u[i])-float64(v[i])))
	}
	return sum
}

// embedder is the graph of a single tower.
type embedder struct {
	*layers[float32]
	inputs, outputs []float32
}

func newEmbedder(t *Tower, params []float32) (*embedder, error) {
	building.Lock()
	defer building.Unlock()
	e := &embedder{layers: newLayers[float32](chunk)}
	x, inputs := e.Input("inputs", chunk, t.Inputs)
	outputs, err := e.Compile(params, e.relu(x, t.Units...))
	if err != nil {
		return nil, err
	}
	e.inputs, e.outputs = inputs, outputs[0]
	return e, nil
}

func (e *embedder) embed(examples int, row func(i int) []float32) (*Embedding, error) {
	all := &Embedding{width: len(e.outputs) / e.rows}
	for from := 0; from < examples; from += e.rows {
		to := min(from+e.rows, examples)
		fillRows(e.inputs, from, to, row)
		if _, err := e.Run(); err != nil {
			return nil, err
		}
		all.values = append(all.values, e.outputs[:(to-from)*all.width]...)
	}
	return all, nil
}
