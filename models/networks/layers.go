package networks

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// layers composes a network for batches with a fixed number of rows. Its methods panic only if this
// package composes a network wrongly: callers check the sizes.
type layers[T Real] struct {
	*Graph[T]
	rows  int
	ones  *gorgonia.Node // [rows, 1]
	twice *gorgonia.Node // [2 rows, rows], two identities, one below the other; nil before pairs
	count int
	sum   []T // the gradient of a batch of several parts
}

func newLayers[T Real](rows int) *layers[T] {
	l := &layers[T]{Graph: NewGraph[T](), rows: rows}
	l.ones = l.constant("ones", rows, 1, func(int, int) T { return 1 })
	return l
}

func (l *layers[T]) constant(name string, rows, columns int, at func(i, j int) T) *gorgonia.Node {
	node, values := l.Input(name, rows, columns)
	for i := range values {
		values[i] = at(i/columns, i%columns)
	}
	return node
}

// dense adds a layer of units. Its bias is added to each row; if x has the second vectors of pairs
// below the first ones, it is added to each pair, so that the two gradients of a pair add up before
// those of different pairs: if they cancel, no rounding error remains for RMSProp to magnify.
func (l *layers[T]) dense(x *gorgonia.Node, units int) *gorgonia.Node {
	l.count++
	name := fmt.Sprintf("layer%d", l.count)
	weights, bias := l.Parameter(name+weightsSuffix, x.Shape()[1], units), l.Parameter(name+".bias", 1, units)
	biases := product[T](l.ones, bias)
	if x.Shape()[0] != l.rows {
		biases = product[T](l.twice, biases)
	}
	return gorgonia.Must(gorgonia.Add(product[T](x, weights), biases))
}

// relu adds ReLU layers of the given widths.
func (l *layers[T]) relu(x *gorgonia.Node, units ...int) *gorgonia.Node {
	for _, n := range units {
		x = gorgonia.Must(gorgonia.Rectify(l.dense(x, n)))
	}
	return x
}

// pairs adds an input with the first vectors of all pairs, followed by the second vectors.
func (l *layers[T]) pairs(width int) (*gorgonia.Node, []T) {
	l.twice = l.constant("twice", 2*l.rows, l.rows, func(i, j int) T { return given[T](i%l.rows == j) })
	return l.Input("pairs", 2*l.rows, width)
}

// difference returns the difference of the two vectors of each pair.
func (l *layers[T]) difference(x *gorgonia.Node) *gorgonia.Node {
	return product[T](l.constant("difference", l.rows, 2*l.rows, func(i, j int) T {
		return given[T](i == j) - given[T](i+l.rows == j)
	}), x)
}

func given[T Real](is bool) T {
	if is {
		return 1
	}
	return 0
}

// softmax returns the cross-entropy of logits and of targets, which the caller fills: the
// share of each class in each row, times the weight of the row.
func (l *layers[T]) softmax(logits *gorgonia.Node) (loss *gorgonia.Node, targets []T) {
	node, targets := l.Input(fmt.Sprintf("targets%d", l.count), l.rows, logits.Shape()[1])
	return crossEntropy[T](logits, node), targets
}

// logistic returns the cross-entropy of a logistic unit on x: the softmax of the logits 0 and z is
// the logistic function of z. Targets are pairs of the shares of no and yes.
func (l *layers[T]) logistic(x *gorgonia.Node) (loss *gorgonia.Node, targets []T) {
	pick := l.constant("beside", 1, 2, func(_, j int) T { return T(j) })
	return l.softmax(product[T](l.dense(x, 1), pick))
}

// chunk is the largest number of examples that a graph processes at once.
const chunk = 64

// rowsFor returns the rows of equal parts, at most chunk, of a batch.
func rowsFor(batch int) int {
	parts := (batch + chunk - 1) / chunk
	return (batch + parts - 1) / parts
}

// fold computes loss and gradient of a batch of n examples: sums over parts of it, in order. fill
// fills the inputs of one part.
func (l *layers[T]) fold(n int, fill func(from, to int)) (loss float64, gradient []T, err error) {
	for from := 0; from < n; from += l.rows {
		fill(from, min(from+l.rows, n))
		part, err := l.Run()
		if err != nil {
			return 0, nil, err
		}
		if loss += part; from == 0 && n <= l.rows {
			return loss, l.Gradient, nil
		}
		if gradient == nil {
			l.sum = slices.Grow(l.sum[:0], len(l.Gradient))[:len(l.Gradient)]
			gradient = l.sum
			clear(gradient)
		}
		for i, v := range l.Gradient {
			gradient[i] += v
		}
	}
	return loss, gradient, nil
}

// fillRows copies rows from..to to the front of a matrix, and clears the remaining rows.
func fillRows[T Real](matrix []T, from, to int, row func(i int) []T) {
	for i := from; i < to; i++ {
		matrix = matrix[copy(matrix, row(i)):]
	}
	clear(matrix)
}

// checkSizes returns an error for a network without a layer, an input or a unit.
func checkSizes(sizes ...int) error {
	for _, n := range sizes {
		if n < 1 {
			return fmt.Errorf("network of the sizes %v: want each at least 1", sizes)
		}
	}
	return nil
}
