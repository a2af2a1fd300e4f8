package kernels_test

import (
	"math"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
)

// Invariant 2 on whole training steps: every set, the assembly for AVX-512
// included where the processor has none, trains and scores to the same bytes.
// Not parallel: it changes the set of the whole process.
func TestSetsAgreeOnTrainingStep(t *testing.T) {
	for _, kind := range models.Kinds() {
		model := must.Get(models.New(models.Config{Kind: kind, Vocabulary: 250, Embedding: 7, Units: 17, Layers: 2}))(t)
		restore := must.Get(kernels.ForceSet("go"))(t)
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
	rule := must.Get(optimizers.New(optimizers.Config{Kind: optimizers.Nesterov, Momentum: 0.9}, len(params)))(t)
	sentences := make([][]int32, 4)
	for i := range sentences {
		for range 2 + i {
			sentences[i] = append(sentences[i], int32(rng.IntN(model.Config().Vocabulary)))
		}
	}
	trainer := model.NewTrainer()
	must.Do(t, trainer.UseDropout(0.2, rng))
	var all []float64
	for range 2 {
		loss := must.Get(trainer.Gradient(params, sentences, gradient))(t)
		norm := math.Sqrt(kernels.SquaredNorm(gradient))
		kernels.Scale(float32(0.5/norm), gradient)
		rule.Step(params, gradient, 1)
		all = append(all, loss.Sum, norm)
	}
	for _, p := range params {
		all = append(all, float64(p))
	}
	scorer := must.Get(model.NewScorer(params))(t)
	evaluation := must.Get(scorer.Evaluate(sentences, nil))(t)
	return append(all, evaluation.All.Loss, float64(evaluation.All.Hits))
}
