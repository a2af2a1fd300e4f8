package models

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Names of the tensors of a model with one layer. They are the names in model files and never
// change. in is the width of a layer's input (the embedding or the output of the layer below), out
// the width of its output.
//
//	tensor                shape                    use
//	embedding             [vocabulary, embedding]  token vectors; if tied, the output weights too
//	cell.input            [in, gates*units]        gates from the layer's input
//	cell.recurrent        [out, gates*units]       gates from its previous output
//	cell.kernel           [kernel, in, units]      conv, in place of the two above: first of the newest input
//	cell.bias             [gates*units]
//	cell.candidate_bias   [units]                  gru: of the candidate's recurrent part
//	projection            [units, out]             output from the memory cells, if projected
//	output.weights        [vocabulary, out]        if untied
//	output.bias           [vocabulary]
//
// A Transformer has other layers; see PositionTensor. Its Adapters come first. All are row-major and applied
// as row vector times matrix. The gates*units columns are, in this order, of a
// cifg-lstm input gate, candidate and output gate; of an lstm input gate, forget gate, candidate and output gate; of a gru
// reset gate, update gate and candidate; a conv has one column for each filter.
//
// The second layer has tensors of the same names with cell2 and projection2 in
// place of cell and projection, and so on. An encoder-decoder has these tensors for
// its decoder, and after them, each with "encoder." before its name, an embedding, cells
// and projections of the same shapes for its encoder.
const (
	EmbeddingTensor     = "embedding"
	InputTensor         = "cell.input"
	RecurrentTensor     = "cell.recurrent"
	KernelTensor        = "cell.kernel"
	BiasTensor          = "cell.bias"
	CandidateBiasTensor = "cell.candidate_bias"
	ProjectionTensor    = "projection"
	OutputTensor        = "output.weights"
	OutputBiasTensor    = "output.bias"

	// EncoderPrefix begins the names of an encoder's tensors.
	EncoderPrefix = "encoder."
)

// Language is the layout of a language model: the position of each tensor in the flat vector of
// parameters. It holds no parameters, is immutable and may be shared.
type Language struct {
	layout
	cells []cell // from the lowest layer up
}

// New checks the configuration and returns its model.
func New(config Config) (*Language, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Kind.ForImages() || config.Kind.ForLabels() {
		return nil, fmt.Errorf("model configuration: kind %s is not a language model", config.Kind)
	}
	return &Language{newLayout(config), cellsOf(config)}, nil
}

// Context returns the largest number of tokens that the model reads; 0 is no limit.
func (m *Language) Context() int { return m.cells[0].context }

// ScoringFLOPs returns the number of floating-point operations in the matrix products that score
// one token, a multiply-add counting as two. Other operations are a few percent of it. For an
// encoder-decoder it covers a token of the target and one of the source, which is not predicted.
func (m *Language) ScoringFLOPs() float64 {
	products, stacks := m.config.Vocabulary*m.config.outputWidth(), 1
	if m.config.Separator != 0 {
		stacks = 2
	}
	for _, c := range m.cells {
		products += stacks * c.products()
	}
	return 2 * float64(products)
}

// TrainingFLOPs is ScoringFLOPs for the gradient of one token: each product of the forward pass has
// two in the backward pass. With adapters it has one, because the gradient of a frozen matrix is not
// needed; the products with the factors are few.
func (m *Language) TrainingFLOPs() float64 {
	if len(m.layout.adapters) > 0 {
		return 2 * m.ScoringFLOPs()
	}
	return 3 * m.ScoringFLOPs()
}

// Tensor is a named part of the flat vector.
type Tensor struct {
	Name string
	// Shape is row-major.
	Shape []int
	// Offset is the index of the first element in the flat vector.
	Offset int
}

// Size is the number of elements.
func (t Tensor) Size() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// View returns the tensor's part of a flat vector, sharing memory with it.
func (t Tensor) View(flat []float32) []float32 {
	end := t.Offset + t.Size()
	return flat[t.Offset:end:end]
}

// String names the tensor and its shape, for messages.
func (t Tensor) String() string { return fmt.Sprintf("%s %v", t.Name, t.Shape) }

// layout places the tensors of a configuration.
type layout struct {
	Layout
	decoder, encoder   stackLayout // a plain model has only the first
	output, outputBias Span
	adapters           []adapter // in the order of the vector
}

// Layout names the tensors of a network's flat vector, one after the other. It implements a part of Network.
type Layout struct {
	config        Config
	tensors       []Tensor
	size, trained int // trained is 0 if all are
}

// NewLayout returns the layout of a configuration before its first tensor.
func NewLayout(config Config) Layout { return Layout{config: config} }

// Config implements Network.
func (l *Layout) Config() Config { return l.config }

// Parameters implements Network.
func (l *Layout) Parameters() int { return l.size }

// Trained implements Network: all parameters are trained, unless EndTrained was called.
func (l *Layout) Trained() int { return cmp.Or(l.trained, l.size) }

// EndTrained marks the parameters so far as the trained ones; without any, all are trained.
func (l *Layout) EndTrained() { l.trained = l.size }

type stackLayout struct {
	embedding Span
	layers    [maxLayers]layerLayout
}

type layerLayout struct {
	input, recurrent, bias, candidateBias, projection Span

	blocks *blocksLayout // of a transformer, instead of the other fields
}

// Span is a part of the flat vector, [From, To); a tensor that a model lacks has an empty one.
type Span struct{ From, To int }

// Of returns the part of a vector, sharing memory with it.
func (s Span) Of(flat []float32) []float32 { return flat[s.From:s.To:s.To] }

// Add appends a tensor and returns its span.
func (l *Layout) Add(name string, shape ...int) Span {
	t := Tensor{Name: name, Shape: shape, Offset: l.size}
	l.tensors = append(l.tensors, t)
	l.size += t.Size()
	return Span{t.Offset, l.size}
}

// Tensors implements Network.
func (l *Layout) Tensors() []Tensor {
	tensors := slices.Clone(l.tensors)
	for i := range tensors {
		tensors[i].Shape = slices.Clone(tensors[i].Shape)
	}
	return tensors
}

func newLayout(c Config) layout {
	l := layout{Layout: NewLayout(c)}
	l.addAdapters(c)
	l.EndTrained() // none without adapters
	l.decoder = l.addStack("", c)
	l.output = l.decoder.embedding
	if c.Untied {
		l.output = l.Add(OutputTensor, c.Vocabulary, c.outputWidth())
	}
	l.outputBias = l.Add(OutputBiasTensor, c.Vocabulary)
	if c.Separator != 0 {
		l.encoder = l.addStack(EncoderPrefix, c)
	}
	l.placeAdapters()
	return l
}

func (l *layout) addStack(prefix string, c Config) stackLayout {
	s := stackLayout{embedding: l.Add(prefix+EmbeddingTensor, c.Vocabulary, c.Embedding)}
	for i, cell := range cellsOf(c) {
		name := func(tensor string) string { return prefix + layerTensor(tensor, i) }
		s.layers[i] = l.addLayer(cell, name)
	}
	return s
}

func (l *layout) addLayer(c cell, name func(tensor string) string) (at layerLayout) {
	if c.kind.attends {
		at.blocks = l.addBlocks(c)
		return at
	}
	if c.kind.convolves {
		kernel := l.Add(name(KernelTensor), c.kernel, c.in, c.units)
		newest := kernel.From + c.in*c.units
		at.input, at.recurrent = Span{kernel.From, newest}, Span{newest, kernel.To}
	} else {
		at.input = l.Add(name(InputTensor), c.in, c.gates())
		at.recurrent = l.Add(name(RecurrentTensor), c.out, c.gates())
	}
	at.bias = l.Add(name(BiasTensor), c.gates())
	if c.kind.resets {
		at.candidateBias = l.Add(name(CandidateBiasTensor), c.units)
	}
	if c.projected {
		at.projection = l.Add(name(ProjectionTensor), c.units, c.out)
	}
	return at
}

// layerTensor returns the name of layer i's tensor: cell2.input for layer 1.
func layerTensor(name string, i int) string {
	if i == 0 {
		return name
	}
	room, rest, dotted := strings.Cut(name, ".")
	name = fmt.Sprintf("%s%d", room, i+1)
	if dotted {
		name += "." + rest
	}
	return name
}

// weights are the views of one flat vector, of parameters or of a gradient. output is embedding if
// the two are tied. encoder is empty in a plain model.
type weights struct {
	stackWeights // weights of the decoder
	encoder      stackWeights

	output, outputBias []float32
}

type stackWeights struct {
	embedding []float32
	layers    [maxLayers]layerWeights
}

type layerWeights struct {
	input, recurrent, bias, candidateBias, projection []float32
	inputAndRecurrent                                 []float32 // both, which are adjacent
}

func (l *layout) views(flat []float32) weights {
	return weights{
		stackWeights: l.decoder.views(flat), encoder: l.encoder.views(flat),
		output: l.output.Of(flat), outputBias: l.outputBias.Of(flat),
	}
}

func (s *stackLayout) views(flat []float32) stackWeights {
	w := stackWeights{embedding: s.embedding.Of(flat)}
	for i := range s.layers {
		at := &s.layers[i]
		w.layers[i] = layerWeights{
			input: at.input.Of(flat), recurrent: at.recurrent.Of(flat), bias: at.bias.Of(flat),
			candidateBias: at.candidateBias.Of(flat), projection: at.projection.Of(flat),
			inputAndRecurrent: Span{at.input.From, at.recurrent.To}.Of(flat),
		}
	}
	return w
}
