package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/kernels"
	"coalmine/internal/must"
)

const testSeparator = 3

// pairVariants are encoder-decoders of every recurrent kind, at sizes that no kernel likes.
func pairVariants(vocabulary int) []Config {
	var all []Config
	for _, kind := range []Kind{CIFGLSTM, LSTM, GRU} {
		all = append(all,
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 5, Units: 7, Separator: testSeparator},
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 3, Units: 6, Projection: Unprojected, Untied: true, Layers: 2, Separator: testSeparator},
			Config{Kind: kind, Vocabulary: vocabulary, Embedding: 4, Units: 6, Projection: 3, Untied: true, Layers: 3, Separator: testSeparator},
		)
	}
	return all
}

func eachPairVariant(t *testing.T, vocabulary int, test func(t *testing.T, m *Language)) {
	t.Helper()
	for _, c := range pairVariants(vocabulary) {
		t.Run(fmt.Sprintf("%s layers=%d", c.Kind, c.layers()), func(t *testing.T) {
			t.Parallel()
			test(t, mustConfigure(t, c))
		})
	}
}

// pairOf draws a pair with given numbers of tokens before the separator and after it. The
// target may contain the separator again.
func pairOf(rng *rand.Rand, vocabulary, source, target int) []int32 {
	pair := make([]int32, source+1+target)
	for i := range pair {
		if pair[i] = int32(rng.IntN(vocabulary)); i < source && pair[i] == testSeparator {
			pair[i]++
		}
	}
	pair[source] = testSeparator
	return pair
}

func mixedPairs(rng *rand.Rand, vocabulary, n, longest int) [][]int32 {
	pairs := make([][]int32, n)
	for i := range pairs {
		pairs[i] = pairOf(rng, vocabulary, 1+rng.IntN(longest), 1+rng.IntN(longest))
	}
	return pairs
}

// somePairs differ in the orders of their sources and of their targets by length.
func somePairs(rng *rand.Rand, vocabulary int) [][]int32 {
	return [][]int32{pairOf(rng, vocabulary, 1, 4), pairOf(rng, vocabulary, 5, 2), pairOf(rng, vocabulary, 3, 4), pairOf(rng, vocabulary, 3, 1)}
}

func TestPairGradientMatchesFiniteDifferences(t *testing.T) {
	t.Parallel()
	eachPairVariant(t, 11, func(t *testing.T, m *Language) {
		rng := testRand(71)
		params, pairs := wideParams(m, rng), somePairs(rng, 11)
		loss, gradient := mustGradient(t, m.NewTrainer(), params, pairs)
		if loss.Tokens != 4+2+4+1 {
			t.Errorf("%d targets, want those after the separators, 11", loss.Tokens)
		}
		if want := newReference(m, widen(params)).meanLoss(pairs); !near(loss.Mean(), want, want, 1e-5) {
			t.Errorf("mean loss %v, reference %v", loss.Mean(), want)
		}
		checkDerivatives(t, m, params, gradient, pairs, every)
	})
}

func TestTheGradientOfPairsWithDropoutEqualsFiniteDifferences(t *testing.T) {
	t.Parallel()
	eachPairVariant(t, 11, func(t *testing.T, m *Language) {
		rng := testRand(72)
		params, pairs := wideParams(m, rng), somePairs(rng, 11)
		trainer := m.NewTrainer()
		check(t, trainer.UseDropout(0.4, testRand(73)))
		loss, gradient := mustGradient(t, trainer, params, pairs)
		wide := widen(params)
		r, masks := newReference(m, wide), testRand(73)
		sources, targets := dividePairs(pairs, testSeparator, nil, nil)
		r.encoder.mask = drawMasks(m, 0.4, masks, sources)
		r.mask = drawMasks(m, 0.4, masks, targets)
		if want := r.meanLoss(pairs); !near(loss.Mean(), want, want, 1e-5) {
			t.Fatalf("mean loss %v, reference %v", loss.Mean(), want)
		}
		compareSome(t, m, r, rng, wide, pairs, gradient)
	})
}

func TestClippedSumOfPairsMatchesSingleGradients(t *testing.T) {
	t.Parallel()
	eachPairVariant(t, 17, func(t *testing.T, m *Language) {
		for seed := range uint64(5) {
			rng := testRand(seed)
			compareClipped(t, m, wideParams(m, rng), mixedPairs(rng, 17, 1+rng.IntN(9), 9))
		}
	})
}

// A target is scored alike token by token and together with others, and as it was trained.
func TestTheScorerOfPairsEqualsItsTrainerAndTheReference(t *testing.T) {
	t.Parallel()
	eachPairVariant(t, tileWidth+9, func(t *testing.T, m *Language) {
		rng := testRand(74)
		params := wideParams(m, rng)
		scorer, pairs := mustScorer(t, m, params), mixedPairs(rng, m.config.Vocabulary, scoringBlock+30, 6)
		means, err := scorer.MeanLosses(pairs)
		check(t, err)
		var want Tally
		for i, pair := range pairs {
			var alone Tally
			for _, lp := range feedPair(t, scorer, pair) {
				want.add(lp, false, false)
				alone.add(lp, false, false)
			}
			if mean := alone.Loss / float64(alone.Tokens); means[i] != mean {
				t.Fatalf("pair %d: mean loss %v, token by token %v", i, means[i], mean)
			}
		}
		evaluation, err := scorer.Evaluate(pairs, nil)
		check(t, err)
		if evaluation.All.Loss != want.Loss || evaluation.All.Tokens != want.Tokens {
			t.Errorf("evaluation %+v, one by one %+v", evaluation.All, want)
		}
		loss, _ := mustGradient(t, m.NewTrainer(), params, pairs)
		if !near(loss.Sum, want.Loss, want.Loss, 1e-6) {
			t.Errorf("trainer %v, scorer %v", loss.Sum, want.Loss)
		}
		if ref := newReference(m, widen(params)).meanLoss(pairs[:9]); !near(meanOf(pairs[:9], means), ref, ref, 1e-5) {
			t.Errorf("mean loss %v, reference %v", meanOf(pairs[:9], means), ref)
		}
	})
}

func meanOf(pairs [][]int32, means []float64) float64 {
	sum, targets := 0.0, 0
	for i, pair := range pairs {
		n := len(pair) - 1 - slices.Index(pair, testSeparator)
		sum, targets = sum+float64(n)*means[i], targets+n
	}
	return sum / float64(targets)
}

// feedPair scores the target of a pair token by token.
func feedPair(t *testing.T, s *Scorer, pair []int32) (logProbs []float32) {
	t.Helper()
	states, one := s.Start(1), make([]float32, 1)
	for i, token := range pair[:len(pair)-1] {
		check(t, s.Step(states, []int32{token}))
		if states.reading[0] {
			continue
		}
		check(t, s.LogProbs(states, pair[i+1:i+2], one))
		logProbs = append(logProbs, one[0])
	}
	return logProbs
}

// Sources of several lengths are in one batch: some states have met the separator when
// others have not.
func TestStatesOfPairsDoNotDependOnTheirBatch(t *testing.T) {
	t.Parallel()
	eachPairVariant(t, 29, func(t *testing.T, m *Language) {
		rng := testRand(75)
		scorer := mustScorer(t, m, wideParams(m, rng))
		const n, length = 41, 9
		pairs := make([][]int32, n)
		for i := range pairs {
			source := 1 + rng.IntN(length-1)
			pairs[i] = pairOf(rng, 29, source, length-source)
		}
		states, next := scorer.Start(n), make([]int32, n)
		for at := range length {
			for i, pair := range pairs {
				next[i] = pair[at]
			}
			check(t, scorer.Step(states, next))
		}
		together, alone := make([]float32, n*29), make([]float32, 29)
		check(t, scorer.LogProbRows(states, together))
		for i, pair := range pairs {
			state := scorer.Start(1)
			for _, token := range pair[:length] {
				check(t, scorer.Step(state, []int32{token}))
			}
			check(t, scorer.LogProbRows(state, alone))
			if !slices.Equal(row(together, i, 29), alone) {
				t.Fatalf("pair %d differs among others", i)
			}
		}
	})
}

// A tree of targets begins after the source, and is scored like any other.
func TestATreeOfTargetsIsScoredLikeItsSequences(t *testing.T) {
	t.Parallel()
	eachPairVariant(t, 31, func(t *testing.T, m *Language) {
		rng := testRand(76)
		scorer := mustScorer(t, m, wideParams(m, rng))
		pair := pairOf(rng, 31, 4, 3)
		want, states := feedPair(t, scorer, pair), scorer.Start(1)
		for _, token := range pair[:5] {
			check(t, scorer.Step(states, []int32{token}))
		}
		tree, got := scorer.Tabulate().NewTreeScorer(), make([]float32, 1)
		for i, token := range pair[5:] {
			edge := []Edge{{Token: token}}
			check(t, tree.LogProbs(states, edge, got))
			if got[0] != want[i] {
				t.Errorf("target %d: %v in a tree, %v alone", i, got[0], want[i])
			}
			next := new(States)
			check(t, tree.Advance(next, states, edge))
			states = next
		}
	})
}

// Copies of states keep in mind whether they have met the separator.
func TestStatesOfASourceStayStatesOfASource(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, pairVariants(9)[0])
	scorer := mustScorer(t, m, wideParams(m, testRand(77)))
	states := scorer.Start(2)
	check(t, scorer.Step(states, []int32{4, testSeparator}))
	var gathered States
	check(t, gathered.Gather(states, []int{1, 0}))
	set := scorer.Start(1)
	check(t, set.Set(0, states, 1))
	if gathered.reading[0] || !gathered.reading[1] || set.reading[0] {
		t.Errorf("reading %v and %v, want false, true and false", gathered.reading, set.reading)
	}
	edges := []Edge{{0, 4}, {1, 4}}
	for _, err := range []error{
		scorer.LogProbs(states, []int32{4, 4}, make([]float32, 2)),
		scorer.LogProbRows(states, make([]float32, 18)),
		scorer.Tabulate().NewTreeScorer().LogProbs(states, edges, make([]float32, 2)),
		scorer.Tabulate().NewTreeScorer().Advance(new(States), states, edges),
	} {
		must.Say(t, err, "feed it the separator 3 first")
	}
}

func TestPairsAreChecked(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, pairVariants(9)[0])
	params := wideParams(m, testRand(78))
	for _, sentence := range [][]int32{{1, 2, 4}, {testSeparator, 4}, {1, 2, testSeparator}} {
		_, trained := m.NewTrainer().Gradient(params, [][]int32{{1, testSeparator, 2}, sentence}, make([]float32, len(params)))
		_, clipped := m.NewTrainer().ClippedSum(params, [][]int32{{1, testSeparator, 2}, sentence}, clipTo(1), make([]float32, len(params)), make([]float64, 2))
		_, evaluated := mustScorer(t, m, params).Evaluate([][]int32{{1, testSeparator, 2}, sentence}, nil)
		for _, err := range []error{trained, clipped, evaluated} {
			must.Say(t, err, "sentence 1 is not a pair")
		}
	}
	for want, c := range map[string]Config{
		"separator 9: want 1 to 8": {Kind: LSTM, Vocabulary: 9, Embedding: 2, Units: 2, Separator: 9},
		"want a recurrent kind":    {Kind: Conv, Vocabulary: 9, Embedding: 2, Units: 2, Separator: 3},
	} {
		_, err := New(c)
		must.Say(t, err, want)
	}
}

// The tensors of the decoder have the positions of a plain model.
func TestEncoderTensorsFollowPlainModel(t *testing.T) {
	t.Parallel()
	for _, c := range pairVariants(9) {
		m := mustConfigure(t, c)
		c.Separator = 0
		plain := mustConfigure(t, c)
		tensors := m.Tensors()
		if !slices.EqualFunc(tensors[:len(plain.Tensors())], plain.Tensors(), func(a, b Tensor) bool {
			return a.String() == b.String() && a.Offset == b.Offset
		}) {
			t.Errorf("%v does not begin with %v", tensors, plain.Tensors())
		}
		for _, tensor := range tensors[len(plain.Tensors()):] {
			if !strings.HasPrefix(tensor.Name, EncoderPrefix) {
				t.Errorf("%v is behind the decoder", tensor)
			}
		}
		initial, decoder := m.Init(testRand(5)), plain.Init(testRand(5))
		if !slices.Equal(initial[:len(decoder)], decoder) {
			t.Error("the decoder's initial values are not those of a plain model")
		}
		for _, tensor := range tensors {
			if strings.HasSuffix(tensor.Name, "bias") {
				continue
			}
			if largest(tensor.View(initial)) == 0 {
				t.Errorf("%v begins with zeros", tensor)
			}
		}
	}
}

func TestTrainingOnPairsLearnsToCopy(t *testing.T) {
	t.Parallel()
	rng := testRand(79)
	m := mustConfigure(t, Config{Kind: LSTM, Vocabulary: 9, Embedding: 8, Units: 24, Projection: Unprojected, Untied: true, Separator: testSeparator})
	params := m.Init(rng)
	trainer, gradient := m.NewTrainer(), make([]float32, len(params))
	var loss Loss
	for range 400 {
		pairs := make([][]int32, 16)
		for i := range pairs {
			a, b := int32(4+rng.IntN(5)), int32(4+rng.IntN(5))
			pairs[i] = []int32{2, a, b, testSeparator, b, a}
		}
		var err error
		loss, err = trainer.Gradient(params, pairs, gradient)
		check(t, err)
		kernels.Axpy(-1, gradient, params)
	}
	if loss.Mean() > 0.2 { // knowing nothing of the source it would be log 5 = 1.6
		t.Errorf("mean loss %v after training", loss.Mean())
	}
}

func TestPairsTrainAndScoreToTheSameBytesOnEveryKernelSet(t *testing.T) {
	rng := testRand(80)
	m := mustConfigure(t, Config{Kind: GRU, Vocabulary: 300, Embedding: 12, Units: 20, Layers: 2, Separator: testSeparator})
	params, pairs := wideParams(m, rng), mixedPairs(rng, 300, 20, 9)
	var first []float32
	var evaluated Evaluation
	for i, set := range kernels.Sets() {
		restore, err := kernels.ForceSet(set)
		check(t, err)
		_, gradient := mustGradient(t, m.NewTrainer(), params, pairs)
		evaluation, err := mustScorer(t, m, params).Evaluate(pairs, nil)
		restore()
		check(t, err)
		if i == 0 {
			first, evaluated = gradient, evaluation
		}
		if !slices.Equal(gradient, first) || evaluation != evaluated || math.IsNaN(evaluation.All.Loss) {
			t.Errorf("%s gives other bytes than %s", set, kernels.Sets()[0])
		}
	}
}

func TestTheTrainerOfPairsAllocatesNothingOnceWarm(t *testing.T) {
	if build.Race {
		t.Skip("the race detector allocates")
	}
	rng := testRand(81)
	m := mustConfigure(t, pairVariants(40)[1])
	params, pairs := wideParams(m, rng), mixedPairs(rng, 40, 12, 9)
	trainer, gradient := m.NewTrainer(), make([]float32, m.Parameters())
	step := func() {
		_, err := trainer.Gradient(params, pairs, gradient)
		check(t, err)
	}
	step()
	if n := testing.AllocsPerRun(10, step); n > 0 {
		t.Errorf("%v allocations a step", n)
	}
}
