package models

import (
	"math"
	"slices"
	"testing"

	"coalmine/internal/kernels"
)

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

func TestACoarseBoundNeverPrunesWhatIsNotFinite(t *testing.T) {
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
func TestCoarseBoundsStopWhereTheyDoNotPay(t *testing.T) {
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
