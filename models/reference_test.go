package models

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
)

// reference is the model once more, in float64, sentence by sentence and
// element by element, written to be read beside the equations.
type reference struct {
	config    Config
	embedding [][]float64
	layers    []referenceLayer
	output    [][]float64
	outBias   []float64
	encoder   *reference // its embedding and layers alone; nil of a plain model
	// mask multiplies the output of layer l at step t of sentence i; nil for 1.
	mask func(l, i, t int) []float64
}

type referenceLayer struct {
	kind                      Kind
	units                     int
	input, recurrent, project [][]float64 // project is nil without projection
	kernel                    [][]float64 // of a convolution: all inputs' rows, the newest first
	bias, candidateBias       []float64
}

// referenceState is the memory and the output of every layer, and all inputs of a
// convolution so far, the newest first.
type referenceState struct {
	memory, output [][]float64
	inputs         [][][]float64
}

func newReference(m *Language, params []float64) *reference {
	r := newReferenceOf(m.Tensors(), m.config, params, "")
	if m.config.Separator != 0 {
		r.encoder = newReferenceOf(m.Tensors(), m.config, params, EncoderPrefix)
	}
	return r
}

// newReferenceOf reads the tensors whose names have the prefix.
func newReferenceOf(tensors []Tensor, c Config, params []float64, prefix string) *reference {
	tensor := map[string][]float64{}
	shape := map[string][]int{}
	for _, t := range tensors {
		tensor[t.Name] = params[t.Offset : t.Offset+t.Size()]
		shape[t.Name] = t.Shape
	}
	matrix := func(name string) [][]float64 {
		name = prefix + name
		if tensor[name] == nil {
			return nil
		}
		columns := shape[name][len(shape[name])-1]
		rows := make([][]float64, len(tensor[name])/columns)
		for i := range rows {
			rows[i] = tensor[name][i*columns : (i+1)*columns]
		}
		return rows
	}
	r := &reference{config: c, embedding: matrix(EmbeddingTensor), output: matrix(OutputTensor), outBias: tensor[OutputBiasTensor]}
	if !c.Untied {
		r.output = r.embedding
	}
	for _, suffix := range []string{"", "2", "3", "4"}[:max(1, c.Layers)] {
		r.layers = append(r.layers, referenceLayer{
			kind: c.Kind, units: c.Units,
			input: matrix("cell" + suffix + ".input"), recurrent: matrix("cell" + suffix + ".recurrent"),
			bias: tensor[prefix+"cell"+suffix+".bias"], candidateBias: tensor[prefix+"cell"+suffix+".candidate_bias"],
			project: matrix("projection" + suffix), kernel: matrix("cell" + suffix + ".kernel"),
		})
	}
	return r
}

// start is the state before the first token.
func (r *reference) start() *referenceState {
	s := &referenceState{inputs: make([][][]float64, len(r.layers))}
	for _, l := range r.layers {
		s.memory = append(s.memory, make([]float64, l.units))
		s.output = append(s.output, make([]float64, len(l.recurrent)))
	}
	return s
}

// times is the row vector x times the matrix.
func times(x []float64, matrix [][]float64) []float64 {
	out := make([]float64, len(matrix[0]))
	for i, row := range matrix {
		for j, w := range row {
			out[j] += x[i] * w
		}
	}
	return out
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// step feeds a token, changes the state, and returns the output.
func (r *reference) step(token int32, s *referenceState) []float64 { return r.stepOf(0, 0, token, s) }

// stepOf is step t of sentence i, whose masks it applies.
func (r *reference) stepOf(i, t int, token int32, s *referenceState) []float64 {
	x := r.embedding[token]
	for at := range r.layers {
		l := &r.layers[at]
		var emitted []float64
		if l.kind == Conv {
			s.inputs[at] = append([][]float64{x}, s.inputs[at]...)
			emitted = l.convolve(s.inputs[at])
		} else {
			emitted = l.cell(times(x, l.input), times(s.output[at], l.recurrent), s.memory[at])
		}
		if l.project != nil {
			emitted = times(emitted, l.project)
		}
		s.output[at], x = emitted, emitted
		if r.mask != nil {
			x = slices.Clone(emitted)
			for j, factor := range r.mask(at, i, t) {
				x[j] *= factor
			}
		}
	}
	return x
}

// convolve is the output after inputs of the given order, the newest first.
func (l *referenceLayer) convolve(inputs [][]float64) []float64 {
	out := slices.Clone(l.bias)
	for k, x := range inputs {
		for i, v := range x {
			if at := k*len(x) + i; at < len(l.kernel) {
				for j := range out {
					out[j] += v * l.kernel[at][j]
				}
			}
		}
	}
	for j := range out {
		out[j] = max(0, out[j])
	}
	return out
}

// cell changes the memory and returns the emission.
func (l *referenceLayer) cell(fromInput, fromOutput, memory []float64) []float64 {
	n := l.units
	pre := func(j int) float64 { return fromInput[j] + fromOutput[j] + l.bias[j] }
	emitted := make([]float64, n)
	for j := range n {
		switch l.kind {
		case CIFGLSTM:
			i, z, o := sigmoid(pre(j)), math.Tanh(pre(n+j)), sigmoid(pre(2*n+j))
			memory[j] = (1-i)*memory[j] + i*z
			emitted[j] = o * math.Tanh(memory[j])
		case LSTM:
			i, f, z, o := sigmoid(pre(j)), sigmoid(pre(n+j)), math.Tanh(pre(2*n+j)), sigmoid(pre(3*n+j))
			memory[j] = f*memory[j] + i*z
			emitted[j] = o * math.Tanh(memory[j])
		case GRU:
			reset, u := sigmoid(pre(j)), sigmoid(pre(n+j))
			z := math.Tanh(fromInput[2*n+j] + l.bias[2*n+j] + reset*(fromOutput[2*n+j]+l.candidateBias[j]))
			memory[j] = (1-u)*z + u*memory[j]
			emitted[j] = memory[j]
		}
	}
	return emitted
}

// logProbs of every token, given the output.
func (r *reference) logProbs(output []float64) []float64 {
	logits := make([]float64, r.config.Vocabulary)
	peak := math.Inf(-1)
	for v := range logits {
		logits[v] = r.outBias[v]
		for j, h := range output {
			logits[v] += h * r.output[v][j]
		}
		peak = max(peak, logits[v])
	}
	var sum float64
	for _, l := range logits {
		sum += math.Exp(l - peak)
	}
	for v := range logits {
		logits[v] -= peak + math.Log(sum)
	}
	return logits
}

// meanLoss of sentences, per target.
func (r *reference) meanLoss(sentences [][]int32) float64 {
	var sum float64
	var targets int
	for i, s := range sentences {
		state, from := r.start(), 0
		if r.encoder != nil {
			from = slices.Index(s, r.config.Separator)
			for t, token := range s[:from] {
				r.encoder.stepOf(i, t, token, state)
			}
		}
		for t, token := range s[from : len(s)-1] {
			sum -= r.logProbs(r.stepOf(i, t, token, state))[s[from+t+1]]
			targets++
		}
	}
	return sum / float64(targets)
}

// derivative is the central difference of the mean loss in one parameter.
func derivative(m *Language, params []float64, i int, sentences [][]int32) float64 {
	return derivativeOf(newReference(m, params), params, i, sentences)
}

// derivativeOf is the same for a reference that reads params.
func derivativeOf(r *reference, params []float64, i int, sentences [][]int32) float64 {
	const h = 1e-5 // error about h^2 plus 1e-16/h
	at := func(x float64) float64 {
		old := params[i]
		defer func() { params[i] = old }()
		params[i] = x
		return r.meanLoss(sentences)
	}
	return (at(params[i]+h) - at(params[i]-h)) / (2 * h)
}

func mustNew(tb testing.TB, vocabulary, embedding, units int) *Language {
	tb.Helper()
	return mustConfigure(tb, Config{Kind: CIFGLSTM, Vocabulary: vocabulary, Embedding: embedding, Units: units})
}

func mustConfigure(tb testing.TB, c Config) *Language {
	tb.Helper()
	return must.Get(New(c))(tb)
}

func testRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// wideParams draws parameters large enough that every gate leaves its linear part.
func wideParams(m *Language, rng *rand.Rand) []float32 {
	params := make([]float32, m.Parameters())
	for i := range params {
		params[i] = float32(rng.NormFloat64() * 0.5)
	}
	return params
}

// sentencesOf draws sentences of the given lengths, counted in tokens.
func sentencesOf(rng *rand.Rand, vocabulary int, lengths ...int) [][]int32 {
	sentences := make([][]int32, len(lengths))
	for i, n := range lengths {
		sentences[i] = make([]int32, n)
		for j := range sentences[i] {
			sentences[i][j] = int32(rng.IntN(vocabulary))
		}
	}
	return sentences
}

// mixedSentences draws n sentences of 2 to longest tokens.
func mixedSentences(rng *rand.Rand, vocabulary, n, longest int) [][]int32 {
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = 2 + rng.IntN(longest-1)
	}
	return sentencesOf(rng, vocabulary, lengths...)
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// near reports whether got is within tolerance of want, relative to scale.
func near(got, want, scale, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Max(scale, 1e-3)
}

func largest(x []float32) float64 {
	var m float64
	for _, v := range x {
		m = max(m, math.Abs(float64(v)))
	}
	return m
}
