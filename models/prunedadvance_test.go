package models

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/kernels"
)

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

func TestTreeScorersRefuseCandidatesThatDoNotFit(t *testing.T) {
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
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.candidates, err, c.want)
		}
	}
}
