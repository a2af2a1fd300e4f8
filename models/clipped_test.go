package models

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/kernels"
	"coalmine/internal/must"
)

// clipTo is the factor that brings a norm to at most clip.
func clipTo(clip float64) func(float64) float64 {
	return func(norm float64) float64 { return min(1, clip/norm) }
}

func mustClippedSum(tb testing.TB, trainer *Trainer, params []float32, sentences [][]int32, factor func(float64) float64) (Loss, []float32, []float64) {
	tb.Helper()
	sum, norms := make([]float32, len(params)), make([]float64, len(sentences))
	for i := range sum {
		sum[i] = float32(math.NaN()) // so that an element left out shows
	}
	loss := must.Get(trainer.ClippedSum(params, sentences, factor, sum, norms))(tb)
	return loss, sum, norms
}

// oneByOne computes each sentence's gradient by itself.
func oneByOne(tb testing.TB, m *Language, params []float32, sentences [][]int32) (loss Loss, gradients [][]float32, norms []float64) {
	tb.Helper()
	for _, s := range sentences {
		l, g := mustGradient(tb, m.NewTrainer(), params, [][]int32{s})
		loss, gradients = loss.Add(l), append(gradients, g)
		norms = append(norms, math.Sqrt(kernels.SquaredNorm(g)))
	}
	return loss, gradients, norms
}

// compareClipped compares with the gradients taken one by one, clipped to their
// median norm, so that some are clipped and some are not.
func compareClipped(t *testing.T, m *Language, params []float32, sentences [][]int32) {
	t.Helper()
	wantLoss, gradients, want := oneByOne(t, m, params, sentences)
	factor := clipTo(slices.Sorted(slices.Values(want))[len(want)/2])
	calls := 0
	loss, sum, norms := mustClippedSum(t, m.NewTrainer(), params, sentences, func(norm float64) float64 {
		calls++
		return factor(norm)
	})
	if calls != len(sentences) {
		t.Errorf("%d factors are asked for %d sentences", calls, len(sentences))
	}
	if loss.Tokens != wantLoss.Tokens || !near(loss.Sum, wantLoss.Sum, wantLoss.Sum, 1e-9) {
		t.Errorf("loss %+v, one by one %+v", loss, wantLoss)
	}
	total, clipped := make([]float64, len(params)), make([]float32, len(params))
	for i, norm := range norms {
		if above := norm/want[i] - 1; !(above > -1e-6 && above < 2e-5*float64(len(sentences[i]))) {
			t.Errorf("sentence %d of %d tokens: norm %v, alone %v", i, len(sentences[i]), norm, want[i])
		}
		for j, v := range gradients[i] {
			total[j] += float64(v) * factor(norm)
		}
	}
	for j, v := range total {
		clipped[j] = float32(v)
	}
	compareVectors(t, m, sum, clipped, 1e-5)
}

func TestClippedSumMatchesSingleGradientsForEveryVariant(t *testing.T) {
	t.Parallel()
	eachVariant(t, 29, func(t *testing.T, m *Language) {
		for seed := range uint64(5) {
			rng := testRand(seed)
			compareClipped(t, m, wideParams(m, rng), mixedSentences(rng, 29, 1+rng.IntN(9), 15))
		}
	})
}

// A token that is fed and predicted often makes the gradients as input and as output
// of a tied embedding far from orthogonal.
func TestTheNormOfATiedEmbeddingHasItsCrossTerm(t *testing.T) {
	t.Parallel()
	rng := testRand(5)
	m := mustNew(t, 7, 4, 6)
	params := wideParams(m, rng)
	sentences := [][]int32{slices.Repeat([]int32{3}, 12), {3, 4, 3, 4, 3, 4}, {1, 2, 3}}
	compareClipped(t, m, params, sentences)

	apart := make([]float32, len(params))
	_, g := mustGradient(t, m.NewTrainer(), params, sentences[:1])
	copy(apart, g)
	_, _, norms := mustClippedSum(t, m.NewTrainer(), params, sentences[:1], clipTo(1))
	untied := mustConfigure(t, Config{Kind: CIFGLSTM, Vocabulary: 7, Embedding: 4, Units: 6, Untied: true})
	wide := untiedLike(m, untied, params)
	_, g = mustGradient(t, untied.NewTrainer(), wide, sentences[:1])
	if without := math.Sqrt(kernels.SquaredNorm(g)); near(norms[0], without, without, 0.01) {
		t.Errorf("the norm is %v with the cross term and %v without: the test shows nothing", norms[0], without)
	}
}

// untiedLike are the parameters of a model whose output weights are a copy of the embedding.
func untiedLike(tied, untied *Language, params []float32) []float32 {
	wide := make([]float32, untied.Parameters())
	for _, t := range untied.Tensors() {
		name := t.Name
		if name == OutputTensor {
			name = EmbeddingTensor
		}
		for _, from := range tied.Tensors() {
			if from.Name == name {
				copy(t.View(wide), from.View(params))
			}
		}
	}
	return wide
}

func TestClippedSumOverSeveralTilesMatchesSingleGradients(t *testing.T) {
	t.Parallel()
	rng := testRand(6)
	vocabulary := 2*tileWidth + 33
	m := mustNew(t, vocabulary, 3, 5)
	compareClipped(t, m, wideParams(m, rng), mixedSentences(rng, vocabulary, 12, 21))
}

// A long sentence has more rows than a product sums up at once.
func TestClippedSumOfLongSentencesMatchesSingleGradients(t *testing.T) {
	t.Parallel()
	rng := testRand(7)
	m := mustConfigure(t, Config{Kind: LSTM, Vocabulary: 40, Embedding: 6, Units: 5, Layers: 2, Projection: Unprojected, Untied: true})
	compareClipped(t, m, wideParams(m, rng), sentencesOf(rng, 40, kernels.BlockDepth+30, 70, 3))
}

// Sentences are processed group by group if their logits take much memory.
func TestClippedSumInGroupsMatchesSingleGradients(t *testing.T) {
	t.Parallel()
	rng := testRand(8)
	vocabulary := logitMemory / 20
	m := mustNew(t, vocabulary, 2, 3)
	sentences := mixedSentences(rng, vocabulary, 9, 12)
	trainer := m.NewTrainer()
	if n := trainer.groupSize(sentences); n == len(sentences) {
		t.Fatalf("%d sentences are one group: the test shows nothing", n)
	}
	if n := trainer.groupSize(sentencesOf(rng, vocabulary, 30, 2)); n != 1 {
		t.Errorf("a sentence that is too long for a group is in one of %d", n)
	}
	compareClipped(t, m, wideParams(m, rng), sentences)
}

// Targets that are e^30 to e^1000 times less probable than another token.
func TestImprobableTargetsKeepTheClippedSumRight(t *testing.T) {
	t.Parallel()
	for _, logit := range []float32{30, 61, 90, 1000} {
		rng := testRand(uint64(logit))
		m := mustNew(t, tileWidth+19, 3, 4)
		params := wideParams(m, rng)
		m.layout.views(params).outputBias[tileWidth+2] = logit
		compareClipped(t, m, params, [][]int32{{0, 1, 5, tileWidth + 2}, {3, tileWidth + 1, 7}})
	}
}

// Equal sentences are laid out alike alone and together, and draw the same dropout
// if the streams begin alike.
func TestClippedSumUsesDropoutOfGradient(t *testing.T) {
	t.Parallel()
	eachVariant(t, 19, func(t *testing.T, m *Language) {
		rng := testRand(31)
		params, sentences := wideParams(m, rng), sentencesOf(rng, 19, 6, 6, 6)
		dropping := func() *Trainer {
			trainer := m.NewTrainer()
			check(t, trainer.UseDropout(0.4, testRand(32)))
			return trainer
		}
		_, mean := mustGradient(t, dropping(), params, sentences)
		kernels.Scale(3, mean)
		_, sum, _ := mustClippedSum(t, dropping(), params, sentences, clipTo(math.Inf(1)))
		compareVectors(t, m, sum, mean, 1e-5)

		_, alone := mustGradient(t, dropping(), params, sentences[:1])
		_, _, norms := mustClippedSum(t, dropping(), params, sentences[:1], clipTo(1))
		if want := math.Sqrt(kernels.SquaredNorm(alone)); !near(norms[0], want, want, 1e-4) {
			t.Errorf("norm %v, want %v", norms[0], want)
		}
	})
}

// The sum over one sentence, in float32, has at most the clip norm.
func checkWithin(t *testing.T, m *Language, params []float32, sentence []int32) {
	t.Helper()
	const clip = 0.01
	_, sum, norms := mustClippedSum(t, m.NewTrainer(), params, [][]int32{sentence}, clipTo(clip))
	if got := math.Sqrt(kernels.SquaredNorm(sum)); got > clip {
		t.Errorf("a gradient of norm %v has norm %v after clipping to %v", norms[0], got, clip)
	} else if least := min(norms[0], clip) * (1 - 2e-5*float64(len(sentence))); got < least {
		t.Errorf("a gradient of norm %v has norm %v after clipping to %v, want at least %v", norms[0], got, clip, least)
	}
}

func TestNoSentenceAddsMoreThanTheClipNorm(t *testing.T) {
	t.Parallel()
	eachVariant(t, 23, func(t *testing.T, m *Language) {
		rng := testRand(33)
		params := wideParams(m, rng)
		for _, s := range append(mixedSentences(rng, 23, 4, 9), sentencesOf(rng, 23, 60)...) {
			checkWithin(t, m, params, s)
		}
	})
}

func TestNoSentenceOfALargeModelAddsMoreThanTheClipNorm(t *testing.T) {
	t.Parallel()
	rng := testRand(39)
	m := mustConfigure(t, Config{Kind: GRU, Vocabulary: 3*tileWidth + 5, Embedding: 40, Units: tileWidth + 60})
	params := wideParams(m, rng)
	kernels.Scale(0.2, params) // whose gradients are finite
	for _, s := range sentencesOf(rng, m.config.Vocabulary, 2, 21, 90) {
		checkWithin(t, m, params, s)
	}
}

// Two tokens alternate: the gradient of each step nearly cancels the one before.
func TestClippedNormOfCancellingTermsIsNotTooSmall(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 2, 3, 4)
	params := wideParams(m, testRand(40))
	kernels.Scale(1e-4, params)
	sentence := make([]int32, 61)
	for i := range sentence {
		sentence[i] = int32(i % 2)
	}
	_, _, alone := oneByOne(t, m, params, [][]int32{sentence, sentence[:2]})
	if alone[0] > 1e-3*alone[1] {
		t.Fatalf("the norm is %v, that of a single step %v: the test shows nothing", alone[0], alone[1])
	}
	_, _, norms := mustClippedSum(t, m.NewTrainer(), params, [][]int32{sentence}, clipTo(1))
	if norms[0] < alone[0] || norms[0] > alone[0]+1e-2*alone[1] {
		t.Errorf("norm %v, alone %v", norms[0], alone[0])
	}
}

func TestAClippedSumOfNothingIsZero(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 9, 3, 4)
	loss, sum, _ := mustClippedSum(t, m.NewTrainer(), make([]float32, m.Parameters()), nil, clipTo(1))
	if loss != (Loss{}) || slices.ContainsFunc(sum, func(v float32) bool { return v != 0 }) {
		t.Errorf("loss %+v, sum %v", loss, sum)
	}
}

func TestAClippedSumDoesNotDependOnEarlierBatches(t *testing.T) {
	t.Parallel()
	rng := testRand(34)
	m := mustConfigure(t, Config{Kind: GRU, Vocabulary: 300, Embedding: 12, Units: 20, Layers: 2})
	params := wideParams(m, rng)
	used := m.NewTrainer()
	for range 8 {
		sentences := mixedSentences(rng, 300, 1+rng.IntN(20), 21)
		_, sum, norms := mustClippedSum(t, used, params, sentences, clipTo(0.3))
		_, fresh, freshNorms := mustClippedSum(t, m.NewTrainer(), params, sentences, clipTo(0.3))
		if !slices.Equal(sum, fresh) || !slices.Equal(norms, freshNorms) {
			t.Fatalf("a used trainer and a fresh one differ on %d sentences", len(sentences))
		}
		mustGradient(t, used, params, sentences)
	}
}

func TestEveryKernelSetClipsToTheSameBytes(t *testing.T) {
	rng := testRand(35)
	m := mustConfigure(t, Config{Kind: LSTM, Vocabulary: 300, Embedding: 12, Units: 20, Layers: 2})
	params, sentences := wideParams(m, rng), mixedSentences(rng, 300, 20, 21)
	var first []float32
	for _, set := range kernels.Sets() {
		restore, err := kernels.ForceSet(set)
		check(t, err)
		_, sum, _ := mustClippedSum(t, m.NewTrainer(), params, sentences, clipTo(0.3))
		restore()
		if first == nil {
			first = sum
		}
		if !slices.Equal(sum, first) {
			t.Errorf("%s gives other bytes than %s", set, kernels.Sets()[0])
		}
	}
}

func TestAClippedSumOfDivergedParametersIsAnError(t *testing.T) {
	t.Parallel()
	rng := testRand(36)
	m := mustNew(t, 40, 4, 4)
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), 3e38} {
		params := wideParams(m, rng)
		params[m.layout.decoder.layers[0].projection.From+1] = bad
		_, err := m.NewTrainer().ClippedSum(params, [][]int32{{1, 2, 3}}, clipTo(1), make([]float32, len(params)), make([]float64, 1))
		if _, ok := errors.AsType[*DivergedError](err); !ok {
			t.Errorf("projection with %v: error %v, want a DivergedError", bad, err)
		}
	}
}

func TestClippedSumRejectsBadShapes(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 10, 3, 4)
	n := m.Parameters()
	for want, err := range map[string]error{
		"the parameter vector has":   clippedSum(m, n-1, n, 1, []int32{1, 2}),
		"the gradient has":           clippedSum(m, n, n+1, 1, []int32{1, 2}),
		"the vector of norms has":    clippedSum(m, n, n, 2, []int32{1, 2}),
		"sentence 0 has 1 tokens":    clippedSum(m, n, n, 1, []int32{1}),
		"token 1 has id 10: want 0 ": clippedSum(m, n, n, 1, []int32{1, 10}),
	} {
		must.Say(t, err, want)
	}
}

func clippedSum(m *Language, params, sum, norms int, sentence []int32) error {
	_, err := m.NewTrainer().ClippedSum(make([]float32, params), [][]int32{sentence}, clipTo(1), make([]float32, sum), make([]float64, norms))
	return err
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestAClippedSumAllocatesNothingOnceWarm(t *testing.T) {
	if build.Race {
		t.Skip("the race detector allocates")
	}
	rng := testRand(37)
	m := mustNew(t, 700, 16, 24)
	params, trainer, factor := wideParams(m, rng), m.NewTrainer(), clipTo(1)
	sum, norms := make([]float32, len(params)), make([]float64, 16)
	large, small := mixedSentences(rng, 700, 16, 21), mixedSentences(rng, 700, 5, 9)
	step := func() {
		for _, sentences := range [][][]int32{large, small} {
			must.Get(trainer.ClippedSum(params, sentences, factor, sum, norms[:len(sentences)]))(t)
		}
	}
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("%v allocations a step, want 0", n)
	}
}

// BenchmarkClippedSum is to be compared with BenchmarkGradient's sizes, and with the
// byte model of The Secret Sharer.
func BenchmarkClippedSum(b *testing.B) {
	for _, c := range []struct {
		name   string
		config Config
		tokens int
	}{
		{"paper", Config{Kind: CIFGLSTM, Vocabulary: 10004, Embedding: 96, Units: 670}, 20},
		{"bytes", Config{Kind: LSTM, Vocabulary: 260, Embedding: 32, Units: 200, Layers: 2, Projection: Unprojected, Untied: true}, 80},
	} {
		m := mustConfigure(b, c.config)
		sentences := sentencesOf(testRand(2), c.config.Vocabulary, slices.Repeat([]int{c.tokens + 1}, 32)...)
		params, sum, norms, trainer := wideParams(m, testRand(1)), make([]float32, m.Parameters()), make([]float64, 32), m.NewTrainer()
		b.Run(fmt.Sprint(c.name, "/plain"), func(b *testing.B) {
			for b.Loop() {
				_, err := trainer.Gradient(params, sentences, sum)
				check(b, err)
			}
		})
		b.Run(fmt.Sprint(c.name, "/clipped"), func(b *testing.B) {
			for b.Loop() {
				_, err := trainer.ClippedSum(params, sentences, clipTo(0.1), sum, norms)
				check(b, err)
			}
		})
	}
}

// opposed returns n rows of x and d whose outer products nearly cancel in pairs.
func opposed(rng *rand.Rand, n, width, columns, stride int) (x, d strided) {
	x = strided{make([]float32, n*width), width, width}
	d = strided{make([]float32, n*stride), columns, stride}
	for i := range n {
		for j := range x.row(i) {
			x.row(i)[j] = float32(rng.NormFloat64())
			if i%2 == 1 {
				x.row(i)[j] = x.row(i - 1)[j]
			}
		}
		for j := range d.row(i) {
			d.row(i)[j] = float32(rng.NormFloat64())
			if i%2 == 1 {
				d.row(i)[j] = -d.row(i - 1)[j] * float32(1+1e-4*rng.NormFloat64())
			}
		}
	}
	return x, d
}

// exactNorm returns the norm of x^T d and of extra times the sum of the rows of d, in float64.
func exactNorm(n int, x, d strided, extra float64) float64 {
	var square float64
	for j := range x.width + 1 {
		for k := range d.width {
			var sum float64
			for i := range n {
				if j < x.width {
					sum += float64(x.row(i)[j]) * float64(d.row(i)[k])
				} else {
					sum += math.Sqrt(extra) * float64(d.row(i)[k])
				}
			}
			square += sum * sum
		}
	}
	return math.Sqrt(square)
}

// Without bounds on rounding the norm would be below the exact norm in many of the cases.
func TestRoundingDoesNotTakeABoundBelowTheExactNorm(t *testing.T) {
	t.Parallel()
	rng := testRand(41)
	var below [2]int
	for range 300 {
		n, width, columns := 2*(1+rng.IntN(15)), 1+rng.IntN(300), 1+rng.IntN(300)
		x, d := opposed(rng, n, width, columns, columns+rng.IntN(3))
		extra := float64(rng.IntN(2))
		exact := exactNorm(n, x, d, extra)
		for way, add := range [2]func(*perExample, *normBound){
			func(e *perExample, b *normBound) { e.addPaired(b, n, x, d, extra) },
			func(e *perExample, b *normBound) { e.addFormed(b, n, x, d, extra) },
		} {
			var b normBound
			add(new(perExample), &b)
			if b.upper(n) < exact {
				t.Errorf("way %d, %d rows of %d and %d: bound %v, want at least %v", way, n, width, columns, b.upper(n), exact)
			}
			if !(b.square >= exact*exact) {
				below[way]++
			}
			most := math.Sqrt(b.terms)
			if b.upper(n) > exact+0.01*most {
				t.Errorf("way %d, %d rows of %d and %d: bound %v, exact %v, terms of %v", way, n, width, columns, b.upper(n), exact, most)
			}
		}
	}
	if below[0] < 30 || below[1] < 30 {
		t.Errorf("%v of 300 norms are below the exact one before rounding is bounded: the test shows little", below)
	}
}
