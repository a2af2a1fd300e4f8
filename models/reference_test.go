package models

import (
	"math"
	"math/rand/v2"
	"testing"
)

// reference is the model once more, in float64, sentence by sentence and
// element by element, written to be read beside the equations.
type reference struct {
	config    Config
	embedding [][]float64
	input     [][]float64
	recurrent [][]float64
	bias      []float64
	project   [][]float64
	outBias   []float64
}

func newReference(m *Language, params []float64) *reference {
	tensor := map[string][]float64{}
	shape := map[string][]int{}
	for _, t := range m.Tensors() {
		tensor[t.Name] = params[t.Offset : t.Offset+t.Size()]
		shape[t.Name] = t.Shape
	}
	matrix := func(name string) [][]float64 {
		rows := make([][]float64, shape[name][0])
		for i := range rows {
			rows[i] = tensor[name][i*shape[name][1] : (i+1)*shape[name][1]]
		}
		return rows
	}
	return &reference{
		config: m.config, embedding: matrix(EmbeddingTensor), input: matrix(InputTensor), recurrent: matrix(RecurrentTensor),
		bias: tensor[BiasTensor], project: matrix(ProjectionTensor), outBias: tensor[OutputBiasTensor],
	}
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

// step feeds a token, changes the memory, and returns the output.
func (r *reference) step(token int32, memory, output []float64) []float64 {
	fromInput, fromOutput := times(r.embedding[token], r.input), times(output, r.recurrent)
	units := r.config.Units
	pre := func(j int) float64 { return fromInput[j] + fromOutput[j] + r.bias[j] }
	emitted := make([]float64, units)
	for j := range units {
		i, z, o := sigmoid(pre(j)), math.Tanh(pre(units+j)), sigmoid(pre(2*units+j))
		memory[j] = (1-i)*memory[j] + i*z
		emitted[j] = o * math.Tanh(memory[j])
	}
	return times(emitted, r.project)
}

// logProbs of every token, given the output.
func (r *reference) logProbs(output []float64) []float64 {
	logits := make([]float64, r.config.Vocabulary)
	peak := math.Inf(-1)
	for v := range logits {
		logits[v] = r.outBias[v]
		for j, h := range output {
			logits[v] += h * r.embedding[v][j]
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
	for _, s := range sentences {
		memory, output := make([]float64, r.config.Units), make([]float64, r.config.Embedding)
		for t, token := range s[:len(s)-1] {
			output = r.step(token, memory, output)
			sum -= r.logProbs(output)[s[t+1]]
			targets++
		}
	}
	return sum / float64(targets)
}

// derivative is the central difference of the mean loss in one parameter.
func derivative(m *Language, params []float64, i int, sentences [][]int32) float64 {
	const h = 1e-5 // error about h^2 plus 1e-16/h
	at := func(x float64) float64 {
		old := params[i]
		defer func() { params[i] = old }()
		params[i] = x
		return newReference(m, params).meanLoss(sentences)
	}
	return (at(params[i]+h) - at(params[i]-h)) / (2 * h)
}

func mustNew(tb testing.TB, vocabulary, embedding, units int) *Language {
	tb.Helper()
	m, err := New(Config{Kind: CIFGLSTM, Vocabulary: vocabulary, Embedding: embedding, Units: units})
	if err != nil {
		tb.Fatal(err)
	}
	return m
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
