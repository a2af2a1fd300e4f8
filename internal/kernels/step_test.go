package kernels_test

import (
	"math"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
)

// Invariant 2 on whole training steps: every set, the assembly for AVX-512
// included where the processor has none, trains and scores to the same bytes.
// Not parallel: it changes the set of the whole process.
func TestEverySetTakesTheSameTrainingStep(t *testing.T) {
	for _, kind := range models.Kinds() {
		model, err := models.New(models.Config{Kind: kind, Vocabulary: 250, Embedding: 7, Units: 17, Layers: 2})
		if err != nil {
			t.Fatal(err)
		}
		restore, err := kernels.ForceSet("go")
		if err != nil {
			t.Fatal(err)
		}
		want := trainAndScore(t, model)
		restore()
		for _, set := range []string{"AVX2", "AVX512"} {
			restore := kernels.ForceEmulated(set)
			got := trainAndScore(t, model)
			restore()
			if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
				t.Errorf("%s: the %s kernels and plain Go differ", kind, set)
			}
		}
	}
}

// trainAndScore takes two steps with dropout, clip and momentum, and returns all
// that comes of them: losses, parameters and an evaluation.
func trainAndScore(t *testing.T, model *models.Language) []float64 {
	t.Helper()
	rng := seeds.Stream(1, "test")
	params, gradient := model.Init(rng), make([]float32, model.Parameters())
	rule, err := optimizers.New(optimizers.Config{Kind: optimizers.Nesterov, Momentum: 0.9}, len(params))
	if err != nil {
		t.Fatal(err)
	}
	sentences := make([][]int32, 4)
	for i := range sentences {
		for range 2 + i {
			sentences[i] = append(sentences[i], int32(rng.IntN(model.Config().Vocabulary)))
		}
	}
	trainer := model.NewTrainer()
	if err := trainer.UseDropout(0.2, rng); err != nil {
		t.Fatal(err)
	}
	var all []float64
	for range 2 {
		loss, err := trainer.Gradient(params, sentences, gradient)
		if err != nil {
			t.Fatal(err)
		}
		norm := math.Sqrt(kernels.SquaredNorm(gradient))
		kernels.Scale(float32(0.5/norm), gradient)
		rule.Step(params, gradient, 1)
		all = append(all, loss.Sum, norm)
	}
	for _, p := range params {
		all = append(all, float64(p))
	}
	scorer, err := model.NewScorer(params)
	if err != nil {
		t.Fatal(err)
	}
	evaluation, err := scorer.Evaluate(sentences, nil)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, evaluation.All.Loss, float64(evaluation.All.Hits))
}
