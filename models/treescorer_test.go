package models

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// wideVocabulary is merged into singletons and groups of several tokens.
const wideVocabulary = outputSingletons + 2*outputGroups + 77

// eachTreeScorer runs a test on every variant, on layers wider than one sum of a
// product, and without a table of the inputs.
func eachTreeScorer(t *testing.T, test func(t *testing.T, tree *TreeScorer, rng *rand.Rand)) {
	t.Helper()
	run := func(t *testing.T, m *Language) {
		rng := testRand(41)
		test(t, mustScorer(t, m, wideParams(m, rng)).Tabulate().NewTreeScorer(), rng)
	}
	eachVariant(t, wideVocabulary, run)
	eachTransformer(t, wideVocabulary, run)
	t.Run("without a table", func(t *testing.T) {
		t.Parallel()
		rng := testRand(41)
		m := mustNew(t, wideVocabulary, 9, 14)
		tables := mustScorer(t, m, wideParams(m, rng)).Tabulate()
		tables.inputs, tables.coarse = nil, nil
		test(t, tables.NewTreeScorer(), rng)
	})
	for _, kind := range Kinds() {
		t.Run(string(kind)+" wider than a sum", func(t *testing.T) {
			t.Parallel()
			run(t, mustConfigure(t, Config{Kind: kind, Vocabulary: 50, Embedding: 6, Units: 400, Projection: Unprojected, Untied: true, Layers: 2}))
		})
	}
}

// someEdges are n sorted edges, of which several share a state.
func someEdges(s *Scorer, rng *rand.Rand, states, n int) []Edge {
	edges := make([]Edge, n)
	for i := range edges {
		edges[i] = Edge{rng.IntN(states), int32(rng.IntN(s.model.config.Vocabulary))}
	}
	slices.SortFunc(edges, compareEdges)
	return edges
}

func split(edges []Edge) (parents []int, tokens []int32) {
	for _, e := range edges {
		parents, tokens = append(parents, e.Parent), append(tokens, e.Token)
	}
	return parents, tokens
}

func TestTreeScorersDoWhatScorersDoBitForBit(t *testing.T) {
	t.Parallel()
	eachTreeScorer(t, func(t *testing.T, tree *TreeScorer, rng *rand.Rand) {
		s := tree.Scorer()
		const n = 2*scoringBlock + 9
		states := wanderingStates(t, s, rng, scoringBlock+20)
		edges := someEdges(s, rng, states.Len(), n)
		parents, tokens := split(edges)

		var gathered, advanced States
		check(t, gathered.Gather(states, parents))
		want, got := make([]float32, n), make([]float32, n)
		check(t, s.LogProbs(&gathered, tokens, want))
		check(t, tree.LogProbs(states, edges, got))
		if !slices.Equal(got, want) {
			t.Errorf("log probabilities differ")
		}
		check(t, s.Step(&gathered, tokens))
		check(t, tree.Advance(&advanced, states, edges))
		for l := range s.layers {
			if !slices.Equal(advanced.memory[l], gathered.memory[l]) || !slices.Equal(advanced.output[l], gathered.output[l]) {
				t.Errorf("advanced states differ in layer %d", l)
			}
		}
	})
}

// normaliserBounds are tight near states like those of wanderingStates.
func normaliserBounds(t *testing.T, tree *TreeScorer, rng *rand.Rand) *NormaliserBounds {
	t.Helper()
	n, err := tree.tables.NormaliserBounds(wanderingStates(t, tree.Scorer(), rng, 20))
	check(t, err)
	return n
}

func TestBoundsContainTheExactSurprisal(t *testing.T) {
	t.Parallel()
	eachTreeScorer(t, func(t *testing.T, tree *TreeScorer, rng *rand.Rand) {
		s := tree.Scorer()
		normaliser := normaliserBounds(t, tree, rng)
		states := wanderingStates(t, s, rng, 50)
		edges := someEdges(s, rng, states.Len(), 400)
		exact, intervals := make([]float32, len(edges)), make([]Interval, len(edges))
		check(t, tree.LogProbs(states, edges, exact))
		check(t, tree.Bounds(normaliser, states, edges, intervals))
		for i, b := range intervals {
			if surprisal := -float64(exact[i]); !(b.Low <= surprisal && surprisal <= b.High) {
				t.Fatalf("edge %d has a surprisal of %v nats, its bounds are %v", i, surprisal, b)
			}
		}
	})
}

// scaledScorer is a scorer of the model with wide parameters times scale.
func scaledScorer(t *testing.T, m *Language, scale float32, rng *rand.Rand) *Scorer {
	t.Helper()
	params := wideParams(m, rng)
	for i := range params {
		params[i] *= scale
	}
	return mustScorer(t, m, params)
}

// If every merged token is one token, the lower bound equals the surprisal minus the
// margin for rounding: neither too little, whatever the weights, nor too much.
func TestTheMarginOfABoundIsThatOfRounding(t *testing.T) {
	t.Parallel()
	for _, scale := range []float32{0.01, 1, 5, 30} {
		rng := testRand(42)
		s := scaledScorer(t, mustNew(t, outputSingletons, 31, 45), scale, rng)
		tree := s.Tabulate().NewTreeScorer()
		normaliser := normaliserBounds(t, tree, rng)
		states := wanderingStates(t, s, rng, 300)
		edges := someEdges(s, rng, states.Len(), 3000)
		exact, intervals := make([]float32, len(edges)), make([]Interval, len(edges))
		check(t, tree.LogProbs(states, edges, exact))
		check(t, tree.Bounds(normaliser, states, edges, intervals))
		margin := tree.tables.margin(4 * float64(scale) * math.Sqrt(31))
		for i, b := range intervals {
			if gap := -float64(exact[i]) - b.Low; gap < 0 || gap > 2*margin && b.Low > 0 {
				t.Fatalf("scale %v: edge %d costs %v nats, its lower bound is %v; want a gap of 0 to %v", scale, i, -exact[i], b.Low, 2*margin)
			}
		}
	}
}

// At the output for which the groups were made, merging loses nothing, and the
// upper bound meets the lower.
func TestBoundsAreTightAtTheTypicalOutput(t *testing.T) {
	t.Parallel()
	rng := testRand(43)
	m := mustNew(t, wideVocabulary, 8, 12)
	s := mustScorer(t, m, wideParams(m, rng))
	tree, states := s.Tabulate().NewTreeScorer(), wanderingStates(t, s, rng, 1)
	normaliser, err := tree.tables.NormaliserBounds(states)
	check(t, err)
	exact, interval := make([]float32, 1), make([]Interval, 1)
	check(t, tree.LogProbs(states, []Edge{{0, 5}}, exact))
	check(t, tree.Bounds(normaliser, states, []Edge{{0, 5}}, interval))
	if surprisal := -float64(exact[0]); interval[0].Low > surprisal || interval[0].High < surprisal || interval[0].High-interval[0].Low > 1e-3 {
		t.Errorf("the bounds are %v at the typical output, the surprisal is %v", interval[0], surprisal)
	}
}

func TestAnOutputThatIsNotFiniteIsNeverBoundedAway(t *testing.T) {
	t.Parallel()
	rng := testRand(44)
	m := mustNew(t, wideVocabulary, 8, 12)
	params := wideParams(m, rng)
	s := mustScorer(t, m, params)
	tree := s.Tabulate().NewTreeScorer()
	normaliser := normaliserBounds(t, tree, rng)
	for _, broken := range []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32} {
		states := wanderingStates(t, s, rng, 1)
		states.top()[3] = broken
		interval := make([]Interval, 1)
		check(t, tree.Bounds(normaliser, states, []Edge{{0, 5}}, interval))
		if interval[0].Low > 0 || interval[0].High < math.MaxFloat32 {
			t.Errorf("an output with %v costs %v nats: want bounds that show nothing", broken, interval[0])
		}
	}
}

func TestTreeScorersRefuseWhatIsNotSortedOrOutOfRange(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 20, 3, 4)
	s := mustScorer(t, m, m.Init(testRand(45)))
	tree, states := s.Tabulate().NewTreeScorer(), s.Start(2)
	normaliser := normaliserBounds(t, tree, testRand(46))
	for _, c := range []struct {
		edges []Edge
		want  string
	}{
		{[]Edge{{1, 3}, {0, 3}}, "not sorted"},
		{[]Edge{{0, 4}, {0, 3}}, "not sorted"},
		{[]Edge{{2, 3}}, "of state 2"},
		{[]Edge{{0, 20}}, "by token 20"},
	} {
		err := tree.Bounds(normaliser, states, c.edges, make([]Interval, len(c.edges)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.edges, err, c.want)
		}
	}
	if err := tree.Advance(states, states, nil); err == nil {
		t.Error("states advanced in place")
	}
}
