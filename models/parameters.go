package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Names of the tensors of a CIFG-LSTM. They are the names in model files and
// never change.
//
//	tensor          shape                     use
//	embedding       [vocabulary, embedding]   token vectors, and the output weights
//	cell.input      [embedding, 3*units]      gates from the token vector
//	cell.recurrent  [embedding, 3*units]      gates from the previous output
//	cell.bias       [3*units]
//	projection      [units, embedding]        output from the memory cells
//	output.bias     [vocabulary]
//
// All are row-major and applied as row vector times matrix. The 3*units
// columns are the input gate, the candidate and the output gate, in that order.
const (
	EmbeddingTensor  = "embedding"
	InputTensor      = "cell.input"
	RecurrentTensor  = "cell.recurrent"
	BiasTensor       = "cell.bias"
	ProjectionTensor = "projection"
	OutputBiasTensor = "output.bias"
)

// Language is the layout of a language model: it knows where each tensor lies
// in the flat vector of parameters, and holds no parameters itself. It is
// immutable and may be shared.
type Language struct {
	config Config
	layout layout
}

// New checks the configuration and returns its model.
func New(config Config) (*Language, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Language{config: config, layout: newLayout(config)}, nil
}

// Config returns the configuration the model was made from.
func (m *Language) Config() Config { return m.config }

// Parameters is the length of the flat vector.
func (m *Language) Parameters() int { return m.layout.size }

// Tensors lists the named tensors in the order of the flat vector, which they
// fill without gaps.
func (m *Language) Tensors() []Tensor {
	tensors := make([]Tensor, len(m.layout.tensors))
	for i, t := range m.layout.tensors {
		t.Shape = slices.Clone(t.Shape)
		tensors[i] = t
	}
	return tensors
}

// CheckParameters returns an error unless the vector has the model's length.
func (m *Language) CheckParameters(params []float32) error {
	return checkLength("the parameter vector", len(params), m.Parameters())
}

// ScoringFLOPs is the number of floating-point operations in the matrix
// products that score one token, a multiply-add counting as two. Everything
// else is a few percent of it.
func (m *Language) ScoringFLOPs() float64 {
	c := m.config
	cell := 2*c.Embedding*gatesPerUnit*c.Units + c.Units*c.Embedding
	return 2 * float64(cell+c.Vocabulary*c.Embedding)
}

// TrainingFLOPs is the same for the gradient of one token: each product of the
// forward pass has two in the backward pass.
func (m *Language) TrainingFLOPs() float64 { return 3 * m.ScoringFLOPs() }

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

// View returns the tensor's part of a flat vector; it shares its memory.
func (t Tensor) View(flat []float32) []float32 {
	end := t.Offset + t.Size()
	return flat[t.Offset:end:end]
}

// String names the tensor and its shape, for messages.
func (t Tensor) String() string { return fmt.Sprintf("%s %v", t.Name, t.Shape) }

// layout places the tensors of a configuration one after the other.
type layout struct {
	tensors                                                         []Tensor
	embedding, input, recurrent, bias, projection, outputBias, size int
}

func newLayout(c Config) layout {
	var l layout
	add := func(name string, shape ...int) int {
		t := Tensor{Name: name, Shape: shape, Offset: l.size}
		l.tensors = append(l.tensors, t)
		l.size += t.Size()
		return t.Offset
	}
	gates := gatesPerUnit * c.Units
	l.embedding = add(EmbeddingTensor, c.Vocabulary, c.Embedding)
	l.input = add(InputTensor, c.Embedding, gates)
	l.recurrent = add(RecurrentTensor, c.Embedding, gates)
	l.bias = add(BiasTensor, gates)
	l.projection = add(ProjectionTensor, c.Units, c.Embedding)
	l.outputBias = add(OutputBiasTensor, c.Vocabulary)
	return l
}

// weights are the views of one flat vector, of parameters or of a gradient.
type weights struct {
	embedding, input, recurrent, bias, projection, outputBias []float32
}

func (l *layout) views(flat []float32) weights {
	return weights{
		embedding:  flat[l.embedding:l.input],
		input:      flat[l.input:l.recurrent],
		recurrent:  flat[l.recurrent:l.bias],
		bias:       flat[l.bias:l.projection],
		projection: flat[l.projection:l.outputBias],
		outputBias: flat[l.outputBias:l.size],
	}
}

// initialInputGate opens the forget gate (one minus the input gate) to
// 1 - sigmoid(-1) = 0.73, the counterpart of a forget bias of 1, so that
// gradients reach back over several tokens from the start (Jozefowicz et al.,
// "An Empirical Exploration of Recurrent Network Architectures", 2015).
const initialInputGate = -1

// Init draws initial parameters. Each weight takes one number from rng, tensor
// after tensor in the order of the flat vector; biases take none.
//
// The embedding is uniform in ±sqrt(3/embedding), so that a token vector has an
// expected squared length of 1 at any width. The gate matrices and the
// projection are uniform in ±sqrt(6/(embedding+units)) (Glorot and Bengio,
// "Understanding the Difficulty of Training Deep Feedforward Neural Networks",
// 2010, equation 16, each gate being a layer). Biases are zero but for the input
// gate's, which is -1.
func (m *Language) Init(rng *rand.Rand) []float32 {
	params := make([]float32, m.Parameters())
	w := m.layout.views(params)
	glorot := math.Sqrt(6 / float64(m.config.Embedding+m.config.Units))
	fillUniform(rng, w.embedding, math.Sqrt(3/float64(m.config.Embedding)))
	fillUniform(rng, w.input, glorot)
	fillUniform(rng, w.recurrent, glorot)
	fillUniform(rng, w.projection, glorot)
	for i := range w.bias[:m.config.Units] {
		w.bias[i] = initialInputGate
	}
	return params
}

func fillUniform(rng *rand.Rand, x []float32, bound float64) {
	for i := range x {
		x[i] = float32(bound * (2*rng.Float64() - 1))
	}
}
