package attacks

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
)

// Hidden is the number of units of the network (Orekondy et al. 2018, section 4.3).
const Hidden = 128

// The paper's SGD: rate, momentum, and a decay that makes the rate of step t, from 0, to
// rate/(1 + decay t), as Keras has it.
const (
	mlpRate     = 0.01
	mlpMomentum = 0.9
	mlpDecay    = 1e-6
)

// dense is a layer: y = x W + b, with W [in, out].
type dense struct {
	in, out                int
	weights, bias          []float32
	weightMoves, biasMoves []float32
}

// newDense draws weights uniform in +-sqrt(6/(in+out)), row by row (Glorot and Bengio 2010,
// equation 16, Keras' default); the bias is 0.
func newDense(in, out int, rng *rand.Rand) *dense {
	d := &dense{
		in: in, out: out, weights: make([]float32, in*out), bias: make([]float32, out),
		weightMoves: make([]float32, in*out), biasMoves: make([]float32, out),
	}
	bound := math.Sqrt(6 / float64(in+out))
	for i := range d.weights {
		d.weights[i] = float32(bound * (2*rng.Float64() - 1))
	}
	return d
}

// forward computes n rows of y.
func (d *dense) forward(n int, x, y []float32) {
	kernels.GemmBias(false, false, n, d.out, d.in, x, d.in, d.weights, d.out, d.bias, y, d.out)
}

// back computes the gradient of the loss by x, given that by y.
func (d *dense) back(n int, dy, dx []float32) {
	kernels.Gemm(false, true, n, d.in, d.out, 1, dy, d.out, d.weights, d.out, 0, dx, d.in)
}

// learn makes a step, given the gradient by y: move = momentum*move - rate*gradient, and the
// parameters move by it.
func (d *dense) learn(n int, x, dy []float32, rate, momentum float32) {
	kernels.Gemm(true, false, d.in, d.out, n, -rate, x, d.in, dy, d.out, momentum, d.weightMoves, d.out)
	kernels.Add(d.weights, d.weightMoves)
	kernels.Scale(momentum, d.biasMoves)
	for i := range n {
		kernels.Axpy(-rate, dy[i*d.out:(i+1)*d.out], d.biasMoves)
	}
	kernels.Add(d.bias, d.biasMoves)
}

// mlp is the network with what it needs for a batch.
type mlp struct {
	shape           Shape
	first, second   *dense
	steps           int
	rate, momentum  float64
	hidden, dHidden []float32 // [batch, Hidden]
	outputs         []float32 // [batch, classes]
}

func newMLP(s Shape, batch int, rng *rand.Rand) *mlp {
	return &mlp{
		shape: s, rate: mlpRate, momentum: mlpMomentum,
		first: newDense(s.Inputs, Hidden, rng), second: newDense(Hidden, s.Classes, rng),
		hidden: make([]float32, batch*Hidden), dHidden: make([]float32, batch*Hidden), outputs: make([]float32, batch*s.Classes),
	}
}

// logits of n rows, which stand in m.outputs.
func (m *mlp) logits(n int, rows []float32) []float32 {
	hidden, outputs := m.hidden[:n*Hidden], m.outputs[:n*m.shape.Classes]
	m.first.forward(n, rows, hidden)
	for i, h := range hidden {
		hidden[i] = max(h, 0)
	}
	m.second.forward(n, hidden, outputs)
	return outputs
}

// loss implements learner: cross-entropy in nats.
func (m *mlp) loss(b Block) (sum float64) {
	logits := m.logits(len(b.Labels), b.Rows)
	for i, label := range b.Labels {
		row := logits[i*m.shape.Classes:][:m.shape.Classes]
		sum += kernels.LogSumExp(row) - float64(row[label])
	}
	return sum
}

// step implements learner.
func (m *mlp) step(b Block) {
	n := len(b.Labels)
	gradient := m.logits(n, b.Rows)
	crossEntropy(gradient, b.Labels, m.shape.Classes)
	hidden, dHidden := m.hidden[:n*Hidden], m.dHidden[:n*Hidden]
	m.second.back(n, gradient, dHidden)
	for i, h := range hidden {
		if h <= 0 {
			dHidden[i] = 0
		}
	}
	rate := float32(m.rate / (1 + float64(mlpDecay*float64(m.steps))))
	m.second.learn(n, hidden, gradient, rate, float32(m.momentum))
	m.first.learn(n, b.Rows, dHidden, rate, float32(m.momentum))
	m.steps++
}

// crossEntropy turns logits into the gradient of the mean cross-entropy by them.
func crossEntropy(logits []float32, labels []int, classes int) {
	softmax(logits, classes)
	for i, label := range labels {
		logits[i*classes+label]--
	}
	kernels.Scale(1/float32(len(labels)), logits)
}

// softmax turns rows of logits into probabilities.
func softmax(logits []float32, classes int) {
	for row := range slices.Chunk(logits, classes) {
		sum := kernels.ExpSum(row, row, kernels.Max(row))
		kernels.Scale(float32(1/sum), row)
	}
}

// weights implements learner.
func (m *mlp) weights() [][]float32 {
	return [][]float32{m.first.weights, m.first.bias, m.second.weights, m.second.bias}
}

// mlpAttack scores by the logarithm of a class's probability.
type mlpAttack struct {
	*mlp
	descent
}

func newMLPAttack(s Shape, o Options, rng *rand.Rand) Attack {
	m := newMLP(s, o.Batch, rng)
	return &mlpAttack{m, descent{m, batching{s, o.Batch}, o.Epochs}}
}

// Train implements Attack.
func (a *mlpAttack) Train(ctx context.Context, data Data) (Training, error) {
	return a.descent.train(ctx, data)
}

// Score implements Attack. Scores are logarithms of probabilities: these themselves are often
// too near to 0 to be told apart.
func (a *mlpAttack) Score(ctx context.Context, rows, scores []float32) error {
	return a.score(ctx, rows, func(n int, batch []float32) {
		logits := a.logits(n, batch)
		for row := range slices.Chunk(logits, a.mlp.shape.Classes) {
			norm := float32(kernels.LogSumExp(row))
			for i := range row {
				row[i] -= norm
			}
		}
		scores = scores[copy(scores, logits):]
	})
}
