package attacks

import (
	"context"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/models/networks"
)

// Hidden is the number of units of the network (Orekondy et al. 2018, section 4.3).
const Hidden = 128

// The paper's SGD: rate, momentum, and a decay, as in Keras: step t, counted from 0, has the rate
// rate/(1 + decay t).
const (
	mlpRate     = 0.01
	mlpMomentum = 0.9
	mlpDecay    = 1e-6
)

// mlp is a network with one hidden layer, and a softmax over the classes.
type mlp struct {
	batching
	epochs  int // maximum
	rng     *rand.Rand
	network *networks.Classifier
	keras
}

func newMLP(s Shape, o Options, rng *rand.Rand) Attack {
	return &mlp{batching: batching{s, o.Batch}, epochs: o.Epochs, rng: rng}
}

func (m *mlp) Train(ctx context.Context, data Data) (Training, error) {
	if err := m.begin(data.Examples()); err != nil {
		return Training{}, err
	}
	return descent{m, m.batching, m.epochs}.train(ctx, data)
}

// begin makes the network, with initial weights, for batches of at most examples examples.
func (m *mlp) begin(examples int) (err error) {
	m.network, err = networks.NewClassifier(networks.Config{
		Inputs: m.shape.Inputs, Hidden: []int{Hidden}, Classes: []int{m.shape.Classes},
	}, min(m.batch, max(1, examples)))
	if err != nil {
		return err
	}
	m.network.Graph().Init(m.rng)
	m.keras = keras{moves: make([]float32, len(m.params()))}
	return nil
}

func (m *mlp) params() []float32 { return m.network.Graph().Params }

func (m *mlp) step(b Block) error {
	_, gradient, err := m.network.Learn(len(b.Labels), b.row(m.shape), [][]int{b.Labels})
	if err != nil {
		return err
	}
	m.move(m.params(), gradient, mlpRate/(1+float64(mlpDecay*float64(m.steps))))
	return nil
}

func (m *mlp) loss(b Block) (float64, error) {
	return m.network.Loss(len(b.Labels), b.row(m.shape), [][]int{b.Labels})
}

// Score implements Attack. Scores are logarithms of probabilities, because probabilities are often
// too near 0 to distinguish.
func (m *mlp) Score(ctx context.Context, rows, scores []float32) error {
	return m.score(ctx, rows, func(batch Block) error {
		logits, err := m.network.Logits(len(batch.Labels), batch.row(m.shape))
		if err != nil {
			return err
		}
		for row := range slices.Chunk(logits[0], m.shape.Classes) {
			norm := float32(kernels.LogSumExp(row))
			for i, logit := range row {
				scores[i] = logit - norm
			}
			scores = scores[len(row):]
		}
		return nil
	})
}

// keras is SGD with momentum in the form of Keras: the velocity includes the rate.
type keras struct {
	moves []float32
	steps int
}

// move takes a step: move = momentum*move - rate*gradient, added to the parameters. It traverses
// the vectors once, part by part.
func (k *keras) move(params, gradient []float32, rate float64) {
	const part = 4096
	for from := 0; from < len(params); from += part {
		to := min(from+part, len(params))
		kernels.Scale(mlpMomentum, k.moves[from:to])
		kernels.Axpy(float32(-rate), gradient[from:to], k.moves[from:to])
		kernels.Add(params[from:to], k.moves[from:to])
	}
	k.steps++
}
