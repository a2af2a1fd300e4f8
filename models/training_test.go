package models_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
)

// Train a model on three sentences until it knows them, then score one.
func Example() {
	const begin, end = 2, 3 // ids 0 to 3 are special, 4 to 9 are words
	sentences := [][]int32{{begin, 4, 5, 6, end}, {begin, 7, 5, 8, end}, {begin, 9, 9, end}}

	model, err := models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: 10, Embedding: 8, Units: 16})
	if err != nil {
		panic(err)
	}
	params := model.Init(seeds.Stream(1, seeds.Weights))
	gradient := make([]float32, model.Parameters())
	optimizer, err := optimizers.New(optimizers.Config{Kind: optimizers.SGD}, model.Parameters())
	if err != nil {
		panic(err)
	}
	trainer := model.NewTrainer()
	for range 500 {
		if _, err := trainer.Gradient(params, sentences, gradient); err != nil {
			panic(err)
		}
		optimizer.Step(params, gradient, 0.5)
	}

	scorer, err := model.NewScorer(params)
	if err != nil {
		panic(err)
	}
	states := scorer.Start(1)
	logProb := make([]float32, 1)
	for i, token := range sentences[1][:4] {
		if err := scorer.Step(states, []int32{token}); err != nil {
			panic(err)
		}
		if err := scorer.LogProbs(states, sentences[1][i+1:i+2], logProb); err != nil {
			panic(err)
		}
		fmt.Printf("after %d: p(%d) = %.1f\n", token, sentences[1][i+1], math.Exp(float64(logProb[0])))
	}
	// Output:
	// after 2: p(7) = 0.3
	// after 7: p(5) = 1.0
	// after 5: p(8) = 1.0
	// after 8: p(3) = 1.0
}

func tinyModel(t testing.TB, vocabulary int) *models.Language {
	t.Helper()
	return must.Get(models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: vocabulary, Embedding: 13, Units: 21}))(t)
}

// patterned draws sentences in which each token all but fixes the next.
func patterned(rng *rand.Rand, vocabulary, n int) [][]int32 {
	sentences := make([][]int32, n)
	for i := range sentences {
		sentences[i] = []int32{2}
		token := 4 + rng.IntN(vocabulary-4)
		for range 3 + rng.IntN(12) {
			sentences[i] = append(sentences[i], int32(token))
			token = 4 + (token*7+rng.IntN(2))%(vocabulary-4)
		}
	}
	return sentences
}

// train takes steps on batches of 8 sentences and returns the parameters and
// the mean loss of each step.
func train(t testing.TB, m *models.Language, config optimizers.Config, rate float64, steps int) ([]float32, []float64) {
	t.Helper()
	optimizer := must.Get(optimizers.New(config, m.Parameters()))(t)
	params, gradient, trainer := m.Init(seeds.Stream(3, seeds.Weights)), make([]float32, m.Parameters()), m.NewTrainer()
	data := patterned(seeds.Stream(4, seeds.Shuffle), m.Config().Vocabulary, 240)
	losses := make([]float64, steps)
	for step := range losses {
		from := step * 8 % len(data)
		loss := must.Get(trainer.Gradient(params, data[from:from+8], gradient))(t)
		losses[step] = loss.Mean()
		optimizer.Step(params, gradient, rate)
	}
	return params, losses
}

func TestEveryOptimizerTrainsTheModel(t *testing.T) {
	t.Parallel()
	rates := map[optimizers.Kind]float64{
		optimizers.SGD: 2, optimizers.Momentum: 0.3, optimizers.Nesterov: 0.3, optimizers.Adam: 0.01,
		optimizers.RMSProp: 0.005, optimizers.Adagrad: 0.1, optimizers.Yogi: 0.01, optimizers.FedAdam: 0.01,
		optimizers.Adadelta: 10,
	}
	for _, kind := range optimizers.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if rates[kind] == 0 {
				t.Fatalf("there is no learning rate for %s: add one", kind)
			}
			config := must.Get(optimizers.Defaults(kind))(t)
			_, losses := train(t, tinyModel(t, 60), config, rates[kind], 240)
			first, last := losses[0], mean(losses[len(losses)-30:])
			if first < 4 || first > 4.2 { // ln 60 = 4.09: an untrained model knows nothing
				t.Errorf("first loss %.3f, want about ln 60", first)
			}
			if last > first-1 {
				t.Errorf("mean loss %.3f at first, %.3f over the last 30 of 240 steps", first, last)
			}
			t.Logf("%s: %.3f -> %.3f", kind, first, last)
		})
	}
}

func TestEveryKindTrains(t *testing.T) {
	t.Parallel()
	for _, kind := range models.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			m := must.Get(models.New(models.Config{
				Kind: kind, Vocabulary: 60, Embedding: 11, Units: 17, Layers: 2, Projection: models.Unprojected, Untied: true,
			}))(t)
			_, losses := train(t, m, optimizers.Config{Kind: optimizers.Adam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}, 0.01, 240)
			if last := mean(losses[len(losses)-30:]); last > losses[0]-1 {
				t.Errorf("mean loss %.3f at first, %.3f over the last 30 of 240 steps", losses[0], last)
			}
		})
	}
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Not parallel: it changes the kernels of the whole process.
func TestEveryKernelSetTrainsAndScoresToTheSameBytes(t *testing.T) {
	m := tinyModel(t, 260) // two tiles
	data := patterned(seeds.Stream(5, seeds.Shuffle), m.Config().Vocabulary, 10)
	type outcome struct {
		params     []float32
		losses     []float64
		evaluation models.Evaluation
	}
	var want outcome
	for i, set := range kernels.Sets() {
		restore, err := kernels.ForceSet(set)
		if err != nil {
			t.Fatal(err)
		}
		var got outcome
		got.params, got.losses = train(t, m, optimizers.Config{Kind: optimizers.SGD}, 2, 3)
		scorer, err := m.NewScorer(got.params)
		if err != nil {
			t.Fatal(err)
		}
		got.evaluation, err = scorer.Evaluate(data, nil)
		restore()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			want = got
			continue
		}
		if !slices.Equal(got.params, want.params) || !slices.Equal(got.losses, want.losses) || got.evaluation != want.evaluation {
			t.Errorf("kernel sets %s and %s differ", set, kernels.Sets()[0])
		}
	}
}
