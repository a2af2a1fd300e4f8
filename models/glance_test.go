package models

import (
	"math"
	"slices"
	"testing"

	"coalmine/internal/kernels"
)

// With weights of any size a glimpse stays below the price. Where all tokens are alike,
// so that one stands for them without a loss, it is the price but for the errors that
// it allows for.
func TestAGlimpseIsBelowThePrice(t *testing.T) {
	t.Parallel()
	for _, alike := range []bool{false, true} {
		for _, scale := range []float32{0.01, 1, 5, 30} {
			rng := testRand(48)
			m := mustNew(t, wideVocabulary, 31, 45)
			params := wideParams(m, rng)
			kernels.Scale(scale, params)
			if alike {
				w := m.layout.views(params)
				fillRows(w.output, slices.Clone(row(w.output, 0, m.config.outputWidth())))
				clear(w.outputBias)
			}
			s := mustScorer(t, m, params)
			w := s.Tabulate().NewWalker()
			near := standIns(t, w, rng)
			const n = 300
			states := wanderingStates(t, s, rng, glancedParents)
			extensions, prospects := someExtensions(s, rng, states.Len(), n), make([]Prospect, n)
			for i := range prospects {
				prospects[i].Next = int32(rng.IntN(wideVocabulary))
			}
			costs := costsAfter(t, w, states, extensions, prospects)
			w.likely = nil
			if looked := w.glanceBlock(states, extensions, prospects, 0, math.Inf(1), near); looked != n || len(w.likely) != n {
				t.Fatalf("%d of %d extensions were looked at, %d left: want all", looked, n, len(w.likely))
			}
			for i, price := range costs {
				low := w.glimpse(states, extensions, prospects, i, near)
				off := kernels.CIFGRoughError + gateSlope*w.errors[w.place[i]] + sumError
				allowed := w.tables.glances.margin + off*(near.whole.size+w.tables.glances.sizes[prospects[i].Next])
				if gap := price - low; gap < 0 || alike && gap > 2*allowed {
					t.Fatalf("alike %v, scale %v: extension %d costs %v nats, a glimpse shows %v; want a gap of 0 to %v", alike, scale, i, price, low, 2*allowed)
				}
			}
		}
	}
}

func TestAGlanceNeverLeavesOutWhatIsNotFinite(t *testing.T) {
	t.Parallel()
	rng := testRand(49)
	s := scaledScorer(t, mustNew(t, wideVocabulary, 8, 12), 1, rng)
	w := s.Tabulate().NewWalker()
	near := standIns(t, w, rng)
	for _, broken := range []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32} {
		states := wanderingStates(t, s, rng, 1)
		states.top()[3] = broken
		w.glance(states, []Extension{{0, 5}}, []Prospect{{Spent: 1, Next: 7}}, 2, near)
		if len(w.likely) != 1 {
			t.Errorf("an extension of an output with %v was left out", broken)
		}
	}
}

// Glances stop where they leave out next to nothing, and no sooner; foreseeing where
// they leave out nothing.
func TestGlancesStopWhereTheyDoNotPay(t *testing.T) {
	t.Parallel()
	rng := testRand(50)
	s := scaledScorer(t, mustNew(t, wideVocabulary, 8, 12), 1, rng)
	w := s.Tabulate().NewWalker()
	near, states := standIns(t, w, rng), wanderingStates(t, s, rng, 5)
	const n, enough = 3 * sampleSize, sampleSize / 8
	extensions := someExtensions(s, rng, states.Len(), n)
	for _, c := range []struct {
		lost, left int // of the sample, and of all
		foresee    bool
	}{{0, n, false}, {1, n - 1, true}, {enough - 1, n - enough + 1, true}, {enough, n - 3*enough, true}, {sampleSize, 0, true}} {
		prospects := make([]Prospect, n)
		for i := range prospects {
			prospects[i] = Prospect{Spent: 1, Next: 7}
			if i%sampleSize < c.lost {
				prospects[i].Spent = 1e6
			}
		}
		if foresee := w.glance(states, extensions, prospects, 1e3, near); foresee != c.foresee || len(w.likely) != c.left {
			t.Errorf("%d lost of the sample: %d left, foresee %v; want %d, %v", c.lost, len(w.likely), foresee, c.left, c.foresee)
		}
	}
}
