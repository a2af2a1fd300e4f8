package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func mustReader(tb testing.TB, c Config) *Reader {
	tb.Helper()
	return must.Get(NewReader(c))(tb)
}

// readers are small networks of every kind.
func readers(tb testing.TB) []*Reader {
	return []*Reader{
		mustReader(tb, Config{Kind: Regressor, Vocabulary: 21, Embedding: 3, Units: 5, Labels: Scores}),
		mustReader(tb, Config{Kind: Regressor, Vocabulary: 17, Embedding: 4, Units: 3, Layers: 2, Labels: Scores}),
		mustReader(tb, Config{Kind: Tagger, Vocabulary: 13, Embedding: 3, Units: 4, Labels: 5}),
		mustReader(tb, Config{Kind: Tagger, Vocabulary: 9, Embedding: 2, Units: 6, Layers: 2, Labels: 1}),
	}
}

func readerParams(r *Reader, rng *rand.Rand) []float32 {
	params := make([]float32, r.Parameters())
	for i := range params {
		params[i] = float32(rng.NormFloat64() * 0.5)
	}
	return params
}

// labelledTexts draws examples with the given numbers of words.
func labelledTexts(r *Reader, rng *rand.Rand, lengths ...int) [][]int32 {
	labels, examples := r.config.Labels, make([][]int32, len(lengths))
	for i, n := range lengths {
		e := []int32{2}
		if r.config.Kind == Regressor {
			e = append(e, FirstLabel+int32(rng.IntN(labels)))
		}
		for label := range labels {
			if r.config.Kind == Tagger && rng.IntN(2) == 0 {
				e = append(e, FirstLabel+int32(label))
			}
		}
		for range n {
			if word := FirstLabel + labels + rng.IntN(r.config.Vocabulary-FirstLabel-labels); rng.IntN(5) > 0 {
				e = append(e, int32(word))
			} else {
				e = append(e, 1) // unknown
			}
		}
		examples[i] = append(e, 3)
	}
	return examples
}

// outputsOf computes the outputs for an example from the equations, in float64: the
// score, or the probability of each label.
func outputsOf(r *Reader, params []float64, words []int32) []float64 {
	ref := newReferenceOf(r.Tensors(), r.config.stack(), params, "")
	state := ref.start()
	var last []float64
	for _, word := range words[:len(words)-1] {
		last = ref.step(word, state)
	}
	out := slices.Clone(ref.outBias)
	for i := range out {
		for j, h := range last {
			out[i] += h * ref.output[i][j]
		}
		if r.config.Kind == Tagger {
			out[i] = sigmoid(out[i])
		}
	}
	return out
}

// lossOf is the mean loss of examples by the equations, in float64.
func lossOf(tb testing.TB, r *Reader, params []float64, examples [][]int32) (mean float64) {
	tb.Helper()
	for _, e := range examples {
		labels, words, err := r.divide(e)
		if err != nil {
			tb.Fatal(err)
		}
		out := outputsOf(r, params, words)
		for i, p := range out {
			switch {
			case r.config.Kind == Regressor:
				mean += math.Abs(p - (1 + float64(labels[0]-FirstLabel)/2))
			case slices.Contains(labels, FirstLabel+int32(i)):
				mean -= math.Log(p) / float64(len(out))
			default:
				mean -= math.Log(1-p) / float64(len(out))
			}
		}
	}
	return mean / float64(len(examples))
}

func TestReaderGradientsMatchFiniteDifferences(t *testing.T) {
	t.Parallel()
	for seed, r := range readers(t) {
		t.Run(fmt.Sprint(r.config.Kind, seed), func(t *testing.T) {
			t.Parallel()
			rng := testRand(uint64(seed))
			params, examples := readerParams(r, rng), labelledTexts(r, rng, 1, 4, 2, 4, 6)
			gradient := make([]float32, len(params))
			for i := range gradient {
				gradient[i] = float32(math.NaN()) // so that an element left out shows
			}
			loss := must.Get(r.NewLearner(nil).Gradient(params, examples, gradient))(t)
			wide := widen(params)
			if want := lossOf(t, r, wide, examples); math.Abs(loss.Mean()-want) > 1e-5 || loss.Tokens != len(examples) {
				t.Errorf("loss %v of %d texts, want %v of %d", loss.Mean(), loss.Tokens, want, len(examples))
			}
			checkElements(t, r, wide, gradient, examples)
		})
	}
}

func checkElements(t *testing.T, r *Reader, params []float64, gradient []float32, examples [][]int32) {
	t.Helper()
	const h = 1e-5
	for _, tensor := range r.Tensors() {
		scale := largest(tensor.View(gradient))
		for i := tensor.Offset; i < tensor.Offset+tensor.Size(); i++ {
			at := func(x float64) float64 {
				old := params[i]
				defer func() { params[i] = old }()
				params[i] = x
				return lossOf(t, r, params, examples)
			}
			want := (at(params[i]+h) - at(params[i]-h)) / (2 * h)
			if !near(float64(gradient[i]), want, scale, 2e-5) {
				t.Errorf("%v element %d: gradient %v, central difference %v", tensor, i-tensor.Offset, gradient[i], want)
			}
		}
	}
}

func TestLabellerMatchesEquationsInAnyBatch(t *testing.T) {
	t.Parallel()
	for seed, r := range readers(t) {
		rng := testRand(uint64(10 + seed))
		params := readerParams(r, rng)
		lengths := make([]int, labelledAtOnce+7)
		for i := range lengths {
			lengths[i] = 1 + rng.IntN(6)
		}
		examples := labelledTexts(r, rng, lengths...)
		together := must.Get(r.NewLabeller(params).Label(examples))(t)
		labeller := r.NewLabeller(params)
		for i, e := range examples {
			alone := must.Get(labeller.Label(examples[i : i+1]))(t)
			if !slices.Equal(alone[0].Predicted, together[i].Predicted) || !slices.Equal(alone[0].Truth, together[i].Truth) {
				t.Fatalf("%s: text %d alone %v, with others %v", r.config.Kind, i, alone[0], together[i])
			}
			_, words, _ := r.divide(e)
			for j, want := range outputsOf(r, widen(params), words) {
				if got := float64(alone[0].Predicted[j]); math.Abs(got-want) > 1e-5 {
					t.Errorf("%s: text %d, output %d: %v, want %v", r.config.Kind, i, j, got, want)
				}
			}
		}
	}
}

func TestRegressorLearnsScores(t *testing.T) {
	t.Parallel()
	score := mustReader(t, Config{Kind: Regressor, Vocabulary: 30, Embedding: 6, Units: 8, Labels: Scores})
	rng := testRand(5)
	var examples [][]int32
	for i := range 32 {
		level := int32(i % 5 * 2) // 1, 2, ... 5 stars, each with a word of its own
		examples = append(examples, []int32{2, FirstLabel + level, 13 + int32(rng.IntN(3)), 18 + level/2, 13, 3})
	}
	params, learner := score.Init(rng), score.NewLearner(nil)
	gradient := make([]float32, len(params))
	var first, last Loss
	for step := range 400 {
		loss := must.Get(learner.Gradient(params, examples, gradient))(t)
		for i, g := range gradient {
			params[i] -= 0.1 * g
		}
		if last = loss; step == 0 {
			first = loss
		}
	}
	if first.Mean() < 1 || last.Mean() > 0.3 {
		t.Errorf("mean absolute error from %.2f to %.2f, want from above 1, the spread of the scores, to below 0.3", first.Mean(), last.Mean())
	}
}

func TestASubgradientAtTheTruthIsZero(t *testing.T) {
	t.Parallel()
	r := readers(t)[0]
	params := r.Init(testRand(3))
	for i := range params[:r.layout.outputBias.From] {
		params[i] = 0
	}
	gradient := make([]float32, len(params))
	loss, err := r.NewLearner(nil).Gradient(params, [][]int32{{2, FirstLabel + 4, 14, 3}}, gradient)
	if err != nil || loss.Sum != 0 || largest(gradient) != 0 {
		t.Errorf("three stars predicted of three: loss %v, largest derivative %v, error %v", loss.Sum, largest(gradient), err)
	}
}

func TestReadersRejectBadExamples(t *testing.T) {
	t.Parallel()
	score, tags := readers(t)[0], readers(t)[2]
	for _, c := range []struct {
		network *Reader
		example []int32
		want    string
	}{
		{score, []int32{2, 14, 15, 3}, "it has 0 scores: want one"},
		{score, []int32{2, 4, 5, 15, 3}, "it has 2 scores: want one"},
		{score, []int32{2, 4, 3}, "it has 1 tokens after its labels"},
		{score, []int32{}, "it has 0 tokens after its labels"},
		{score, []int32{2, 4, 21, 3}, "token 2 has id 21: want 0 to 20"},
		{tags, []int32{2, 4, 5}, "it has 0 tokens after its labels"},
	} {
		gradient := make([]float32, c.network.Parameters())
		_, err := c.network.NewLearner(nil).Gradient(make([]float32, len(gradient)), [][]int32{c.example}, gradient)
		must.Say(t, err, c.want)
		if _, err := c.network.NewLabeller(make([]float32, len(gradient))).Label([][]int32{c.example}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("labels by %s of %v: error %v, want %s", c.network.config.Kind, c.example, err, c.want)
		}
	}
}

func TestConfigurationsOfReadersAreChecked(t *testing.T) {
	t.Parallel()
	good := Config{Kind: Regressor, Vocabulary: 21, Embedding: 3, Units: 5, Labels: Scores}
	for want, change := range map[string]func(*Config){
		"8 labels: want the 9 scores":     func(c *Config) { c.Labels = 8 },
		"0 labels in a vocabulary of 21":  func(c *Config) { c.Kind, c.Labels = Tagger, 0 },
		"9 labels in a vocabulary of 13":  func(c *Config) { c.Vocabulary = 13 },
		"units 0: want 1":                 func(c *Config) { c.Units = 0 },
		"kind regressor has no kernel":    func(c *Config) { c.Projection = 4 },
		"kind lstm predicts none":         func(c *Config) { c.Kind = LSTM },
		"129 labels in a vocabulary of 2": func(c *Config) { c.Kind, c.Labels, c.Vocabulary = Tagger, MaxLabels+1, 200 },
	} {
		c := good
		change(&c)
		must.Say(t, c.Validate(), want)
	}
	if _, err := New(good); err == nil {
		t.Error("a regressor is taken for a language model")
	}
}
