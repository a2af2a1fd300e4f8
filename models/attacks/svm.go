package attacks

import (
	"context"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// What the machines minimize, and how near to it they come.
const (
	// svmCost weighs the losses of the examples against the weights: C, 1 as in LinearSVC.
	svmCost = 1
	// svmTolerance bounds the derivatives of the dual problem that are left in an epoch.
	svmTolerance = 0.001
	// svmRidge is what a squared loss adds to the diagonal of the dual problem.
	svmRidge = 1.0 / (2 * svmCost)
)

// svm is one linear machine for each class against the rest: the weights w of a class minimize
//
//	1/2 |w|^2 + C * sum over the examples of max(0, 1 - y (w x + b))^2
//
// with y = 1 for the class and -1 for all others; the bias counts as a weight, of an input that
// is 1. That is scikit-learn's LinearSVC as it comes. Each epoch goes through the examples in an
// order of its own, and solves the dual problem of each class in the variable of one example
// after another (Hsieh et al. 2008, algorithm 1). The classes do so together, a batch at a time:
// how an example changes the margins of those after it follows from their inner products.
type svm struct {
	shape   Shape
	weights []float32 // [inputs, classes]
	bias    []float32 // [classes]
	duals   []float32 // [examples, classes]: how much an example holds a plane, from 0
	margins []float32 // [batch, classes]
	changes []float32 // [batch, classes]
	inner   []float32 // [batch, batch]: products of examples
}

func newSVM(s Shape, batch int) *svm {
	return &svm{
		shape: s, weights: make([]float32, s.Inputs*s.Classes), bias: make([]float32, s.Classes),
		margins: make([]float32, batch*s.Classes), changes: make([]float32, batch*s.Classes), inner: make([]float32, batch*batch),
	}
}

// outputs of n rows, which stand in m.margins.
func (m *svm) outputs(n int, rows []float32) []float32 {
	out := m.margins[:n*m.shape.Classes]
	kernels.GemmBias(false, false, n, m.shape.Classes, m.shape.Inputs, rows, m.shape.Inputs, m.weights, m.shape.Classes, m.bias, out, m.shape.Classes)
	return out
}

// step solves for the examples of a batch, and returns the greatest derivative that it found.
func (m *svm) step(b Block) (steepest float32) {
	n, d, classes := len(b.Labels), m.shape.Inputs, m.shape.Classes
	margins := m.outputs(n, b.Rows)
	kernels.Gemm(false, true, n, n, d, 1, b.Rows, d, b.Rows, d, 0, m.inner, n)
	for i := range n {
		changes := m.changes[i*classes : (i+1)*classes]
		self := m.inner[i*n+i] + 1 // the bias has an input of its own
		steepest = max(steepest, m.solve(b.At[i], b.Labels[i], self, margins[i*classes:(i+1)*classes], changes))
		for j := i + 1; j < n; j++ {
			kernels.Axpy(m.inner[i*n+j]+1, changes, margins[j*classes:(j+1)*classes])
		}
		kernels.Add(m.bias, changes)
	}
	kernels.Gemm(true, false, d, classes, n, 1, b.Rows, d, m.changes, classes, 1, m.weights, classes)
	return steepest
}

// solve minimizes over the variables of an example, one for each class. changes are by how
// much its multiple in the weights of a class grows.
func (m *svm) solve(at, label int, self float32, margins, changes []float32) (steepest float32) {
	duals := m.duals[at*m.shape.Classes:][:m.shape.Classes]
	for class, dual := range duals {
		y := sign(label == class)
		slope := float32(y*margins[class]) - 1 + float32(svmRidge*dual)
		if dual == 0 {
			slope = min(slope, 0)
		}
		steepest = max(steepest, max(slope, -slope))
		duals[class] = max(0, dual-slope/(self+svmRidge))
		changes[class] = float32(y * (duals[class] - dual))
	}
	return steepest
}

func sign(positive bool) float32 {
	if positive {
		return 1
	}
	return -1
}

// svmAttack scores by the distance to the plane of a class.
type svmAttack struct {
	*svm
	batching
	epochs int
}

func newSVMAttack(s Shape, o Options, _ *rand.Rand) Attack {
	return &svmAttack{newSVM(s, o.Batch), batching{s, o.Batch}, o.Epochs}
}

// Train implements Attack. Beside the model it remembers a number for each example and class.
func (a *svmAttack) Train(ctx context.Context, data Data) (Training, error) {
	a.duals = make([]float32, data.Examples()*a.svm.shape.Classes)
	t := Training{}
	for t.Epochs < a.epochs && !t.Converged {
		steepest := float32(0)
		err := a.epoch(ctx, data, t.Epochs+1, func(batch Block) error {
			steepest = max(steepest, a.step(batch))
			return nil
		})
		if err != nil {
			return t, err
		}
		t.Epochs++
		t.Best, t.Converged = t.Epochs, steepest < svmTolerance
	}
	a.duals = nil
	return t, nil
}

// Score implements Attack.
func (a *svmAttack) Score(ctx context.Context, rows, scores []float32) error {
	return a.score(ctx, rows, func(batch Block) error {
		scores = scores[copy(scores, a.outputs(len(batch.Labels), batch.Rows)):]
		return nil
	})
}
