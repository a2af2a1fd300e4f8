package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
)

// variants are the models beside the paper's, at sizes that no kernel likes,
// with a vocabulary of the given size.
func variants(vocabulary int) []Config {
	var all []Config
	for _, kind := range Kinds() {
		all = append(all,
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 5, Units: 7},
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 9, Units: 9, Projection: Unprojected},
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 3, Units: 11, Projection: Unprojected, Untied: true},
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 4, Units: 6, Projection: 3, Untied: true, Layers: 2},
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 5, Units: 3, Layers: 3},
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 2, Units: 5, Layers: 3, Projection: Unprojected, Untied: true},
		)
	}
	return append(all,
		Config{Kind: LSTM, Vocabulary: vocabulary, Embedding: 3, Units: 4, Layers: 4, Projection: 2, Untied: true},
		Config{Kind: Conv, Vocabulary: vocabulary, Embedding: 5, Units: 7, Kernel: 2},
		Config{Kind: Conv, Vocabulary: vocabulary, Embedding: 3, Units: 8, Layers: 4, Kernel: 3, Projection: Unprojected, Untied: true},
	)
}

func eachVariant(t *testing.T, vocabulary int, test func(t *testing.T, m *Language)) {
	t.Helper()
	for _, c := range variants(vocabulary) {
		t.Run(fmt.Sprintf("%s layers=%d units=%d projection=%d untied=%v kernel=%d", c.Kind, c.layers(), c.Units, c.Projection, c.Untied, c.Kernel), func(t *testing.T) {
			t.Parallel()
			test(t, mustConfigure(t, c))
		})
	}
}

func TestGradientMatchesFiniteDifferencesForEveryVariant(t *testing.T) {
	t.Parallel()
	eachVariant(t, 13, func(t *testing.T, m *Language) {
		rng := testRand(21)
		params := wideParams(m, rng)
		sentences := sentencesOf(rng, 13, 4, 2, 6, 4)
		_, gradient := mustGradient(t, m.NewTrainer(), params, sentences)
		checkDerivatives(t, m, params, gradient, sentences, every)
	})
}

func TestEveryVariantsScorerEqualsItsTrainerAndTheReference(t *testing.T) {
	t.Parallel()
	eachVariant(t, tileWidth+23, func(t *testing.T, m *Language) {
		rng := testRand(22)
		params := wideParams(m, rng)
		sentence := sentencesOf(rng, m.config.Vocabulary, 15)[0]
		loss, _ := mustGradient(t, m.NewTrainer(), params, [][]int32{sentence})
		var sum float64
		for _, lp := range feed(t, mustScorer(t, m, params), sentence) {
			sum -= float64(lp)
		}
		if !near(sum, loss.Sum, sum, 1e-6) {
			t.Errorf("scorer %v, trainer %v", sum, loss.Sum)
		}
		if want := newReference(m, widen(params)).meanLoss([][]int32{sentence}); !near(loss.Mean(), want, want, 1e-5) {
			t.Errorf("mean loss %v, reference %v", loss.Mean(), want)
		}
	})
}

func TestEveryVariantsStatesDoNotDependOnTheirBatch(t *testing.T) {
	t.Parallel()
	eachVariant(t, 61, func(t *testing.T, m *Language) {
		rng := testRand(23)
		scorer := mustScorer(t, m, wideParams(m, rng))
		const n, steps = 2*scoringBlock + 5, 4
		sequences := sentencesOf(rng, 61, slices.Repeat([]int{steps + 1}, n)...)
		for _, size := range []int{2, 7, n} {
			order := rng.Perm(n)[:size]
			together := feedTogether(t, scorer, sequences, order)
			for at, i := range order {
				if alone := feed(t, scorer, sequences[i]); !slices.Equal(together[at], alone) {
					t.Fatalf("sequence %d: %v among %d, %v alone", i, together[at], size, alone)
				}
			}
		}
		evaluation, err := scorer.Evaluate(sequences, nil)
		check(t, err)
		var want Tally
		for _, s := range sequences {
			for _, lp := range feed(t, scorer, s) {
				want.add(lp, false, false)
			}
		}
		if evaluation.All.Loss != want.Loss || evaluation.All.Tokens != want.Tokens {
			t.Errorf("evaluation %+v, one by one %+v", evaluation.All, want)
		}
	})
}

func TestEveryVariantsGatheredStatesContinueLikeTheirOrigin(t *testing.T) {
	t.Parallel()
	eachVariant(t, 31, func(t *testing.T, m *Language) {
		rng := testRand(24)
		scorer := mustScorer(t, m, wideParams(m, rng))
		states := wanderingStates(t, scorer, rng, 4)
		var gathered States
		check(t, gathered.Gather(states, []int{3, 0, 3}))
		check(t, scorer.Step(&gathered, []int32{7, 8, 9}))
		check(t, scorer.Step(states, []int32{8, 1, 2, 7}))
		got, want := make([]float32, 3*31), make([]float32, 4*31)
		check(t, scorer.LogProbRows(&gathered, got))
		check(t, scorer.LogProbRows(states, want))
		if !slices.Equal(got[:31], want[3*31:]) || !slices.Equal(got[31:62], want[:31]) || slices.Equal(got[62:], got[:31]) {
			t.Error("gathered states do not continue like those they copy")
		}
	})
}

func TestSetStateContinuesLikeOriginForEveryVariant(t *testing.T) {
	t.Parallel()
	eachVariant(t, 31, func(t *testing.T, m *Language) {
		rng := testRand(16)
		scorer := mustScorer(t, m, wideParams(m, rng))
		states, kept := wanderingStates(t, scorer, rng, 4), scorer.Start(2)
		check(t, kept.Set(0, states, 3))
		check(t, kept.Set(1, states, 0))
		check(t, kept.Set(1, states, 2)) // over another
		check(t, scorer.Step(kept, []int32{7, 8}))
		check(t, scorer.Step(states, []int32{1, 2, 8, 7}))
		got, want := make([]float32, 2*31), make([]float32, 4*31)
		check(t, scorer.LogProbRows(kept, got))
		check(t, scorer.LogProbRows(states, want))
		if !slices.Equal(got[:31], want[3*31:]) || !slices.Equal(got[31:], want[2*31:3*31]) {
			t.Error("states that are set do not continue like those they copy")
		}
	})
}

// A batch of mixed lengths is the token-weighted mean of its sentences taken alone.
func TestMixedLengthsMatchSingleSentencesForEveryVariant(t *testing.T) {
	t.Parallel()
	eachVariant(t, 40, func(t *testing.T, m *Language) {
		rng := testRand(25)
		params := wideParams(m, rng)
		sentences := mixedSentences(rng, 40, 6, 11)
		total, gradient := mustGradient(t, m.NewTrainer(), params, sentences)
		var sum Loss
		mean := make([]float64, len(params))
		for _, s := range sentences {
			loss, g := mustGradient(t, m.NewTrainer(), params, [][]int32{s})
			sum = sum.Add(loss)
			for i, v := range g {
				mean[i] += float64(v) * float64(loss.Tokens) / float64(total.Tokens)
			}
		}
		if sum.Tokens != total.Tokens || !near(sum.Sum, total.Sum, total.Sum, 1e-9) {
			t.Fatalf("batch %+v, sentences together %+v", total, sum)
		}
		want := make([]float32, len(mean))
		for i, v := range mean {
			want[i] = float32(v)
		}
		compareVectors(t, m, gradient, want, 1e-5)
	})
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestNoVariantAllocatesOnceWarm(t *testing.T) {
	if build.Race {
		t.Skip("the race detector allocates")
	}
	for _, c := range variants(300) {
		rng := testRand(26)
		m := mustConfigure(t, c)
		params, trainer := wideParams(m, rng), m.NewTrainer()
		gradient := make([]float32, len(params))
		check(t, trainer.UseDropout(0.3, rng))
		large, small := mixedSentences(rng, 300, 9, 12), mixedSentences(rng, 300, 4, 6)
		step := func() {
			for _, sentences := range [][][]int32{large, small} {
				must.Get(trainer.Gradient(params, sentences, gradient))(t)
			}
		}
		if n := testing.AllocsPerRun(5, step); n != 0 {
			t.Errorf("%+v: %v allocations a step, want 0", c, n)
		}
	}
}

// Not parallel: it changes the kernels of the whole process.
func TestEveryKernelSetGivesEveryVariantTheSameGradient(t *testing.T) {
	for _, c := range variants(tileWidth + 5) {
		rng := testRand(27)
		m := mustConfigure(t, c)
		params, sentences := wideParams(m, rng), mixedSentences(rng, c.Vocabulary, 5, 7)
		_, want := mustGradient(t, m.NewTrainer(), params, sentences)
		for _, set := range kernels.Sets() {
			restore, err := kernels.ForceSet(set)
			check(t, err)
			_, got := mustGradient(t, m.NewTrainer(), params, sentences)
			restore()
			if !slices.Equal(got, want) {
				t.Errorf("%+v: kernel sets %s and %s differ", c, set, kernels.Set())
			}
		}
	}
}

func TestTensorNamesAreUniqueForEveryVariant(t *testing.T) {
	t.Parallel()
	eachVariant(t, 20, func(t *testing.T, m *Language) {
		seen := map[string]bool{}
		offset := 0
		for _, tensor := range m.Tensors() {
			if seen[tensor.Name] || tensor.Offset != offset {
				t.Errorf("%v at %d: its name is taken, or it does not begin at %d", tensor, tensor.Offset, offset)
			}
			seen[tensor.Name] = true
			offset += tensor.Size()
		}
		if offset != m.Parameters() {
			t.Errorf("the tensors have %d elements, the model %d", offset, m.Parameters())
		}
		for name, want := range map[string]bool{
			OutputTensor: m.config.Untied, "cell3.bias": m.config.Layers > 2, "cell.kernel": m.config.Kind == Conv, "cell.input": m.config.Kind != Conv,
			"projection2": m.config.Layers > 1 && m.config.Projection != Unprojected, "cell.candidate_bias": m.config.Kind == GRU,
		} {
			if seen[name] != want {
				t.Errorf("tensor %s there: %v, want %v", name, seen[name], want)
			}
		}
	})
}

// The byte model of federated out-of-vocabulary work (Chen et al. 2019) and the
// character model of Carlini et al. (2019), by counting.
func TestPublishedModelsHaveTheirSizes(t *testing.T) {
	t.Parallel()
	lstm := func(in, out, units int) int { return 4*units*(in+out) + 4*units }
	const bytes = 256 + 4
	for _, c := range []struct {
		config Config
		want   int
	}{
		{Config{Kind: LSTM, Vocabulary: bytes, Embedding: 64, Units: 200, Layers: 2, Projection: Unprojected, Untied: true},
			bytes*64 + lstm(64, 200, 200) + lstm(200, 200, 200) + bytes*200 + bytes},
		{Config{Kind: LSTM, Vocabulary: bytes, Embedding: 128, Units: 256, Layers: 3},
			bytes*128 + 3*(lstm(128, 128, 256)+256*128) + bytes},
	} {
		if got := mustConfigure(t, c.config).Parameters(); got != c.want {
			t.Errorf("%+v: %d parameters, want %d", c.config, got, c.want)
		}
	}
}

func TestForgetGatesBeginOpen(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, Config{Kind: LSTM, Vocabulary: 9, Embedding: 3, Units: 4, Layers: 2})
	w := m.layout.views(m.Init(seeds.Stream(1, seeds.Weights)))
	for i := range 2 {
		want := slices.Concat(make([]float32, 4), []float32{1, 1, 1, 1}, make([]float32, 8))
		if !slices.Equal(w.layers[i].bias, want) {
			t.Errorf("layer %d begins with biases %v, want %v", i, w.layers[i].bias, want)
		}
	}
}

func TestValidateRejectsIncompatibleOptions(t *testing.T) {
	t.Parallel()
	fine := Config{Kind: GRU, Vocabulary: 9, Embedding: 3, Units: 4}
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Projection = Unprojected }, "output has width 4: want that of the embedding, 3"},
		{func(c *Config) { c.Projection = 2 }, "output has width 2: want that of the embedding, 3"},
		{func(c *Config) { c.Layers = 5 }, "layers 5: want 1 to 4"},
		{func(c *Config) { c.Kernel = 3 }, "kernel 3: a model of kind gru has none"},
		{func(c *Config) { c.Kind, c.Kernel = Conv, 1 }, "kernel 1: want 2 to 64"},
		{func(c *Config) { c.Projection = -2 }, "projection -2: want 0 to"},
	} {
		bad := fine
		c.change(&bad)
		_, err := New(bad)
		must.Say(t, err, c.want)
	}
}

// dropMasks draws the masks that a trainer with the same stream draws, as
// UseDropout documents their order.
func dropMasks(m *Language, rate float64, seed uint64, sentences [][]int32) func(l, i, t int) []float64 {
	return drawMasks(m, rate, testRand(seed), sentences)
}

func drawMasks(m *Language, rate float64, rng *rand.Rand, sentences [][]int32) func(l, i, t int) []float64 {
	var batch packed
	batch.pack(sentences)
	rank := make([]int, len(sentences))
	for r, i := range batch.order {
		rank[i] = r
	}
	width := m.config.outputWidth()
	masks := make([][]float64, len(m.cells))
	for l := range masks {
		masks[l] = make([]float64, batch.rows()*width)
		for j := range masks[l] {
			if rng.Float64() >= rate {
				masks[l][j] = 1 / (1 - rate)
			}
		}
	}
	return func(l, i, t int) []float64 {
		r := batch.start[t] + rank[i]
		return masks[l][r*width : (r+1)*width]
	}
}

func TestGradientWithDropoutEqualsFiniteDifferences(t *testing.T) {
	t.Parallel()
	eachVariant(t, 13, func(t *testing.T, m *Language) {
		rng := testRand(28)
		params := wideParams(m, rng)
		sentences := sentencesOf(rng, 13, 4, 3, 5)
		trainer := m.NewTrainer()
		check(t, trainer.UseDropout(0.4, testRand(99)))
		loss, gradient := mustGradient(t, trainer, params, sentences)
		wide := widen(params)
		r := newReference(m, wide)
		r.mask = dropMasks(m, 0.4, 99, sentences)
		if want := r.meanLoss(sentences); !near(loss.Mean(), want, want, 1e-5) {
			t.Fatalf("mean loss %v, reference %v", loss.Mean(), want)
		}
		compareSome(t, m, r, rng, wide, sentences, gradient)
	})
}

// compareSome holds some elements of each tensor's gradient against central differences of the
// reference.
func compareSome(t *testing.T, m *Language, r *reference, rng *rand.Rand, params []float64, examples [][]int32, gradient []float32) {
	t.Helper()
	for _, tensor := range m.Tensors() {
		scale := largest(tensor.View(gradient))
		for range 12 {
			i := tensor.Offset + rng.IntN(tensor.Size())
			if got, want := float64(gradient[i]), derivativeOf(r, params, i, examples); !near(got, want, scale, 2e-5) {
				t.Errorf("%v element %d: gradient %v, central difference %v", tensor, i-tensor.Offset, got, want)
			}
		}
	}
}

func TestDropoutFollowsItsStream(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, Config{Kind: LSTM, Vocabulary: 50, Embedding: 8, Units: 12, Layers: 2})
	rng := testRand(29)
	params, sentences := wideParams(m, rng), mixedSentences(rng, 50, 5, 9)
	gradient := func(rate float64, seed uint64) []float32 {
		trainer := m.NewTrainer()
		check(t, trainer.UseDropout(rate, testRand(seed)))
		_, g := mustGradient(t, trainer, params, sentences)
		return g
	}
	_, plain := mustGradient(t, m.NewTrainer(), params, sentences)
	if !slices.Equal(gradient(0, 1), plain) {
		t.Error("rate 0 changes the gradient")
	}
	if !slices.Equal(gradient(0.5, 1), gradient(0.5, 1)) {
		t.Error("one stream gave two gradients")
	}
	if slices.Equal(gradient(0.5, 1), gradient(0.5, 2)) {
		t.Error("two streams gave one gradient")
	}
	for _, rate := range []float64{-0.1, 1, math.NaN()} {
		must.Say(t, m.NewTrainer().UseDropout(rate, rng), "want at least 0 and below 1")
	}
}

func TestMasksDropTheirShareAndKeepTheMean(t *testing.T) {
	t.Parallel()
	const n, rate = 100_000, 0.3
	mask := make([]float32, n)
	d := dropout{rate, testRand(30)}
	d.draw(mask)
	dropped, sum := 0, 0.0
	for _, v := range mask {
		sum += float64(v)
		if v == 0 {
			dropped++
		}
	}
	// Binomial(100000, 0.3): standard deviation 145; beyond five of them with
	// probability 6e-7. The seed is fixed.
	if math.Abs(float64(dropped)-rate*n) > 725 {
		t.Errorf("%d of %d dropped, expected about %v", dropped, n, rate*n)
	}
	if math.Abs(sum/n-1) > 725/(n*(1-rate))*1.001 {
		t.Errorf("mean of the mask %v, want about 1", sum/n)
	}
}
