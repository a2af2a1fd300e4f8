package models_test

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/networks"
)

// gorgoniaModel is a language model as a Gorgonia graph in float64, for sentences
// of one length: an implementation that shares nothing with this package, its
// gradient included. Each gate has matrices of its own and tokens are one-hot
// rows, because Gorgonia's slices and lookups are faulty.
type gorgoniaModel struct {
	*networks.Graph[float64]
	config   models.Config
	sequence int

	nodes      map[string]gorgonia.Nodes // by tensor: one for each gate or input of a kernel, or one
	tokens     [][]float64               // by step: one-hot [sentences, vocabulary]
	tokenNodes gorgonia.Nodes
}

func newGorgoniaModel(t *testing.T, m *models.Language, sentences, tokens int) *gorgoniaModel {
	t.Helper()
	g := &gorgoniaModel{
		Graph: networks.NewGraph[float64](), config: m.Config(), sequence: tokens, nodes: map[string]gorgonia.Nodes{},
	}
	for _, tensor := range m.Tensors() {
		parts, rows := g.parts(tensor.Name), 1
		switch shape := tensor.Shape; len(shape) {
		case 2:
			rows = shape[0]
		case 3:
			parts, rows = shape[0], shape[1]
		}
		for k := range parts {
			node := g.Parameter(fmt.Sprint(tensor.Name, "/", k), rows, tensor.Size()/rows/parts)
			g.nodes[tensor.Name] = append(g.nodes[tensor.Name], node)
		}
	}
	for step := range tokens {
		node, values := g.Input(fmt.Sprint("tokens", step), sentences, g.config.Vocabulary)
		g.tokens, g.tokenNodes = append(g.tokens, values), append(g.tokenNodes, node)
	}
	must.Do(t, g.CompileLoss(g.loss(sentences*(tokens-1))))
	return g
}

// parts returns the number of gates that share a tensor.
func (g *gorgoniaModel) parts(tensor string) int {
	switch {
	case !strings.HasPrefix(tensor, "cell"), strings.HasSuffix(tensor, ".candidate_bias"), g.config.Kind == models.Conv:
		return 1
	case g.config.Kind == models.LSTM:
		return 4
	}
	return 3
}

// node is a tensor that no gates share, or nil if the model lacks it.
func (g *gorgoniaModel) node(tensor string) *gorgonia.Node {
	if nodes := g.nodes[tensor]; len(nodes) > 0 {
		return nodes[0]
	}
	return nil
}

// loss composes the mean loss of all targets, step by step.
func (g *gorgoniaModel) loss(targets int) *gorgonia.Node {
	must := gorgonia.Must
	output := cmp.Or(g.node(models.OutputTensor), g.node(models.EmbeddingTensor))
	layers := make([]gorgoniaLayer, max(1, g.config.Layers))
	for i, suffix := range []string{"", "2", "3", "4"}[:len(layers)] {
		layers[i] = gorgoniaLayer{gorgoniaModel: g, cell: "cell" + suffix, projection: g.node("projection" + suffix)}
	}
	var sum *gorgonia.Node
	for t := range g.sequence - 1 {
		x := must(gorgonia.Mul(g.tokenNodes[t], g.node(models.EmbeddingTensor)))
		for i := range layers {
			x = layers[i].step(x)
		}
		logits := must(gorgonia.BroadcastAdd(must(gorgonia.Mul(x, must(gorgonia.Transpose(output)))), g.node(models.OutputBiasTensor), nil, []byte{0}))
		sum = plus(sum, must(gorgonia.Sum(must(gorgonia.HadamardProd(must(gorgonia.LogSoftMax(logits, 1)), g.tokenNodes[t+1])))))
	}
	return must(gorgonia.Neg(must(gorgonia.Div(sum, gorgonia.NewConstant(float64(targets))))))
}

// gorgoniaLayer is a layer at a step; memory and output are nil before the first. inputs
// are those of a convolution, the newest first.
type gorgoniaLayer struct {
	*gorgoniaModel
	cell                       string // its tensors are cell.input and so on
	projection, memory, output *gorgonia.Node
	inputs                     gorgonia.Nodes
}

// step moves on to the next step and returns its output.
func (l *gorgoniaLayer) step(x *gorgonia.Node) *gorgonia.Node {
	sigmoid := func(k int) *gorgonia.Node { return gorgonia.Must(gorgonia.Sigmoid(plus(l.fed(x, k), l.fedBack(k)))) }
	tanh := func(x *gorgonia.Node) *gorgonia.Node { return gorgonia.Must(gorgonia.Tanh(x)) }
	switch l.config.Kind {
	case models.CIFGLSTM:
		i, z := sigmoid(0), tanh(plus(l.fed(x, 1), l.fedBack(1)))
		l.memory = plus(l.memory, times(i, minus(z, l.memory)))
		l.output = times(sigmoid(2), tanh(l.memory))
	case models.LSTM:
		i, f, z := sigmoid(0), sigmoid(1), tanh(plus(l.fed(x, 2), l.fedBack(2)))
		o := sigmoid(3)
		l.memory = plus(times(f, l.memory), times(i, z))
		l.output = times(o, tanh(l.memory))
	case models.GRU:
		r, u := sigmoid(0), sigmoid(1)
		z := tanh(plus(l.fed(x, 2), l.reset(r)))
		l.memory = plus(z, times(u, minus(l.memory, z)))
		l.output = l.memory
	case models.Conv:
		l.output = l.convolve(x)
	}
	if l.projection != nil {
		l.output = gorgonia.Must(gorgonia.Mul(l.output, l.projection))
	}
	return l.output
}

// convolve is the output after one more input.
func (l *gorgoniaLayer) convolve(x *gorgonia.Node) *gorgonia.Node {
	l.inputs = append(gorgonia.Nodes{x}, l.inputs...)
	var sum *gorgonia.Node
	for k, weights := range l.nodes[l.cell+".kernel"] {
		if k < len(l.inputs) {
			sum = plus(sum, gorgonia.Must(gorgonia.Mul(l.inputs[k], weights)))
		}
	}
	sum = gorgonia.Must(gorgonia.BroadcastAdd(sum, l.nodes[l.cell+".bias"][0], nil, []byte{0}))
	return gorgonia.Must(gorgonia.Rectify(sum))
}

// fed is gate k's part from the input, bias included.
func (l *gorgoniaLayer) fed(x *gorgonia.Node, k int) *gorgonia.Node {
	product := gorgonia.Must(gorgonia.Mul(x, l.nodes[l.cell+".input"][k]))
	return gorgonia.Must(gorgonia.BroadcastAdd(product, l.nodes[l.cell+".bias"][k], nil, []byte{0}))
}

// fedBack is gate k's part from the output before.
func (l *gorgoniaLayer) fedBack(k int) *gorgonia.Node {
	if l.output == nil {
		return nil
	}
	return gorgonia.Must(gorgonia.Mul(l.output, l.nodes[l.cell+".recurrent"][k]))
}

// reset is the part of a GRU's candidate that its reset gate r scales.
func (l *gorgoniaLayer) reset(r *gorgonia.Node) *gorgonia.Node {
	bias := l.node(l.cell + ".candidate_bias")
	if l.output == nil {
		return gorgonia.Must(gorgonia.BroadcastHadamardProd(r, bias, nil, []byte{0}))
	}
	return times(r, gorgonia.Must(gorgonia.BroadcastAdd(l.fedBack(2), bias, nil, []byte{0})))
}

// The sums, differences and products of nodes take nil for zero, the value before the first step.

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

// tensor collects one of this package's tensors out of a vector of the graph: gate matrices lie
// side by side here, one by one there. (The matrices of a kernel lie one by one in both.)
func (g *gorgoniaModel) tensor(vector []float64, t models.Tensor) []float64 {
	var parts [][]float64
	for _, p := range g.Tensors() {
		if strings.HasPrefix(p.Name, t.Name+"/") {
			parts = append(parts, vector[p.Offset:][:p.Size()])
		}
	}
	rows := 1
	if len(t.Shape) == 2 {
		rows = t.Shape[0]
	}
	var out []float64
	for row := range rows {
		for _, part := range parts {
			width := len(part) / rows
			out = append(out, part[row*width:][:width]...)
		}
	}
	return out
}

func TestEveryVariantsGradientEqualsThatOfAGorgoniaGraph(t *testing.T) {
	t.Parallel()
	for _, config := range models.Variants(31) {
		t.Run(fmt.Sprintf("%+v", config), func(t *testing.T) {
			t.Parallel()
			compareWithGorgonia(t, config)
		})
	}
}

func compareWithGorgonia(t *testing.T, config models.Config) {
	const sentences, tokens = 4, 8 // as many steps as the widest kernel has inputs
	m := must.Get(models.New(config))(t)
	g := newGorgoniaModel(t, m, sentences, tokens)
	rng := seeds.Stream(1, "test")
	params := g.Params
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
	wantLoss := must.Get(g.Run())(t)

	flat, gradient := make([]float32, m.Parameters()), make([]float32, m.Parameters())
	for _, tensor := range m.Tensors() {
		for i, v := range g.tensor(params, tensor) {
			flat[tensor.Offset+i] = float32(v)
		}
	}
	loss := must.Get(m.NewTrainer().Gradient(flat, batch, gradient))(t)
	if math.Abs(loss.Mean()-wantLoss) > 1e-5 {
		t.Errorf("mean loss %v, of the graph %v", loss.Mean(), wantLoss)
	}
	for _, tensor := range m.Tensors() {
		expected, largest := g.tensor(g.Gradient, tensor), 0.0
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
