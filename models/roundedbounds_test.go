package models

import (
	"math"
	"testing"
)

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

func TestCloseBoundsOfAnOutputThatIsNotFiniteShowNothing(t *testing.T) {
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
