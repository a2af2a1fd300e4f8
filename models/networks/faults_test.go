package networks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
)

// faulty are Gorgonia's operations that give wrong numbers without an error.
var faulty = []string{"sliceOp", "softmaxOp", "byIndicesOp"}

func TestNoGraphHasAnOperationThatGorgoniaGetsWrong(t *testing.T) {
	t.Parallel()
	for _, n := range used() {
		l := n.used(4, rand.New(rand.NewPCG(1, 2)))
		for _, node := range l.expr.AllNodes() {
			name := fmt.Sprintf("%T", node.Op())
			if slices.ContainsFunc(faulty, func(f string) bool { return strings.Contains(name, f) }) {
				t.Errorf("%s: the graph has a %s", n.name, name)
			}
		}
	}
}

// alone makes a test of Gorgonia itself wait for the graphs of others.
func alone(t *testing.T) {
	t.Helper()
	building.Lock()
	t.Cleanup(building.Unlock)
}

func TestALossHasNoSecondGradient(t *testing.T) {
	t.Parallel()
	alone(t)
	g := NewGraph[float64]()
	x := g.Parameter("x", 2, 2)
	loss := must(gorgonia.Sum(product[float64](x, x)))
	check(t, g.CompileLoss(loss))
	if err := g.CompileLoss(loss); err == nil || !strings.Contains(err.Error(), "gradient of a gradient") {
		t.Errorf("error %v of a second gradient", err)
	}
	if _, err := gorgonia.Grad(must(gorgonia.Sum(multiplication[float64](true, false, x, x).of(x, x))), x); err == nil {
		t.Error("a product of a gradient has a gradient")
	}
}

// filled is a node with values.
func filled(g *gorgonia.ExprGraph, name string, values []float64, shape ...int) *gorgonia.Node {
	return gorgonia.NodeFromAny(g, view(values, shape...), gorgonia.WithName(name))
}

// derivative is that of a loss by x.
func derivative(t *testing.T, loss, x *gorgonia.Node) []float64 {
	t.Helper()
	gradients, err := gorgonia.Grad(loss, x)
	check(t, err)
	var value gorgonia.Value
	gorgonia.Read(gradients[0], &value)
	machine := gorgonia.NewTapeMachine(loss.Graph())
	check(t, machine.RunAll())
	return numbers[float64](value)
}

// The faults that the package comment names. If one fails, Gorgonia has mended a fault: then the
// comment and the test above have one less.
func TestGorgoniaHasTheFaults(t *testing.T) {
	t.Parallel()
	t.Run("slices", func(t *testing.T) {
		t.Parallel()
		alone(t)
		x := filled(gorgonia.NewGraph(), "x", make([]float64, 600), 600, 1)
		if must(gorgonia.Slice(x, gorgonia.S(3, 5))) != must(gorgonia.Slice(x, gorgonia.S(259, 261))) {
			t.Error("rows 3 and 259 are told apart")
		}
	})
	t.Run("softmax", func(t *testing.T) {
		t.Parallel()
		alone(t)
		x := filled(gorgonia.NewGraph(), "x", make([]float64, 6), 2, 3)
		if must(gorgonia.SoftMax(x)) != must(gorgonia.LogSoftMax(x)) {
			t.Error("SoftMax and LogSoftMax are told apart")
		}
	})
	t.Run("indices", func(t *testing.T) {
		t.Parallel()
		alone(t)
		g := gorgonia.NewGraph()
		x, weights := filled(g, "x", []float64{1, 2, 3}, 3), filled(g, "weights", []float64{5, 7}, 2)
		at := gorgonia.NodeFromAny(g, view([]int{2, 0}, 2), gorgonia.WithName("at"))
		loss := must(gorgonia.Sum(must(gorgonia.HadamardProd(must(gorgonia.ByIndices(x, at, 0)), weights))))
		if got := derivative(t, loss, x); slices.Equal(got, []float64{7, 0, 5}) {
			t.Error("the gradient of ByIndices is right")
		}
	})
	t.Run("second gradients", func(t *testing.T) {
		t.Parallel()
		alone(t)
		g := gorgonia.NewGraph()
		x := filled(g, "x", []float64{2, 3}, 2)
		cubes := must(gorgonia.Sum(must(gorgonia.Cube(x))))
		first, err := gorgonia.Grad(cubes, x)
		check(t, err)
		if got := derivative(t, must(gorgonia.Sum(first[0])), x); slices.Equal(got, []float64{12, 18}) {
			t.Error("the gradient of a gradient is right")
		}
	})
	t.Run("adding up", func(t *testing.T) {
		t.Parallel()
		alone(t)
		g := gorgonia.NewGraph()
		x := filled(g, "x", []float64{2, 3}, 2)
		loss := must(gorgonia.Sum(must(gorgonia.Square(x))))
		_, err := gorgonia.Grad(loss, x)
		check(t, err)
		machine := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(x))
		check(t, machine.RunAll())
		machine.Reset()
		check(t, machine.RunAll())
		if got := numbers[float64](must(x.Grad())); slices.Equal(got, []float64{4, 6}) {
			t.Error("a second run does not add to the gradient of the first")
		}
	})
}
