package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/internal/testserver"
)

// transformers are small models of the kind.
func transformers(vocabulary int) []Config {
	return []Config{
		{Kind: Transformer, Vocabulary: vocabulary, Embedding: 6, Units: 9, Heads: 2, Context: 16},
		{Kind: Transformer, Vocabulary: vocabulary, Embedding: 5, Units: 3, Heads: 1, Layers: 3, Untied: true},
		{Kind: Transformer, Vocabulary: vocabulary, Embedding: 12, Units: 50, Heads: 12, Layers: 2},
		{Kind: Transformer, Vocabulary: vocabulary, Embedding: 6, Units: 9, Heads: 3, Layers: 2, Adapters: Adapters{Rank: 2, Alpha: 3}},
		{
			Kind: Transformer, Vocabulary: vocabulary, Embedding: 12, Units: 10, Heads: 2, Layers: 2, Context: 20,
			Blocks: Blocks{Rotary: 2, Parallel: true, Activation: ExactGELU, Epsilon: 1e-3},
		},
		{
			Kind: Transformer, Vocabulary: vocabulary, Embedding: 24, Units: 7, Heads: 6, Layers: 2, Untied: true,
			Blocks:   Blocks{Rotary: 4, Theta: 500, KeyHeads: 2, RMS: true, Gated: true, Unbiased: true, Activation: SiLU},
			Adapters: Adapters{Rank: 1, Matrices: "attention.query,attention.key,attention.output,feed.input,feed.output"},
		},
	}
}

func eachTransformer(t *testing.T, vocabulary int, test func(t *testing.T, m *Language)) {
	t.Helper()
	for _, c := range transformers(vocabulary) {
		t.Run(fmt.Sprintf("%s layers=%d heads=%d untied=%v", c.Kind, c.layers(), c.Heads, c.Untied), func(t *testing.T) {
			t.Parallel()
			test(t, mustConfigure(t, c))
		})
	}
}

// pytorch holds results of docs/checks/check_transformer.py.
type pytorch struct {
	Model    Config      `json:"model"`
	Tokens   []int32     `json:"tokens"`
	LogProbs [][]float64 `json:"log_probs"`
}

const storedTransformers = "testdata/transformer.json"

func readPyTorch(t *testing.T, data []byte) (cases []pytorch) {
	t.Helper()
	check(t, json.Unmarshal(data, &cases))
	return cases
}

func TestATransformersLogProbabilitiesEqualPyTorchs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(storedTransformers)
	check(t, err)
	variants, err := os.ReadFile("testdata/blocks.json") // by the library of tasks/pretrained/pretrainedtest/testdata/README.md, in float64
	check(t, err)
	for _, c := range slices.Concat(readPyTorch(t, data), readPyTorch(t, variants)) {
		m := mustConfigure(t, c.Model)
		params := make([]float32, m.Parameters())
		for k := range params {
			params[k] = float32(float64(uint32(k)*2654435761)/(1<<32) - 0.5)
		}
		s := mustScorer(t, m, params)
		states, got := s.Start(1), make([]float32, m.config.Vocabulary)
		for i, token := range c.Tokens {
			check(t, s.Step(states, []int32{token}))
			check(t, s.LogProbRows(states, got))
			for v, want := range c.LogProbs[i] {
				if !near(float64(got[v]), want, math.Abs(want), 1e-5) {
					t.Fatalf("%+v: log p of %d after %v is %v, in PyTorch %v", c.Model, v, c.Tokens[:i+1], got[v], want)
				}
			}
		}
	}
}

func TestStoredPyTorchResultsAreCurrentElsewhere(t *testing.T) {
	t.Parallel()
	python := testserver.Python(t, "torch")
	stored, err := os.ReadFile(storedTransformers)
	check(t, err)
	output, err := exec.CommandContext(t.Context(), python, "../docs/checks/check_transformer.py").Output()
	check(t, err)
	if bytes.Equal(output, stored) {
		return
	}
	want, got := readPyTorch(t, stored), readPyTorch(t, output)
	for i := range want {
		for at := range want[i].LogProbs {
			for v, p := range want[i].LogProbs[at] {
				if !near(got[i].LogProbs[at][v], p, 1, 1e-6) {
					t.Fatalf("case %d, token %d: log p of %d is %v, stored %v", i, at, v, got[i].LogProbs[at][v], p)
				}
			}
		}
	}
}

// wholly computes log p of every token but the first from all tokens before it at once, in
// float64 and without keys and values of earlier tokens.
func wholly(m *Language, params []float32, sentence []int32) []float64 {
	params = mergedParams(m, params)
	m = &Language{layout: newLayout(m.config.Frozen())}
	tensors := map[string][]float64{}
	for _, t := range m.Tensors() {
		tensors[t.Name] = widen(t.View(params))
	}
	out := make([]float64, len(sentence)-1)
	for end := range out {
		x := wholeStream(m, tensors, sentence[:end+1])
		h := wholeNorm(x[end], tensors["final.scale"], tensors["final.shift"])
		weights := tensors["embedding"]
		if m.config.Untied {
			weights = tensors["output.weights"]
		}
		logits, sum := slices.Clone(tensors["output.bias"]), 0.0
		for v := range logits {
			logits[v] += dotOf(h, weights[v*len(h):])
			sum += math.Exp(logits[v])
		}
		out[end] = logits[sentence[end+1]] - math.Log(sum)
	}
	return out
}

func dotOf(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// wholeStream returns the residual stream after all blocks, for every token.
func wholeStream(m *Language, w map[string][]float64, tokens []int32) [][]float64 {
	width := m.config.Embedding
	x := make([][]float64, len(tokens))
	for t, token := range tokens {
		x[t] = slices.Clone(w["embedding"][int(token)*width:][:width])
		for i := range x[t] {
			x[t][i] += w["position"][t*width+i]
		}
	}
	for b := range m.config.layers() {
		of := func(name string) []float64 { return w[layerTensor(name, b)] }
		var qkv [][]float64
		for _, row := range x {
			qkv = append(qkv, wholeProduct(wholeNorm(row, of("attention.scale"), of("attention.shift")), of("attention.input"), of("attention.input_bias")))
		}
		for t := range x {
			mixed := wholeMix(qkv[:t+1], m.config.Heads, width)
			addTo(x[t], wholeProduct(mixed, of("attention.output"), of("attention.output_bias")))
		}
		for _, row := range x {
			hidden := wholeProduct(wholeNorm(row, of("feed.scale"), of("feed.shift")), of("feed.input"), of("feed.input_bias"))
			for i, v := range hidden {
				hidden[i] = 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
			}
			addTo(row, wholeProduct(hidden, of("feed.output"), of("feed.output_bias")))
		}
	}
	return x
}

func addTo(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}

func wholeMix(qkv [][]float64, heads, width int) []float64 {
	newest, mixed, size := qkv[len(qkv)-1], make([]float64, width), width/heads
	for h := range heads {
		from, sum := h*size, 0.0
		weights := make([]float64, len(qkv))
		for t, row := range qkv {
			weights[t] = math.Exp(dotOf(newest[from:from+size], row[width+from:]) / math.Sqrt(float64(size)))
			sum += weights[t]
		}
		for t, row := range qkv {
			for i := range size {
				mixed[from+i] += weights[t] / sum * row[2*width+from+i]
			}
		}
	}
	return mixed
}

func wholeProduct(x, matrix, bias []float64) []float64 {
	out := slices.Clone(bias)
	for i, v := range x {
		for j := range out {
			out[j] += v * matrix[i*len(out)+j]
		}
	}
	return out
}

func wholeNorm(x, scale, shift []float64) []float64 {
	var mean, variance float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = (v-mean)/math.Sqrt(variance+1e-5)*scale[i] + shift[i]
	}
	return out
}

func TestTransformerStateMatchesRecomputation(t *testing.T) {
	t.Parallel()
	eachTransformer(t, tileWidth+23, func(t *testing.T, m *Language) {
		if m.config.Blocks != (Blocks{}) {
			t.Skip("the computation anew is that of GPT-2; package pretrained compares the others with their library")
		}
		rng := testRand(71)
		params := wideParams(m, rng)
		s, sentences := mustScorer(t, m, params), sentencesOf(rng, m.config.Vocabulary, 16, 2, 9)
		losses, err := s.Losses(sentences)
		check(t, err)
		for i, sentence := range sentences {
			var sum, fed float64
			got := feed(t, s, sentence)
			for at, want := range wholly(m, params, sentence) {
				if !near(float64(got[at]), want, math.Abs(want), 1e-4) {
					t.Errorf("sentence %d, token %d: log p %v, anew %v", i, at, got[at], want)
				}
				sum, fed = sum-want, fed-float64(got[at])
			}
			if losses[i].Sum != fed || !near(fed, sum, sum, 1e-4) {
				t.Errorf("sentence %d: loss %v, token by token %v, anew %v", i, losses[i].Sum, fed, sum)
			}
		}
	})
}

func TestATransformersStatesDoNotDependOnTheirBatch(t *testing.T) {
	t.Parallel()
	eachTransformer(t, 50, func(t *testing.T, m *Language) {
		rng := testRand(72)
		s := mustScorer(t, m, wideParams(m, rng))
		const n = scoringBlock + 9
		sequences := sentencesOf(rng, 50, slices.Repeat([]int{6}, n)...)
		var group sync.WaitGroup
		for _, size := range []int{1, 7, n} {
			order := rng.Perm(n)[:size]
			group.Go(func() {
				for at, got := range feedTogether(t, s, sequences, order) {
					if want := feed(t, s, sequences[order[at]]); !slices.Equal(got, want) {
						t.Errorf("batch of %d: log probabilities %v, alone %v", size, got, want)
					}
				}
			})
		}
		group.Wait()
	})
}

// The tree shares the states of common first tokens; single sequences share nothing.
func TestATreeOfATransformerEqualsSinglePairs(t *testing.T) {
	t.Parallel()
	eachTransformer(t, wideVocabulary, func(t *testing.T, m *Language) {
		rng := testRand(73)
		s := mustScorer(t, m, wideParams(m, rng))
		tree := s.Tabulate().NewTreeScorer()
		states, next := s.Start(1), new(States)
		check(t, s.Step(states, []int32{2}))
		sequences := [][]int32{{2}}
		for range 4 {
			edges := someEdges(s, rng, states.Len(), 40)
			logProbs, later := make([]float32, len(edges)), make([][]int32, len(edges))
			check(t, tree.LogProbs(states, edges, logProbs))
			for i, e := range edges {
				later[i] = append(slices.Clone(sequences[e.Parent]), e.Token)
				alone := feed(t, s, later[i])
				if logProbs[i] != alone[len(alone)-1] {
					t.Fatalf("%v: log p of the last token is %v in the tree, %v alone", later[i], logProbs[i], alone[len(alone)-1])
				}
			}
			check(t, tree.Advance(next, states, edges))
			states, next, sequences = next, states, later
		}
	})
}

func TestCopiedTransformerStatesAreIndependent(t *testing.T) {
	t.Parallel()
	eachTransformer(t, 40, func(t *testing.T, m *Language) {
		rng := testRand(74)
		s := mustScorer(t, m, wideParams(m, rng))
		states, copied := wanderingStates(t, s, rng, 3), s.Start(1)
		check(t, copied.Set(0, states, 1))
		want, got := make([]float32, 3*40), make([]float32, 40)
		check(t, s.Step(states, []int32{5, 6, 7}))
		check(t, s.LogProbRows(states, want))
		check(t, s.Step(copied, []int32{6}))
		check(t, s.LogProbRows(copied, got))
		if !slices.Equal(got, want[40:80]) {
			t.Errorf("a copied state continues otherwise than its origin")
		}
		samples, err := s.Sample(Draw{Sampling: Sampling{Temperature: 1}, Prefix: []int32{2}, End: 3, AtMost: 8}, []*rand.Rand{testRand(75)})
		check(t, err)
		sum := 0.0
		for _, lp := range feed(t, s, append([]int32{2}, samples[0].Tokens...)) {
			sum += float64(lp)
		}
		if sum != samples[0].LogProbability {
			t.Errorf("a sample has log probability %v, fed again %v", samples[0].LogProbability, sum)
		}
	})
}

func TestTransformerRejectsTextBeyondContext(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, Config{Kind: Transformer, Vocabulary: 9, Embedding: 4, Units: 5, Heads: 2, Context: 3})
	s := mustScorer(t, m, m.Init(testRand(76)))
	state := s.Start(1)
	check(t, s.Feed(state, []int32{2, 4, 5}))
	_, long := s.Losses([][]int32{{2, 4, 5, 6, 7}})
	_, after := s.LossesAfter(state, [][]int32{{4, 5}})
	_, whole := s.Losses([][]int32{{2, 4, 5, 6}})
	check(t, whole)
	for _, c := range []struct {
		err  error
		want string
	}{
		{s.Step(state, []int32{6}), "state 0 has read 3 tokens, as many as the context of the model has: want a model with a longer context"},
		{long, "sentence 0 has 5 tokens: want at most 4, one more than the context of the model"},
		{after, "sentence 0 has 2 tokens after a text of 3: want at most one more than the context of 3 together"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("error %v, want %s", c.err, c.want)
		}
	}
}

func TestATransformersConfigurationIsCheckedWhole(t *testing.T) {
	t.Parallel()
	good := Config{Kind: Transformer, Vocabulary: 9, Embedding: 8, Units: 5, Heads: 2}
	for want, change := range map[string]func(*Config){
		"heads 3: want a divisor of the embedding's width 8": func(c *Config) { c.Heads = 3 },
		"heads 0: want 1 to":                   func(c *Config) { c.Heads = 0 },
		"layers 65: want 1 to 64":              func(c *Config) { c.Layers = 65 },
		"context -1: want 1 to":                func(c *Config) { c.Context = -1 },
		"context, untied, blocks and adapters": func(c *Config) { c.Projection = 8 },
		"a separator":                          func(c *Config) { c.Kind, c.Heads, c.Separator = Conv, 0, 3 },
		"has neither":                          func(c *Config) { c.Kind = LSTM },
		"adapters {Rank:2 Alpha:0 Matrices:}: a model of kind gru has none":     func(c *Config) { c.Kind, c.Heads, c.Adapters.Rank = GRU, 0, 2 },
		"adapters: rank 0: want 1 to 8":                                         func(c *Config) { c.Adapters.Alpha = 1 },
		"adapters: rank 6: want 1 to 5, the largest rank of feed.output [5, 8]": func(c *Config) { c.Adapters = Adapters{Rank: 6, Matrices: "feed.output"} },
		`adapters: matrix "query": want some of attention.query, `:              func(c *Config) { c.Adapters = Adapters{Rank: 1, Matrices: "query"} },
		`adapters: matrix "feed.output": want some of`:                          func(c *Config) { c.Adapters = Adapters{Rank: 1, Matrices: "feed.output,feed.output"} },
		"adapters: alpha -1: want a positive number":                            func(c *Config) { c.Adapters = Adapters{Rank: 1, Alpha: -1} },
	} {
		c := good
		change(&c)
		_, err := New(c)
		must.Say(t, err, want)
	}
	m := mustConfigure(t, good)
	if _, err := m.NewLearner(nil).Gradient(nil, nil, nil); err == nil || !strings.Contains(err.Error(), "engine: pytorch") {
		t.Errorf("a gradient of a transformer: error %v", err)
	}
	params := m.Init(testRand(77))
	if norm := kernels.SquaredNorm(params); !numbers.IsFinite(norm) || norm == 0 {
		t.Errorf("initial parameters have the squared norm %v", norm)
	}
}

func TestATransformerReadByTensorsScoresTheSame(t *testing.T) {
	t.Parallel()
	eachTransformer(t, 40, func(t *testing.T, m *Language) {
		params := wideParams(m, testRand(79))
		want := mustScorer(t, m, params)
		reads := map[string]int{}
		got, err := m.ReadScorer(func(t Tensor, values []float32) error {
			reads[t.Name] += copy(values, t.View(params))
			return nil
		})
		check(t, err)
		for _, tensor := range m.Tensors() {
			if reads[tensor.Name] != tensor.Size() {
				t.Errorf("%d elements of %s were read", reads[tensor.Name], tensor)
			}
		}
		sentence := []int32{2, 7, 31, 5, 9}
		if a, b := feed(t, got, sentence), feed(t, want, sentence); !slices.Equal(a, b) {
			t.Errorf("log probabilities %v, of the whole vector %v", a, b)
		}
		if got.Bytes() > want.Bytes() {
			t.Errorf("a scorer of %d bytes, of the whole vector %d", got.Bytes(), want.Bytes())
		}
	})
}

// Absent tokens widen no bound, and the others have the probabilities of a smaller vocabulary.
func TestAbsentTokensAreNeverPredicted(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, transformers(wideVocabulary)[0])
	params := wideParams(m, testRand(80))
	plain := mustScorer(t, m, slices.Clone(params)).Tabulate().margin(1)
	for _, tensor := range m.Tensors() {
		if tensor.Name == OutputBiasTensor {
			Fill(tensor.View(params)[:4], Absent)
		}
	}
	s := mustScorer(t, m, params)
	state, row := s.Start(1), make([]float32, wideVocabulary)
	check(t, s.Feed(state, []int32{2, 9}))
	check(t, s.LogProbRows(state, row))
	sum := 0.0
	for token, logProb := range row {
		p := math.Exp(float64(logProb))
		if sum += p; (p == 0) != (token < 4) {
			t.Errorf("token %d has probability %v", token, p)
		}
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("probabilities add up to %v", sum)
	}
	if margin := s.Tabulate().margin(1); margin > plain {
		t.Errorf("bounds have a margin of %v, of %v with all tokens", margin, plain)
	}
}

func TestATransformersInitialValuesHaveTheirBounds(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, Config{Kind: Transformer, Vocabulary: 99, Embedding: 16, Units: 40, Heads: 2, Layers: 2, Untied: true})
	params := m.Init(testRand(78))
	for _, tensor := range m.Tensors() {
		room, name, _ := strings.Cut(tensor.Name, ".")
		bound := map[string]float64{"scale": 1, "weights": math.Sqrt(3. / 16), "input": 0.25, "output": 1 / math.Sqrt(4*float64(tensor.Shape[0]))}[name]
		if room == "embedding" || room == "position" {
			bound = math.Sqrt(3. / 16)
		}
		// At least 640 draws in each matrix: none in the outer tenth has probability 0.9^640 < 1e-29.
		if got := largest(tensor.View(params)); got > bound*(1+1e-6) || got < 0.9*bound {
			t.Errorf("%s: largest value %v, want just under %v", tensor, got, bound)
		}
	}
}
