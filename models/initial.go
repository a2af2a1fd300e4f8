package models

import (
	"math"
	"math/rand/v2"
)

// The gates that keep the memory start more open than closed, so that gradients reach back over
// several tokens from the start (Jozefowicz et al., "An Empirical Exploration of Recurrent Network
// Architectures", 2015): a forget gate at sigmoid(1) = 0.73, and likewise one minus an input gate.
const (
	initialForgetGate = 1
	initialInputGate  = -1
)

// Init draws initial parameters. Each weight takes one number from rng, tensor
// after tensor in the order of the flat vector, but those of Adapters last; biases take none.
//
// The embedding is uniform in ±sqrt(3/embedding), so that a token vector has an expected squared
// length of 1 at any width, and untied output weights likewise by their width. The matrices of a
// layer are uniform in ±sqrt(6/(rows+columns)), where a gate matrix counts as one matrix for each
// gate (Glorot and Bengio, "Understanding the Difficulty of Training Deep Feedforward Neural
// Networks", 2010, equation 16). The kernel of a conv is uniform in ±sqrt(6/(kernel*in)), because
// rectified outputs halve the variance (He et al., "Delving Deep into Rectifiers", 2015, equation
// 10). Biases are zero, except -1 for the input gate of a cifg-lstm and 1 for the forget gate of an
// lstm. The matrices of a transformer are uniform in ±1/sqrt(rows), divided by sqrt(2 blocks) if
// they add to the residual stream. Factors A of Adapters are normal with variance 1/rows, factors B
// zero.
func (m *Language) Init(rng *rand.Rand) []float32 {
	params := make([]float32, m.Parameters())
	w := m.layout.views(params)
	if b := m.layout.decoder.layers[0].blocks; b != nil {
		FillUniform(rng, w.embedding, math.Sqrt(3/float64(m.config.Embedding)))
		b.initialize(rng, m.cells[0], params)
	} else {
		initializeStack(rng, &w.stackWeights, m.cells)
	}
	if m.config.Untied {
		FillUniform(rng, w.output, math.Sqrt(3/float64(m.config.outputWidth())))
	}
	if m.config.Separator != 0 {
		initializeStack(rng, &w.encoder, m.cells)
	}
	m.layout.initializeAdapters(rng, params)
	return params
}

func initializeStack(rng *rand.Rand, w *stackWeights, cells []cell) {
	FillUniform(rng, w.embedding, math.Sqrt(3/float64(cells[0].in)))
	for i, c := range cells {
		c.initialize(rng, &w.layers[i])
	}
}

func (c cell) initialize(rng *rand.Rand, w *layerWeights) {
	input, recurrent := glorot(c.in, c.units), glorot(c.out, c.units)
	if c.kind.convolves {
		input = math.Sqrt(6 / float64(c.joined()))
		recurrent = input
	}
	FillUniform(rng, w.input, input)
	FillUniform(rng, w.recurrent, recurrent)
	FillUniform(rng, w.projection, glorot(c.units, c.out))
	c.kind.initialize(w.bias, c.units)
}

func glorot(in, out int) float64 { return math.Sqrt(6 / float64(in+out)) }

// FillUniform draws each element, uniform in ±bound.
func FillUniform(rng *rand.Rand, x []float32, bound float64) {
	for i := range x {
		x[i] = float32(bound * (2*rng.Float64() - 1))
	}
}

// Fill sets each element to value.
func Fill(x []float32, value float32) {
	for i := range x {
		x[i] = value
	}
}
