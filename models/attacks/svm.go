package attacks

import (
	"context"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// svmCost weighs the losses of the examples against the weights: the C of
// 1/2 |w|^2 + C * sum of the losses, 1 as in scikit-learn's LinearSVC.
const svmCost = 1

// svm is one linear machine for each class against the rest: the weights w of a class minimize
//
//	lambda/2 |w|^2 + mean over the examples of max(0, 1 - y (w x + b)),   lambda = 1/(C n)
//
// with y = 1 for the class and -1 for all others; the bias counts as a weight, of an input that
// is 1. It is found by steps along the subgradient of a batch, at the rate 1/(1 + lambda t) in
// step t (Bottou, "Stochastic Gradient Descent Tricks", 2012, section 5.2). What scores is the
// mean of the weights of all steps, weighed by their number (Lacoste-Julien et al. 2012).
type svm struct {
	shape     Shape
	lambda    float64 // set when the number of examples is known
	steps     int
	now, mean linear
	margins   []float32 // [batch, classes]
}

// linear is a layer without a gradient of its own.
type linear struct{ weights, bias []float32 }

func newLinear(s Shape) linear {
	return linear{make([]float32, s.Inputs*s.Classes), make([]float32, s.Classes)}
}

func newSVM(s Shape, batch int) *svm {
	return &svm{shape: s, now: newLinear(s), mean: newLinear(s), margins: make([]float32, batch*s.Classes)}
}

// outputs of n rows, which stand in m.margins.
func (m *svm) outputs(l linear, n int, rows []float32) []float32 {
	out := m.margins[:n*m.shape.Classes]
	kernels.GemmBias(false, false, n, m.shape.Classes, m.shape.Inputs, rows, m.shape.Inputs, l.weights, m.shape.Classes, l.bias, out, m.shape.Classes)
	return out
}

// loss implements learner: the hinge losses of all classes, of the mean.
func (m *svm) loss(b Block) (sum float64) {
	out := m.outputs(m.mean, len(b.Labels), b.Rows)
	for i, value := range out {
		y := sign(b.Labels[i/m.shape.Classes] == i%m.shape.Classes)
		sum += max(0, 1-float64(y*value))
	}
	return sum
}

func sign(positive bool) float32 {
	if positive {
		return 1
	}
	return -1
}

// step implements learner.
func (m *svm) step(b Block) {
	n, classes := len(b.Labels), m.shape.Classes
	out := m.outputs(m.now, n, b.Rows)
	for i, value := range out {
		y := sign(b.Labels[i/classes] == i%classes)
		out[i] = 0
		if float32(y*value) < 1 {
			out[i] = y
		}
	}
	m.steps++
	rate := 1 / (1 + float64(m.lambda*float64(m.steps)))
	keep, move := float32(1-float64(rate*m.lambda)), float32(rate/float64(n))
	kernels.Gemm(true, false, m.shape.Inputs, classes, n, move, b.Rows, m.shape.Inputs, out, classes, keep, m.now.weights, classes)
	kernels.Scale(keep, m.now.bias)
	for i := range n {
		kernels.Axpy(move, out[i*classes:(i+1)*classes], m.now.bias)
	}
	m.average()
}

// average takes the weights of a step into the mean, which after t steps is the sum of
// 2s/(t(t+1)) times those of step s.
func (m *svm) average() {
	share := float32(2 / float64(m.steps+1))
	for _, part := range [][2][]float32{{m.mean.weights, m.now.weights}, {m.mean.bias, m.now.bias}} {
		kernels.Scale(1-share, part[0])
		kernels.Axpy(share, part[1], part[0])
	}
}

// weights implements learner.
func (m *svm) weights() [][]float32 { return [][]float32{m.mean.weights, m.mean.bias} }

// svmAttack scores by the distance to the plane of a class.
type svmAttack struct {
	*svm
	descent
}

func newSVMAttack(s Shape, o Options, _ *rand.Rand) Attack {
	m := newSVM(s, o.Batch)
	return &svmAttack{m, descent{m, s, o}}
}

// Train implements Attack.
func (a *svmAttack) Train(ctx context.Context, data Data) (Training, error) {
	a.lambda = 1 / (svmCost * float64(data.Examples()))
	return a.descent.train(ctx, data)
}

// Score implements Attack.
func (a *svmAttack) Score(ctx context.Context, rows, scores []float32) error {
	return scoreInBatches(ctx, a.descent, rows, func(n int, batch []float32) {
		scores = scores[copy(scores, a.outputs(a.mean, n, batch)):]
	})
}
