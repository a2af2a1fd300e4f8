package models_test

import (
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/networks"
)

// gorgoniaCIFG is the CIFG-LSTM as a Gorgonia graph in float64, for sentences of
// one length: an implementation that shares nothing with this package, its
// gradient included. Each gate has matrices of its own and tokens are one-hot
// rows, because slices and lookups are what Gorgonia gets wrong.
type gorgoniaCIFG struct {
	*networks.Graph[float64]
	config   models.Config
	sequence int

	embedding, projection, outputBias *gorgonia.Node
	input, recurrent, bias            [3]*gorgonia.Node
	tokens                            [][]float64 // by step: one-hot [sentences, vocabulary]
	tokenNodes                        gorgonia.Nodes
}

func newGorgoniaCIFG(t *testing.T, c models.Config, sentences, tokens int) *gorgoniaCIFG {
	t.Helper()
	g := &gorgoniaCIFG{Graph: networks.NewGraph[float64](), config: c, sequence: tokens}
	g.embedding = g.Parameter("embedding", c.Vocabulary, c.Embedding)
	for k := range 3 {
		g.input[k] = g.Parameter(fmt.Sprint("input", k), c.Embedding, c.Units)
		g.recurrent[k] = g.Parameter(fmt.Sprint("recurrent", k), c.Embedding, c.Units)
		g.bias[k] = g.Parameter(fmt.Sprint("bias", k), 1, c.Units)
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
func (g *gorgoniaCIFG) loss(targets int) *gorgonia.Node {
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

func (g *gorgoniaCIFG) cell(x, memory, output *gorgonia.Node) (after, emitted *gorgonia.Node) {
	must := gorgonia.Must
	var pre [3]*gorgonia.Node
	for k := range pre {
		pre[k] = must(gorgonia.BroadcastAdd(must(gorgonia.Mul(x, g.input[k])), g.bias[k], nil, []byte{0}))
		if output != nil {
			pre[k] = must(gorgonia.Add(pre[k], must(gorgonia.Mul(output, g.recurrent[k]))))
		}
	}
	i, z, o := must(gorgonia.Sigmoid(pre[0])), must(gorgonia.Tanh(pre[1])), must(gorgonia.Sigmoid(pre[2]))
	if memory == nil {
		after = must(gorgonia.HadamardProd(i, z))
	} else {
		after = must(gorgonia.Add(memory, must(gorgonia.HadamardProd(i, must(gorgonia.Sub(z, memory))))))
	}
	return after, must(gorgonia.Mul(must(gorgonia.HadamardProd(o, must(gorgonia.Tanh(after)))), g.projection))
}

// fill sets the one-hot tokens.
func (g *gorgoniaCIFG) fill(sentences [][]int32) {
	for step, values := range g.tokens {
		clear(values)
		for i, s := range sentences {
			values[i*g.config.Vocabulary+int(s[step])] = 1
		}
	}
}

// tensor collects one of this package's tensors out of a vector of the graph:
// gate matrices lie side by side here, one by one there.
func (g *gorgoniaCIFG) tensor(vector []float64, t models.Tensor) []float64 {
	parts := map[string][]float64{}
	for _, p := range g.Tensors() {
		parts[p.Name] = vector[p.Offset:][:p.Size()]
	}
	switch t.Name {
	case models.EmbeddingTensor, models.ProjectionTensor:
		return parts[t.Name]
	case models.OutputBiasTensor:
		return parts["output bias"]
	}
	name := map[string]string{models.InputTensor: "input", models.RecurrentTensor: "recurrent", models.BiasTensor: "bias"}[t.Name]
	out, units := make([]float64, t.Size()), g.config.Units
	for at := range out {
		row, column := at/(3*units), at%(3*units)
		out[at] = parts[fmt.Sprint(name, column/units)][row*units+column%units]
	}
	return out
}

func TestTheGradientEqualsThatOfAGorgoniaGraph(t *testing.T) {
	t.Parallel()
	const sentences, tokens = 4, 7
	config := models.Config{Kind: models.CIFGLSTM, Vocabulary: 31, Embedding: 6, Units: 9}
	m, err := models.New(config)
	if err != nil {
		t.Fatal(err)
	}
	g := newGorgoniaCIFG(t, config, sentences, tokens)
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
