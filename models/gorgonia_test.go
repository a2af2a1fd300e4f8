package models_test

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/networks"
)

// gorgoniaModel is a language model of one layer, projected and tied, as a
// Gorgonia graph in float64, for sentences of one length: an implementation that
// shares nothing with this package, its gradient included. Each gate has matrices
// of its own and tokens are one-hot rows, because slices and lookups are what
// Gorgonia gets wrong.
type gorgoniaModel struct {
	*networks.Graph[float64]
	config   models.Config
	sequence int

	embedding, projection, outputBias *gorgonia.Node
	input, recurrent, bias            gorgonia.Nodes // of each gate
	candidateBias                     *gorgonia.Node // of a GRU
	tokens                            [][]float64    // by step: one-hot [sentences, vocabulary]
	tokenNodes                        gorgonia.Nodes
}

func newGorgoniaModel(t *testing.T, c models.Config, sentences, tokens int) *gorgoniaModel {
	t.Helper()
	g := &gorgoniaModel{Graph: networks.NewGraph[float64](), config: c, sequence: tokens}
	g.embedding = g.Parameter("embedding", c.Vocabulary, c.Embedding)
	for k := range gateCount(c.Kind) {
		g.input = append(g.input, g.Parameter(fmt.Sprint("input", k), c.Embedding, c.Units))
		g.recurrent = append(g.recurrent, g.Parameter(fmt.Sprint("recurrent", k), c.Embedding, c.Units))
		g.bias = append(g.bias, g.Parameter(fmt.Sprint("bias", k), 1, c.Units))
	}
	if c.Kind == models.GRU {
		g.candidateBias = g.Parameter("candidate bias", 1, c.Units)
	}
	g.projection = g.Parameter("projection", c.Units, c.Embedding)
	g.outputBias = g.Parameter("output bias", 1, c.Vocabulary)
	for step := range tokens {
		node, values := g.Input(fmt.Sprint("tokens", step), sentences, c.Vocabulary)
		g.tokens, g.tokenNodes = append(g.tokens, values), append(g.tokenNodes, node)
	}
	if err := g.CompileLoss(g.loss(sentences * (tokens - 1))); err != nil {
		t.Fatal(err)
	}
	return g
}

// loss composes the mean loss of all targets, step by step.
func (g *gorgoniaModel) loss(targets int) *gorgonia.Node {
	must := gorgonia.Must
	var memory, output, sum *gorgonia.Node
	for t := range g.sequence - 1 {
		x := must(gorgonia.Mul(g.tokenNodes[t], g.embedding))
		memory, output = g.cell(x, memory, output)
		logits := must(gorgonia.BroadcastAdd(must(gorgonia.Mul(output, must(gorgonia.Transpose(g.embedding)))), g.outputBias, nil, []byte{0}))
		chosen := must(gorgonia.Sum(must(gorgonia.HadamardProd(must(gorgonia.LogSoftMax(logits, 1)), g.tokenNodes[t+1]))))
		if sum == nil {
			sum = chosen
		} else {
			sum = must(gorgonia.Add(sum, chosen))
		}
	}
	return must(gorgonia.Neg(must(gorgonia.Div(sum, gorgonia.NewConstant(float64(targets))))))
}

func gateCount(kind string) int {
	if kind == models.LSTM {
		return 4
	}
	return 3
}

// cell computes a step from the memory and output before it, nil in the first.
func (g *gorgoniaModel) cell(x, memory, output *gorgonia.Node) (after, emitted *gorgonia.Node) {
	must := gorgonia.Must
	sigmoid := func(k int) *gorgonia.Node { return must(gorgonia.Sigmoid(plus(g.fed(x, k), g.fedBack(output, k)))) }
	tanh := func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.Tanh(x)) }
	switch g.config.Kind {
	case models.CIFGLSTM:
		i, z := sigmoid(0), tanh(plus(g.fed(x, 1), g.fedBack(output, 1)))
		after = plus(memory, times(i, minus(z, memory)))
		emitted = times(sigmoid(2), tanh(after))
	case models.LSTM:
		i, f, z := sigmoid(0), sigmoid(1), tanh(plus(g.fed(x, 2), g.fedBack(output, 2)))
		after = plus(times(f, memory), times(i, z))
		emitted = times(sigmoid(3), tanh(after))
	case models.GRU:
		r, u := sigmoid(0), sigmoid(1)
		z := tanh(plus(g.fed(x, 2), g.reset(r, output)))
		after = plus(z, times(u, minus(memory, z)))
		emitted = after
	}
	return after, must(gorgonia.Mul(emitted, g.projection))
}

// fed is gate k's part from the input, bias included.
func (g *gorgoniaModel) fed(x *gorgonia.Node, k int) *gorgonia.Node {
	must := gorgonia.Must
	return must(gorgonia.BroadcastAdd(must(gorgonia.Mul(x, g.input[k])), g.bias[k], nil, []byte{0}))
}

// fedBack is gate k's part from the output before.
func (g *gorgoniaModel) fedBack(output *gorgonia.Node, k int) *gorgonia.Node {
	if output == nil {
		return nil
	}
	return gorgonia.Must(gorgonia.Mul(output, g.recurrent[k]))
}

// reset is the part of a GRU's candidate that its reset gate r scales.
func (g *gorgoniaModel) reset(r, output *gorgonia.Node) *gorgonia.Node {
	must := gorgonia.Must
	if output == nil {
		return must(gorgonia.BroadcastHadamardProd(r, g.candidateBias, nil, []byte{0}))
	}
	return times(r, must(gorgonia.BroadcastAdd(g.fedBack(output, 2), g.candidateBias, nil, []byte{0})))
}

// The sums, differences and products of nodes take nil for zero: what there is
// before the first step.

func plus(a, b *gorgonia.Node) *gorgonia.Node {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return gorgonia.Must(gorgonia.Add(a, b))
}

func minus(a, b *gorgonia.Node) *gorgonia.Node {
	if b == nil {
		return a
	}
	if a == nil {
		return gorgonia.Must(gorgonia.Neg(b))
	}
	return gorgonia.Must(gorgonia.Sub(a, b))
}

func times(a, b *gorgonia.Node) *gorgonia.Node {
	if a == nil || b == nil {
		return nil
	}
	return gorgonia.Must(gorgonia.HadamardProd(a, b))
}

// fill sets the one-hot tokens.
func (g *gorgoniaModel) fill(sentences [][]int32) {
	for step, values := range g.tokens {
		clear(values)
		for i, s := range sentences {
			values[i*g.config.Vocabulary+int(s[step])] = 1
		}
	}
}

// tensor collects one of this package's tensors out of a vector of the graph:
// gate matrices lie side by side here, one by one there.
func (g *gorgoniaModel) tensor(vector []float64, t models.Tensor) []float64 {
	parts := map[string][]float64{}
	for _, p := range g.Tensors() {
		parts[p.Name] = vector[p.Offset:][:p.Size()]
	}
	switch t.Name {
	case models.EmbeddingTensor, models.ProjectionTensor:
		return parts[t.Name]
	case models.OutputBiasTensor:
		return parts["output bias"]
	case models.CandidateBiasTensor:
		return parts["candidate bias"]
	}
	name := map[string]string{models.InputTensor: "input", models.RecurrentTensor: "recurrent", models.BiasTensor: "bias"}[t.Name]
	out, units := make([]float64, t.Size()), g.config.Units
	width := len(g.input) * units
	for at := range out {
		row, column := at/width, at%width
		out[at] = parts[fmt.Sprint(name, column/units)][row*units+column%units]
	}
	return out
}

func TestTheGradientEqualsThatOfAGorgoniaGraph(t *testing.T) {
	t.Parallel()
	for _, kind := range models.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			compareWithGorgonia(t, models.Config{Kind: kind, Vocabulary: 31, Embedding: 6, Units: 9})
		})
	}
}

func compareWithGorgonia(t *testing.T, config models.Config) {
	const sentences, tokens = 4, 7
	m, err := models.New(config)
	if err != nil {
		t.Fatal(err)
	}
	g := newGorgoniaModel(t, config, sentences, tokens)
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	rng := seeds.Stream(1, "test")
	params := make([]float64, g.Parameters())
	for i := range params {
		params[i] = float64(float32(rng.NormFloat64() * 0.5))
	}
	batch := make([][]int32, sentences)
	for i := range batch {
		for range tokens {
			batch[i] = append(batch[i], int32(rng.IntN(config.Vocabulary)))
		}
	}
	g.fill(batch)
	want := make([]float64, len(params))
	wantLoss, err := g.Gradient(params, want)
	if err != nil {
		t.Fatal(err)
	}

	flat, gradient := make([]float32, m.Parameters()), make([]float32, m.Parameters())
	for _, tensor := range m.Tensors() {
		for i, v := range g.tensor(params, tensor) {
			flat[tensor.Offset+i] = float32(v)
		}
	}
	loss, err := m.NewTrainer().Gradient(flat, batch, gradient)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(loss.Mean()-wantLoss) > 1e-5 {
		t.Errorf("mean loss %v, of the graph %v", loss.Mean(), wantLoss)
	}
	for _, tensor := range m.Tensors() {
		expected, largest := g.tensor(want, tensor), 0.0
		for _, v := range expected {
			largest = max(largest, math.Abs(v))
		}
		for i, v := range tensor.View(gradient) {
			if math.Abs(float64(v)-expected[i]) > 1e-5*largest {
				t.Fatalf("%v element %d: gradient %v, of the graph %v (largest %v)", tensor, i, v, expected[i], largest)
			}
		}
	}
}
