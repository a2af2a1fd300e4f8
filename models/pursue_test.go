package models

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/kernels"
)

// someProspects follow edges: of every third more than one token may.
func someProspects(s *Scorer, rng *rand.Rand, n int) []Prospect {
	prospects := make([]Prospect, n)
	for i := range prospects {
		prospects[i] = Prospect{Spent: 3 * rng.Float64(), Next: NoToken}
		if i%3 > 0 {
			prospects[i].Next = int32(rng.IntN(s.model.config.Vocabulary))
		}
	}
	return prospects
}

// Pursuing makes the states that advancing makes, but for
// those that would exceed the limit, of which it leaves many out where it can
// foresee them.
func TestOnlyWhatExceedsTheLimitIsNotPursued(t *testing.T) {
	t.Parallel()
	eachTreeScorer(t, func(t *testing.T, tree *TreeScorer, rng *rand.Rand) {
		s := tree.Scorer()
		const n = 2*scoringBlock + 9
		normaliser := normaliserBounds(t, tree, rng)
		states := wanderingStates(t, s, rng, scoringBlock+20)
		edges, prospects := someEdges(s, rng, states.Len(), n), someProspects(s, rng, n)
		costs := costsAfter(t, tree, states, edges, prospects)
		limit := slices.Sorted(slices.Values(costs))[n/2] // to the last bit
		var advanced, pursued, chosen States
		check(t, tree.Advance(&advanced, states, edges))
		kept, err := tree.Pursue(&pursued, states, edges, prospects, limit, normaliser)
		check(t, err)
		check(t, chosen.Gather(&advanced, kept))
		for l := range s.layers {
			if !slices.Equal(pursued.memory[l], chosen.memory[l]) || !slices.Equal(pursued.output[l], chosen.output[l]) {
				t.Errorf("pursued states differ from advanced ones in layer %d", l)
			}
		}
		for i, cost := range costs {
			if !slices.Contains(kept, i) && cost <= limit {
				t.Errorf("edge %d was not pursued for a cost of %v; the limit is %v", i, cost, limit)
			}
		}
		if left := n - len(kept); s.foresees() && tree.tables.inputs != nil && left < n/8 {
			t.Errorf("only %d of %d edges were left out, about half exceed the limit", left, n)
		}
	})
}

// costsAfter are what edges have cost with their next token: nothing more
// where that is open.
func costsAfter(t *testing.T, tree *TreeScorer, states *States, edges []Edge, prospects []Prospect) []float64 {
	t.Helper()
	var advanced States
	check(t, tree.Advance(&advanced, states, edges))
	costs, price := make([]float64, len(prospects)), make([]float32, 1)
	for i, p := range prospects {
		costs[i] = p.Spent
		if p.Next != NoToken {
			check(t, tree.LogProbs(&advanced, []Edge{{i, p.Next}}, price))
			costs[i] += -float64(price[0])
		}
	}
	return costs
}

// With weights of any size what is foreseen stays below the price, and where every
// merged token is one token it is the price but for the margin.
func TestWhatIsForeseenIsBelowThePriceByTheMargin(t *testing.T) {
	t.Parallel()
	for _, scale := range []float32{0.01, 1, 5, 30} {
		rng := testRand(47)
		s := scaledScorer(t, mustNew(t, emissionSingletons, 31, 45), scale, rng)
		tree := s.Tabulate().NewTreeScorer()
		normaliser := normaliserBounds(t, tree, rng)
		const n = scoringBlock
		states := wanderingStates(t, s, rng, 20)
		edges, prospects := someEdges(s, rng, states.Len(), n), make([]Prospect, n)
		for i := range prospects {
			prospects[i].Next = int32(rng.IntN(emissionSingletons))
		}
		var to States
		to.reserve(states.cells, n)
		tree.emit(&to, states, edges, prospects, 0)
		tree.foresee(n, normaliser)
		low := make([]float64, n)
		for i, p := range prospects {
			low[i] = tree.foreseen(i, p.Next, normaliser) - tree.tables.emissionMargin(math.Sqrt(kernels.SquaredNorm(row(tree.emitted, i, 45))))
		}
		for i, price := range costsAfter(t, tree, states, edges, prospects) {
			margin := tree.tables.emissionMargin(math.Sqrt(45))
			if gap := price - low[i]; gap < 0 || gap > 2*margin && low[i] > 0 {
				t.Fatalf("scale %v: edge %d costs %v nats, %v are foreseen; want a gap of 0 to %v", scale, i, price, low[i], 2*margin)
			}
		}
	}
}

func TestTreeScorersRefuseProspectsThatDoNotFit(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 20, 3, 4)
	tree := mustScorer(t, m, m.Init(testRand(45))).Tabulate().NewTreeScorer()
	normaliser, states := normaliserBounds(t, tree, testRand(46)), tree.Scorer().Start(2)
	for _, c := range []struct {
		prospects []Prospect
		want      string
	}{
		{nil, "the prospects has 0 elements, want 1"},
		{[]Prospect{{0, 20}}, "token 20 next"},
		{[]Prospect{{0, -2}}, "token -2 next"},
	} {
		_, err := tree.Pursue(new(States), states, []Edge{{1, 3}}, c.prospects, 1, normaliser)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.prospects, err, c.want)
		}
	}
}
