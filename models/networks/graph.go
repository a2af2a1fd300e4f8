package networks

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	// Without it Gorgonia refuses to start on today's Go.
	_ "go4.org/unsafe/assume-no-moving-gc"

	"coalmine/models"
)

// Real is the type of a graph's numbers: float32 for use, float64 for checks.
type Real interface{ float32 | float64 }

// Graph is one computation of fixed shapes. Its maker adds parameters and
// inputs, composes them with Gorgonia's operations, and compiles. It is not safe
// for concurrent use.
type Graph[T Real] struct {
	expr       *gorgonia.ExprGraph
	parameters []*leaf[T]
	tensors    []models.Tensor
	size       int
	output     gorgonia.Value
	machine    gorgonia.VM
}

// leaf is a node with the memory that its value reads.
type leaf[T Real] struct {
	node   *gorgonia.Node
	values []T
}

// NewGraph returns an empty graph.
func NewGraph[T Real]() *Graph[T] {
	useEngine()
	return &Graph[T]{expr: gorgonia.NewGraph()}
}

// Parameter adds a matrix of parameters, the next part of the flat vector.
func (g *Graph[T]) Parameter(name string, rows, columns int) *gorgonia.Node {
	l := g.leaf(name, rows, columns)
	g.parameters = append(g.parameters, l)
	g.tensors = append(g.tensors, models.Tensor{Name: name, Shape: []int{rows, columns}, Offset: g.size})
	g.size += rows * columns
	return l.node
}

// Input adds a matrix that the caller fills, row-major, before every run.
func (g *Graph[T]) Input(name string, rows, columns int) (*gorgonia.Node, []T) {
	l := g.leaf(name, rows, columns)
	return l.node, l.values
}

func (g *Graph[T]) leaf(name string, rows, columns int) *leaf[T] {
	values := make([]T, rows*columns)
	value := tensor.New(tensor.WithShape(rows, columns), tensor.WithBacking(values))
	node := gorgonia.NewMatrix(g.expr, value.Dtype(), gorgonia.WithShape(rows, columns), gorgonia.WithName(name), gorgonia.WithValue(value))
	return &leaf[T]{node, values}
}

// Parameters is the length of the flat vector.
func (g *Graph[T]) Parameters() int { return g.size }

// Tensors lists the parameters in the order of the flat vector.
func (g *Graph[T]) Tensors() []models.Tensor { return g.tensors }

// CompileLoss ends the making of a graph whose output is a loss, a scalar, and
// makes Gradient ready.
func (g *Graph[T]) CompileLoss(loss *gorgonia.Node) error {
	if !loss.IsScalar() {
		return fmt.Errorf("the loss of a graph has shape %v: want a scalar", loss.Shape())
	}
	nodes := make(gorgonia.Nodes, len(g.parameters))
	for i, p := range g.parameters {
		nodes[i] = p.node
	}
	if _, err := gorgonia.Grad(loss, nodes...); err != nil {
		return fmt.Errorf("gradient of a graph: %w", err)
	}
	gorgonia.Read(loss, &g.output)
	g.machine = gorgonia.NewTapeMachine(g.expr, gorgonia.BindDualValues(nodes...))
	return nil
}

// Compile ends the making of a graph that only computes output, for Run.
func (g *Graph[T]) Compile(output *gorgonia.Node) {
	gorgonia.Read(output, &g.output)
	g.machine = gorgonia.NewTapeMachine(g.expr)
}

// Run computes the output, row-major. It is valid until the next run.
func (g *Graph[T]) Run(params []T) ([]T, error) {
	if err := g.run(params); err != nil {
		return nil, err
	}
	switch data := g.output.Data().(type) {
	case []T:
		return data, nil
	case T:
		return []T{data}, nil
	}
	return nil, fmt.Errorf("output of a graph is %T, want numbers of the graph's type", g.output.Data())
}

// Gradient computes the loss at params and sets gradient to its gradient; both
// have Parameters elements. A loss that is not finite gives a *models.DivergedError.
func (g *Graph[T]) Gradient(params, gradient []T) (float64, error) {
	if len(gradient) != g.size {
		return 0, fmt.Errorf("the gradient has %d elements, want %d", len(gradient), g.size)
	}
	output, err := g.Run(params)
	if err != nil {
		return 0, err
	}
	for i, p := range g.parameters {
		if err := p.takeGradient(gradient[g.tensors[i].Offset:][:len(p.values)]); err != nil {
			return 0, err
		}
	}
	loss := float64(output[0])
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, &models.DivergedError{What: "loss", Value: loss}
	}
	return loss, nil
}

// takeGradient moves the gradient of a leaf to dst, and leaves zeros for the
// next run to add to.
func (l *leaf[T]) takeGradient(dst []T) error {
	value, err := l.node.Grad()
	if err != nil {
		return fmt.Errorf("gradient of %s: %w", l.node.Name(), err)
	}
	values, ok := value.Data().([]T)
	if !ok || len(values) != len(dst) {
		return fmt.Errorf("gradient of %s has shape %v, want %d elements", l.node.Name(), value.Shape(), len(dst))
	}
	copy(dst, values)
	clear(values)
	return nil
}

func (g *Graph[T]) run(params []T) error {
	if len(params) != g.size {
		return fmt.Errorf("the parameter vector has %d elements, want %d", len(params), g.size)
	}
	for i, p := range g.parameters {
		copy(p.values, params[g.tensors[i].Offset:])
	}
	g.machine.Reset()
	if err := g.machine.RunAll(); err != nil {
		return fmt.Errorf("running a graph: %w", err)
	}
	return nil
}

// Close releases the machine of a compiled graph.
func (g *Graph[T]) Close() error { return g.machine.Close() }
