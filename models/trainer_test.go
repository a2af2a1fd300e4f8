package models

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func mustGradient(tb testing.TB, trainer *Trainer, params []float32, sentences [][]int32) (Loss, []float32) {
	tb.Helper()
	gradient := make([]float32, len(params))
	for i := range gradient {
		gradient[i] = float32(math.NaN()) // so that an element left out shows
	}
	loss := must.Get(trainer.Gradient(params, sentences, gradient))(tb)
	return loss, gradient
}

// checkDerivatives compares the gradient in every element of indices with
// central differences of the float64 reference.
func checkDerivatives(t *testing.T, m *Language, params, gradient []float32, sentences [][]int32, indices func(Tensor) []int) {
	t.Helper()
	wide := widen(params)
	for _, tensor := range m.Tensors() {
		scale := largest(tensor.View(gradient))
		for _, i := range indices(tensor) {
			got, want := float64(gradient[tensor.Offset+i]), derivative(m, wide, tensor.Offset+i, sentences)
			if !near(got, want, scale, 2e-5) {
				t.Errorf("%v element %d: gradient %v, central difference %v (tensor's largest %v)", tensor, i, got, want, scale)
			}
		}
	}
}

func every(t Tensor) []int {
	all := make([]int, t.Size())
	for i := range all {
		all[i] = i
	}
	return all
}

func TestGradientOverSeveralTilesEqualsFiniteDifferences(t *testing.T) {
	t.Parallel()
	rng := testRand(7)
	vocabulary := 2*tileWidth + 33
	m := mustNew(t, vocabulary, 3, 5)
	params := wideParams(m, rng)
	sentences := sentencesOf(rng, vocabulary, 5, 3, 5)
	sentences[0][1], sentences[0][2], sentences[1][1], sentences[2][3] = tileWidth-1, tileWidth, 0, int32(vocabulary-1)
	_, gradient := mustGradient(t, m.NewTrainer(), params, sentences)
	checkDerivatives(t, m, params, gradient, sentences, func(tensor Tensor) []int {
		some := make([]int, 40)
		for i := range some {
			some[i] = rng.IntN(tensor.Size())
		}
		return some
	})
}

func TestGradientDoesNotDependOnTheRowBlockOfTheOutputLayer(t *testing.T) {
	t.Parallel()
	rng := testRand(8)
	m := mustNew(t, 300, 6, 4)
	params, sentences := wideParams(m, rng), mixedSentences(rng, 300, 9, 8)
	loss, gradient := mustGradient(t, m.NewTrainer(), params, sentences)
	for _, block := range []int{1, 5, 16} {
		trainer := m.NewTrainer()
		trainer.output.block = block
		blockLoss, blocked := mustGradient(t, trainer, params, sentences)
		if !near(blockLoss.Sum, loss.Sum, loss.Sum, 1e-12) {
			t.Errorf("blocks of %d rows: loss %v, want %v", block, blockLoss.Sum, loss.Sum)
		}
		compareVectors(t, m, blocked, gradient, 1e-5)
	}
}

func compareVectors(t *testing.T, m *Language, got, want []float32, tolerance float64) {
	t.Helper()
	for _, tensor := range m.Tensors() {
		g, w := tensor.View(got), tensor.View(want)
		scale := largest(w)
		for i := range w {
			if !near(float64(g[i]), float64(w[i]), scale, tolerance) {
				t.Fatalf("%v element %d: %v, want %v", tensor, i, g[i], w[i])
			}
		}
	}
}

func TestLossEqualsReference(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := testRand(seed)
		m := mustNew(t, 2+rng.IntN(600), 1+rng.IntN(20), 1+rng.IntN(40))
		params := wideParams(m, rng)
		sentences := mixedSentences(rng, m.config.Vocabulary, 1+rng.IntN(8), 12)
		loss, _ := mustGradient(t, m.NewTrainer(), params, sentences)
		want := newReference(m, widen(params)).meanLoss(sentences)
		if !near(loss.Mean(), want, want, 1e-5) {
			t.Errorf("seed %d, %+v: mean loss %v, want %v", seed, m.config, loss.Mean(), want)
		}
	}
}

func TestGradientDoesNotDependOnEarlierBatches(t *testing.T) {
	t.Parallel()
	rng := testRand(3)
	m := mustNew(t, 500, 12, 20)
	params := wideParams(m, rng)
	used := m.NewTrainer()
	for range 12 {
		sentences := mixedSentences(rng, 500, 1+rng.IntN(20), 21)
		loss, gradient := mustGradient(t, used, params, sentences)
		freshLoss, fresh := mustGradient(t, m.NewTrainer(), params, sentences)
		if loss != freshLoss || !slices.Equal(gradient, fresh) {
			t.Fatalf("a used trainer and a fresh one differ on %d sentences", len(sentences))
		}
	}
}

func TestGradientReadsItsInputsOnly(t *testing.T) {
	t.Parallel()
	rng := testRand(4)
	m := mustNew(t, 50, 6, 5)
	params, sentences := wideParams(m, rng), mixedSentences(rng, 50, 5, 9)
	paramsBefore, firstBefore := slices.Clone(params), slices.Clone(sentences[0])
	mustGradient(t, m.NewTrainer(), params, sentences)
	if !slices.Equal(params, paramsBefore) || !slices.Equal(sentences[0], firstBefore) {
		t.Error("Gradient changed its inputs")
	}
}

// The probability of a whole tile may be too small for a float32.
func TestImprobableTilesKeepTheGradientFinite(t *testing.T) {
	t.Parallel()
	rng := testRand(5)
	m := mustNew(t, 3*tileWidth, 4, 4)
	params := wideParams(m, rng)
	bias := m.layout.views(params).outputBias
	bias[1], bias[tileWidth+1] = 1000, -1000
	sentences := [][]int32{{0, 1, 5}, {3, tileWidth + 1, 2*tileWidth + 7}}
	loss, gradient := mustGradient(t, m.NewTrainer(), params, sentences)
	want := newReference(m, widen(params)).meanLoss(sentences)
	if !near(loss.Mean(), want, want, 1e-5) {
		t.Errorf("mean loss %v, want %v", loss.Mean(), want)
	}
	if _, err := FiniteNorm("gradient", gradient); err != nil {
		t.Error(err)
	}
}

// Targets that are e^30 to e^1000 times less probable than another token: with the first the
// target's logit serves as the reference of the exps, with the others the largest logit has to.
func TestImprobableTargetsKeepTheGradientRight(t *testing.T) {
	t.Parallel()
	for _, logit := range []float32{30, 59, 61, 90, 1000} {
		rng := testRand(uint64(logit))
		m := mustNew(t, tileWidth+19, 3, 4)
		params := wideParams(m, rng)
		m.layout.views(params).outputBias[tileWidth+2] = logit
		sentences := [][]int32{{0, 1, 5, tileWidth + 2}, {3, tileWidth + 1, 7}}
		loss, gradient := mustGradient(t, m.NewTrainer(), params, sentences)
		if want := newReference(m, widen(params)).meanLoss(sentences); !near(loss.Mean(), want, want, 1e-5) {
			t.Errorf("logit %v: mean loss %v, want %v", logit, loss.Mean(), want)
		}
		checkDerivatives(t, m, params, gradient, sentences, func(tensor Tensor) []int {
			some := make([]int, 20)
			for i := range some {
				some[i] = rng.IntN(tensor.Size())
			}
			return some
		})
	}
}

func TestDivergedParametersAreReported(t *testing.T) {
	t.Parallel()
	rng := testRand(6)
	m := mustNew(t, 40, 4, 4)
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		params := wideParams(m, rng)
		params[m.layout.decoder.layers[0].projection.From+1] = bad
		_, err := m.NewTrainer().Gradient(params, [][]int32{{1, 2, 3}}, make([]float32, len(params)))
		var diverged *DivergedError
		if !errors.As(err, &diverged) {
			t.Fatalf("projection with %v: error %v, want a DivergedError", bad, err)
		}
		diverged.Where = "client 17, round 4, step 2"
		if !strings.Contains(diverged.Error(), "client 17, round 4, step 2") {
			t.Errorf("message %q does not say where", diverged)
		}
		if _, err := FiniteNorm("update", params); !errors.As(err, &diverged) || diverged.Name != "update" {
			t.Errorf("FiniteNorm of %v: %v", bad, err)
		}
	}
}

func TestGradientRejectsBadShapes(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 10, 3, 4)
	n := m.Parameters()
	fine := [][]int32{{1, 2}}
	cases := []struct {
		params, gradient int
		sentences        [][]int32
		want             string
	}{
		{n - 1, n, fine, "the parameter vector has"},
		{n, n + 1, fine, "the gradient has"},
		{n, n, nil, "the batch is empty"},
		{n, n, [][]int32{{1, 2}, {1}}, "sentence 1 has 1 tokens: want at least 2"},
		{n, n, [][]int32{{1, 2}, {1, 2, 10}}, "sentence 1: token 2 has id 10: want 0 to 9"},
		{n, n, [][]int32{{-1, 2}}, "sentence 0: token 0 has id -1: want 0 to 9"},
	}
	for _, c := range cases {
		_, err := m.NewTrainer().Gradient(make([]float32, c.params), c.sentences, make([]float32, c.gradient))
		must.Say(t, err, c.want)
	}
}
