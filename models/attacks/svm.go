package attacks

import (
	"context"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// The objective of the machines and the accuracy of its minimum.
const (
	// svmCost is C, the weight of the examples' losses, 1 as in LinearSVC.
	svmCost = 1
	// svmTolerance bounds the derivatives of the dual problem that remain after an epoch.
	svmTolerance = 0.001
	// svmRidge is the contribution of a squared loss to the diagonal of the dual problem.
	svmRidge = 1.0 / (2 * svmCost)
)

// svm is one linear machine for each class against the rest: the weights w of a class minimize
//
//	1/2 |w|^2 + C * sum over the examples of max(0, 1 - y (w x + b))^2
//
// with y = 1 for the class and -1 for all others; the bias counts as the weight of a constant input
// 1. This is scikit-learn's LinearSVC with its defaults. Each epoch processes the examples in its
// own order, and solves the dual problem of each class in the variable of one example after another
// (Hsieh et al. 2008, algorithm 1). All classes are solved together, a batch at a time: the inner
// products of the examples determine how a change for one example changes the margins of later
// ones.
type svm struct {
	shape   Shape
	weights []float32 // [inputs, classes]
	bias    []float32 // [classes]
	duals   []float32 // [examples, classes]: dual variables, 0 or above
	margins []float32 // [batch, classes]
	changes []float32 // [batch, classes]
	inner   []float32 // [batch, batch]: products of examples
}

// outputs returns the outputs for n rows, in m.margins.
func (m *svm) outputs(n int, rows []float32) []float32 {
	out := m.margins[:n*m.shape.Classes]
	kernels.GemmBias(false, false, n, m.shape.Classes, m.shape.Inputs, rows, m.shape.Inputs, m.weights, m.shape.Classes, m.bias, out, m.shape.Classes)
	return out
}

// step solves for the examples of a batch, and returns the largest derivative found.
func (m *svm) step(b Block) (steepest float32) {
	n, d, classes := len(b.Labels), m.shape.Inputs, m.shape.Classes
	margins := m.outputs(n, b.Rows)
	kernels.Gemm(false, true, n, n, d, 1, b.Rows, d, b.Rows, d, 0, m.inner, n)
	for i := range n {
		changes := m.changes[i*classes : (i+1)*classes]
		self := m.inner[i*n+i] + 1 // 1 for the bias
		steepest = max(steepest, m.solve(b.At[i], b.Labels[i], self, margins[i*classes:(i+1)*classes], changes))
		for j := i + 1; j < n; j++ {
			kernels.Axpy(m.inner[i*n+j]+1, changes, margins[j*classes:(j+1)*classes])
		}
		kernels.Add(m.bias, changes)
	}
	kernels.Gemm(true, false, d, classes, n, 1, b.Rows, d, m.changes, classes, 1, m.weights, classes)
	return steepest
}

// solve minimizes over the variables of an example, one for each class. changes receives the
// increments of the example's multiple in the weights of each class.
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
	return &svmAttack{&svm{
		shape: s, weights: make([]float32, s.Inputs*s.Classes), bias: make([]float32, s.Classes),
		margins: make([]float32, o.Batch*s.Classes), changes: make([]float32, o.Batch*s.Classes), inner: make([]float32, o.Batch*o.Batch),
	}, batching{s, o.Batch}, o.Epochs}
}

// Train implements Attack. In addition to the model it stores a number for each example and class.
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

func (a *svmAttack) Score(ctx context.Context, rows, scores []float32) error {
	return a.score(ctx, rows, func(batch Block) error {
		scores = scores[copy(scores, a.outputs(len(batch.Labels), batch.Rows)):]
		return nil
	})
}
