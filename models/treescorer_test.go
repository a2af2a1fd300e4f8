package models

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
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

func TestTreeScorersMatchScorersBitForBit(t *testing.T) {
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
func TestBoundMarginCoversRounding(t *testing.T) {
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

func TestBoundsOfNonFiniteOutputProveNothing(t *testing.T) {
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

func TestTreeScorersRejectBadEdges(t *testing.T) {
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
		must.Say(t, err, c.want)
	}
	if err := tree.Advance(states, states, nil); err == nil {
		t.Error("states advanced in place")
	}
}

// Intervals contain every surprisal, for small and for large weights. Their width is twice the error of a rounded
// logit: a few hundredths of a nat for ordinary weights.
func TestCloseBoundsContainTheExactSurprisal(t *testing.T) {
	t.Parallel()
	eachTransformer(t, wideVocabulary, func(t *testing.T, m *Language) {
		for _, scale := range []float32{0.01, 0.3, 1, 5} {
			rng := testRand(81)
			tree := scaledScorer(t, m, scale, rng).Tabulate().NewTreeScorer()
			states := wanderingStates(t, tree.Scorer(), rng, scoringBlock+20)
			edges := someEdges(tree.Scorer(), rng, states.Len(), 700)
			exact, intervals := make([]float32, len(edges)), make([]Interval, len(edges))
			check(t, tree.LogProbs(states, edges, exact))
			check(t, tree.CloseBounds(states, edges, intervals))
			for i, b := range intervals {
				surprisal := -float64(exact[i])
				if !(b.Low <= surprisal && surprisal <= b.High) {
					t.Fatalf("scale %v: edge %d has a surprisal of %v nats, its bounds are %v", scale, i, surprisal, b)
				}
				if scale <= 1 && b.High-b.Low > 0.1 {
					t.Fatalf("scale %v: edge %d has bounds %v; want them within 0.1 nats", scale, i, b)
				}
			}
		}
	})
}

func TestCloseBoundsOfNonFiniteOutputProveNothing(t *testing.T) {
	t.Parallel()
	eachTransformer(t, wideVocabulary, func(t *testing.T, m *Language) {
		rng := testRand(82)
		s := mustScorer(t, m, wideParams(m, rng))
		tree := s.Tabulate().NewTreeScorer()
		for _, broken := range []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32} {
			states := wanderingStates(t, s, rng, 1)
			states.top()[3] = broken
			interval := make([]Interval, 1)
			check(t, tree.CloseBounds(states, []Edge{{0, 5}}, interval))
			if interval[0].Low > 0 || interval[0].High < math.MaxFloat32 {
				t.Errorf("an output with %v costs %v nats: want bounds that show nothing", broken, interval[0])
			}
		}
	})
}

// Rows fill no block of the kernel, and the last tile no panel.
func TestCloseBoundsDoNotDependOnTheirBatch(t *testing.T) {
	t.Parallel()
	eachTransformer(t, tileWidth+23, func(t *testing.T, m *Language) {
		rng := testRand(83)
		s := mustScorer(t, m, wideParams(m, rng))
		tree, states := s.Tabulate().NewTreeScorer(), wanderingStates(t, s, rng, 29)
		edges := someEdges(s, rng, states.Len(), 60)
		together, alone := make([]Interval, len(edges)), make([]Interval, 1)
		check(t, tree.CloseBounds(states, edges, together))
		for i := range edges {
			check(t, tree.CloseBounds(states, edges[i:i+1], alone))
			if alone[0] != together[i] {
				t.Fatalf("edge %d is bounded by %v alone, by %v with others", i, alone[0], together[i])
			}
		}
	})
}

// For weights of any size a coarse bound is below the surprisal. If all tokens are alike, so that
// they merge into one without a loss, it equals the surprisal except for its error allowance.
func TestACoarseBoundIsBelowTheSurprisal(t *testing.T) {
	t.Parallel()
	for _, alike := range []bool{false, true} {
		for _, scale := range []float32{0.01, 1, 5, 30} {
			rng := testRand(48)
			m := mustNew(t, wideVocabulary, 31, 45)
			params := wideParams(m, rng)
			kernels.Scale(scale, params)
			if alike {
				views := m.layout.views(params)
				fillRows(views.output, slices.Clone(row(views.output, 0, m.config.outputWidth())))
				clear(views.outputBias)
			}
			s := mustScorer(t, m, params)
			tree := s.Tabulate().NewTreeScorer()
			normaliser := normaliserBounds(t, tree, rng)
			n := 300 // edges share exact products, or have quantised ones of their own
			if scale == 1 || scale == 30 {
				n = 2 * coarseParents
			}
			states := wanderingStates(t, s, rng, coarseParents)
			edges, candidates := someEdges(s, rng, states.Len(), n), make([]Candidate, n)
			for i := range candidates {
				candidates[i].Next = int32(rng.IntN(wideVocabulary))
			}
			costs := costsAfter(t, tree, states, edges, candidates)
			tree.remaining = nil
			if looked := tree.pruneBlockCoarsely(states, edges, candidates, 0, math.Inf(1), normaliser); looked != n || len(tree.remaining) != n {
				t.Fatalf("%d of %d edges were looked at, %d left: want all", looked, n, len(tree.remaining))
			}
			for i, surprisal := range costs {
				low := tree.coarseBound(states, edges, candidates, i, normaliser)
				off := kernels.CIFGRoughError + gateSlope*tree.errors[tree.place[i]] + sumError
				allowed := tree.tables.coarse.margin + off*(normaliser.whole.size+tree.tables.coarse.sizes[candidates[i].Next])
				if gap := surprisal - low; gap < 0 || alike && gap > 2*allowed {
					t.Fatalf("alike %v, scale %v: edge %d costs %v nats, the coarse bound is %v; want a gap of 0 to %v", alike, scale, i, surprisal, low, 2*allowed)
				}
			}
		}
	}
}

func TestCoarseBoundsKeepNonFiniteOutputs(t *testing.T) {
	t.Parallel()
	rng := testRand(49)
	s := scaledScorer(t, mustNew(t, wideVocabulary, 8, 12), 1, rng)
	tree := s.Tabulate().NewTreeScorer()
	normaliser := normaliserBounds(t, tree, rng)
	for _, broken := range []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32} {
		states := wanderingStates(t, s, rng, 1)
		states.top()[3] = broken
		tree.pruneCoarsely(states, []Edge{{0, 5}}, []Candidate{{Cost: 1, Next: 7}}, 2, normaliser)
		if len(tree.remaining) != 1 {
			t.Errorf("an edge of an output with %v was pruned", broken)
		}
	}
}

// Coarse bounds stop if they prune next to nothing, and no sooner. Look-ahead stops if
// they prune nothing.
func TestCoarseBoundsStopIfTheyPruneTooLittle(t *testing.T) {
	t.Parallel()
	rng := testRand(50)
	s := scaledScorer(t, mustNew(t, wideVocabulary, 8, 12), 1, rng)
	tree := s.Tabulate().NewTreeScorer()
	normaliser, states := normaliserBounds(t, tree, rng), wanderingStates(t, s, rng, 5)
	const n, enough = 3 * sampleSize, sampleSize / 8
	edges := someEdges(s, rng, states.Len(), n)
	for _, c := range []struct {
		lost, left int // of the sample, and of all
		lookAhead  bool
	}{{0, n, false}, {1, n - 1, true}, {enough - 1, n - enough + 1, true}, {enough, n - 3*enough, true}, {sampleSize, 0, true}} {
		candidates := make([]Candidate, n)
		for i := range candidates {
			candidates[i] = Candidate{Cost: 1, Next: 7}
			if i%sampleSize < c.lost {
				candidates[i].Cost = 1e6
			}
		}
		if lookAhead := tree.pruneCoarsely(states, edges, candidates, 1e3, normaliser); lookAhead != c.lookAhead || len(tree.remaining) != c.left {
			t.Errorf("%d lost of the sample: %d left, look-ahead %v; want %d, %v", c.lost, len(tree.remaining), lookAhead, c.left, c.lookAhead)
		}
	}
}

// someCandidates are those of n edges. After every third more than one token may follow.
func someCandidates(s *Scorer, rng *rand.Rand, n int) []Candidate {
	candidates := make([]Candidate, n)
	for i := range candidates {
		candidates[i] = Candidate{Cost: 3 * rng.Float64(), Next: NoToken}
		if i%3 > 0 {
			candidates[i].Next = int32(rng.IntN(s.model.config.Vocabulary))
		}
	}
	return candidates
}

// The states of a pruned advance equal those of an advance along the remaining edges. About half of
// the edges exceed the limit; if a look-ahead is possible, many of them are pruned.
func TestOnlyEdgesThatExceedTheLimitArePruned(t *testing.T) {
	t.Parallel()
	eachTreeScorer(t, func(t *testing.T, tree *TreeScorer, rng *rand.Rand) {
		s := tree.Scorer()
		const n = 2*scoringBlock + 9
		normaliser := normaliserBounds(t, tree, rng)
		states := wanderingStates(t, s, rng, scoringBlock+20)
		edges, candidates := someEdges(s, rng, states.Len(), n), someCandidates(s, rng, n)
		costs := costsAfter(t, tree, states, edges, candidates)
		limit := slices.Sorted(slices.Values(costs))[n/2] // to the last bit
		var advanced, pruned, chosen States
		check(t, tree.Advance(&advanced, states, edges))
		kept, err := tree.AdvancePruned(&pruned, states, edges, candidates, limit, normaliser)
		check(t, err)
		check(t, chosen.Gather(&advanced, kept))
		for l := range s.layers {
			if !slices.Equal(pruned.memory[l], chosen.memory[l]) || !slices.Equal(pruned.output[l], chosen.output[l]) {
				t.Errorf("states of a pruned advance differ from those of an advance in layer %d", l)
			}
		}
		for i, cost := range costs {
			if !slices.Contains(kept, i) && cost <= limit {
				t.Errorf("edge %d was pruned at a cost of %v; the limit is %v", i, cost, limit)
			}
		}
		if left := n - len(kept); s.looksAhead() && tree.tables.inputs != nil && left < n/8 {
			t.Errorf("only %d of %d edges were pruned, about half exceed the limit", left, n)
		}
	})
}

// costsAfter are the costs of candidates with their next token, if they have one.
func costsAfter(t *testing.T, tree *TreeScorer, states *States, edges []Edge, candidates []Candidate) []float64 {
	t.Helper()
	var advanced States
	check(t, tree.Advance(&advanced, states, edges))
	costs, surprisal := make([]float64, len(candidates)), make([]float32, 1)
	for i, c := range candidates {
		costs[i] = c.Cost
		if c.Next != NoToken {
			check(t, tree.LogProbs(&advanced, []Edge{{i, c.Next}}, surprisal))
			costs[i] += -float64(surprisal[0])
		}
	}
	return costs
}

// For weights of any size the look-ahead bound is below the surprisal. If every merged
// token is one token, it equals the surprisal except for the margin.
func TestALookAheadBoundIsBelowTheSurprisalByTheMargin(t *testing.T) {
	t.Parallel()
	for _, scale := range []float32{0.01, 1, 5, 30} {
		rng := testRand(47)
		s := scaledScorer(t, mustNew(t, emissionSingletons, 31, 45), scale, rng)
		tree := s.Tabulate().NewTreeScorer()
		normaliser := normaliserBounds(t, tree, rng)
		const n = scoringBlock
		states := wanderingStates(t, s, rng, 20)
		edges, candidates := someEdges(s, rng, states.Len(), n), make([]Candidate, n)
		for i := range candidates {
			candidates[i].Next = int32(rng.IntN(emissionSingletons))
		}
		var to States
		to.reserve(states.cells, n)
		tree.emit(&to, states, edges, candidates, 0)
		tree.lookAhead(n, normaliser)
		low := make([]float64, n)
		for i, c := range candidates {
			low[i] = tree.lookAheadBound(i, c.Next, normaliser) - tree.tables.emissionMargin(math.Sqrt(kernels.SquaredNorm(row(tree.emitted, i, 45))))
		}
		for i, surprisal := range costsAfter(t, tree, states, edges, candidates) {
			margin := tree.tables.emissionMargin(math.Sqrt(45))
			if gap := surprisal - low[i]; gap < 0 || gap > 2*margin && low[i] > 0 {
				t.Fatalf("scale %v: edge %d costs %v nats, the look-ahead bound is %v; want a gap of 0 to %v", scale, i, surprisal, low[i], 2*margin)
			}
		}
	}
}

func TestTreeScorersRejectCandidatesThatDoNotFit(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 20, 3, 4)
	tree := mustScorer(t, m, m.Init(testRand(45))).Tabulate().NewTreeScorer()
	normaliser, states := normaliserBounds(t, tree, testRand(46)), tree.Scorer().Start(2)
	for _, c := range []struct {
		candidates []Candidate
		want       string
	}{
		{nil, "the candidates has 0 elements, want 1"},
		{[]Candidate{{0, 20}}, "token 20 next"},
		{[]Candidate{{0, -2}}, "token -2 next"},
	} {
		_, err := tree.AdvancePruned(new(States), states, []Edge{{1, 3}}, c.candidates, 1, normaliser)
		must.Say(t, err, c.want)
	}
}
