package networks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	// Gorgonia panics at start on current Go without this import.
	_ "go4.org/unsafe/assume-no-moving-gc"

	"coalmine/models"
)

// building is held from NewGraph to the end of Compile or CompileLoss, because all graphs of a
// process share a counter and the nodes of Gorgonia's constants, which store their hashes without a
// lock.
var building sync.Mutex

// Real is the type of a graph's numbers: float32 for use, float64 for checks.
type Real interface{ float32 | float64 }

// Graph is one computation of fixed shapes over named parameters. Add parameters and inputs,
// compose them with Gorgonia's operations, then compile. It is not safe for concurrent use.
type Graph[T Real] struct {
	// Params holds the parameters in the order of their addition. A run reads them in place.
	Params []T
	// Gradient is the gradient of the loss at Params, after a run of a graph with a loss.
	Gradient []T

	expr       *gorgonia.ExprGraph
	parameters gorgonia.Nodes
	tensors    []models.Tensor
	size       int
	loss       gorgonia.Value
	machine    gorgonia.VM
}

// NewGraph returns an empty graph.
func NewGraph[T Real]() *Graph[T] {
	return &Graph[T]{expr: gorgonia.NewGraph()}
}

// Parameter adds a matrix of parameters, the next part of Params.
func (g *Graph[T]) Parameter(name string, rows, columns int) *gorgonia.Node {
	node := g.matrix(name, rows, columns)
	g.parameters = append(g.parameters, node)
	g.tensors = append(g.tensors, models.Tensor{Name: name, Shape: []int{rows, columns}, Offset: g.size})
	g.size += rows * columns
	return node
}

// Input adds a matrix that the caller fills, row-major, before every run.
func (g *Graph[T]) Input(name string, rows, columns int) (*gorgonia.Node, []T) {
	values := make([]T, rows*columns)
	return g.matrix(name, rows, columns, gorgonia.WithValue(view(values, rows, columns))), values
}

func (g *Graph[T]) matrix(name string, rows, columns int, options ...gorgonia.NodeConsOpt) *gorgonia.Node {
	options = append([]gorgonia.NodeConsOpt{gorgonia.WithShape(rows, columns), gorgonia.WithName(name)}, options...)
	return gorgonia.NewMatrix(g.expr, view([]T{0}, 1, 1).Dtype(), options...)
}

// view returns a matrix that shares the memory of values.
func view[T any](values []T, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
}

// Tensors lists the parameters in the order of Params.
func (g *Graph[T]) Tensors() []models.Tensor { return g.tensors }

// CompileLoss completes a graph with a scalar loss as its output. Parameters are 0.
func (g *Graph[T]) CompileLoss(loss *gorgonia.Node) error {
	if !loss.IsScalar() {
		return fmt.Errorf("the loss of a graph has shape %v: want a scalar", loss.Shape())
	}
	if g.Gradient != nil {
		return fmt.Errorf("the graph has a loss already: Gorgonia's gradient of a gradient is wrong")
	}
	gradients, err := gorgonia.Grad(loss, g.parameters...)
	if err != nil {
		return fmt.Errorf("gradient of a graph: %w", err)
	}
	g.Gradient = make([]T, g.size)
	for i, node := range gradients {
		into := part(g.Gradient, g.tensors[i])
		if op, ok := node.Op().(*operation[T]); ok && op.result == nil {
			op.result = into
		} else {
			g.read(node, into)
		}
	}
	gorgonia.Read(loss, &g.loss)
	return g.compile(make([]T, g.size), append(gradients, loss))
}

// Compile completes a graph that only computes outputs, with the parameters of another graph; its
// Params begin with the parameters of this graph in the same order. It returns the memory of each
// output, row-major.
func (g *Graph[T]) Compile(params []T, outputs ...*gorgonia.Node) ([][]T, error) {
	values := make([][]T, len(outputs))
	for i, node := range outputs {
		values[i] = make([]T, node.Shape().TotalSize())
		g.read(node, values[i])
	}
	return values, g.compile(params, outputs)
}

// read makes every run copy the value of a node.
func (g *Graph[T]) read(node *gorgonia.Node, into []T) {
	var value gorgonia.Value = view(into, node.Shape()...)
	gorgonia.Read(node, &value)
}

// compile omits values that the outputs do not need, such as the gradient of the inputs.
func (g *Graph[T]) compile(params []T, outputs gorgonia.Nodes) error {
	g.Params = params[:g.size]
	for i, node := range g.parameters {
		if err := gorgonia.Let(node, view(part(g.Params, g.tensors[i]), node.Shape()...)); err != nil {
			return fmt.Errorf("parameters of a graph: %w", err)
		}
	}
	g.machine = gorgonia.NewTapeMachine(g.expr.SubgraphRoots(outputs...))
	return nil
}

func part[T Real](flat []T, t models.Tensor) []T { return flat[t.Offset:][:t.Size()] }

// Run computes the outputs, or computes and returns the loss and sets Gradient.
func (g *Graph[T]) Run() (loss float64, err error) {
	g.machine.Reset()
	if err := g.machine.RunAll(); err != nil {
		return 0, fmt.Errorf("running a graph: %w", err)
	}
	if g.loss != nil {
		loss = float64(numbers[T](g.loss)[0])
	}
	return loss, nil
}

// numbers returns the elements of a value, including a scalar.
func numbers[T Real](v gorgonia.Value) []T {
	if scalar, ok := v.Data().(T); ok {
		return []T{scalar}
	}
	return v.Data().([]T)
}

// weightsSuffix ends the names of the weights of layers.
const weightsSuffix = ".weights"

// Init draws weights uniformly within sqrt(6/(in+out)) of 0 (Glorot and Bengio 2010, equation
// 16), in the order of Params; biases are 0.
func (g *Graph[T]) Init(rng *rand.Rand) {
	clear(g.Params)
	for _, t := range g.tensors {
		if !strings.HasSuffix(t.Name, weightsSuffix) {
			continue
		}
		weights, bound := part(g.Params, t), math.Sqrt(6/float64(t.Shape[0]+t.Shape[1]))
		for i := range weights {
			weights[i] = T(bound * (2*rng.Float64() - 1))
		}
	}
}
