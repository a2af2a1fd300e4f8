package models

import (
	"fmt"
	"math"

	"coalmine/internal/kernels"
)

// Prospect is what an extension has to live up to: the tokens up to and with the
// extension have spent so many nats, and Next follows it; NoToken if more than one
// token may.
type Prospect struct {
	Spent float64
	Next  int32
}

// NoToken is no token.
const NoToken = -1

// Pursue is Advance along those extensions that may stay within a limit: those
// whose Next costs too little, or not more than is certain, for the sum with
// what was spent to exceed the limit in nats. It returns which these are, in
// ascending order: their states are those of to. The others are not made: their
// costs are bounded before their outputs are known. The slice that it returns is
// overwritten by the next call. near is as in Bounds, for the outputs that the new
// states would have.
func (w *Walker) Pursue(to, from *States, extensions []Extension, prospects []Prospect, limit float64, near *StandIns) ([]int, error) {
	if err := w.checkAdvance(to, from, extensions); err != nil {
		return nil, err
	}
	if err := w.checkProspects(prospects, len(extensions)); err != nil {
		return nil, err
	}
	w.kept = w.kept[:0]
	if w.tables.targets == nil {
		w.kept = upTo(w.kept, 0, len(extensions))
		return w.kept, w.Advance(to, from, extensions)
	}
	w.work.Foreseen += int64(len(extensions))
	foresee := w.glance(from, extensions, prospects, limit, near)
	extensions, prospects = w.likelyOnes(extensions, prospects)
	to.reserve(from.cells, len(extensions))
	for start := 0; start < len(extensions); start += scoringBlock {
		end, at := min(start+scoringBlock, len(extensions)), len(w.kept)
		w.emit(to, from, extensions[start:end], prospects[start:end], at)
		if foresee {
			w.affordable(prospects[start:end], start, limit, near)
			foresee = pays(len(w.kept)-at, end-start)
		} else {
			w.kept = upTo(w.kept, start, end)
		}
		w.close(to, start, at)
		w.project(to, len(w.kept)-at, at)
	}
	to.reserve(from.cells, len(w.kept))
	for i, k := range w.kept {
		w.kept[i] = w.likely[k]
	}
	return w.kept, nil
}

func (w *Walker) checkProspects(prospects []Prospect, extensions int) error {
	if err := checkLength("the prospects", len(prospects), extensions); err != nil {
		return err
	}
	for i, p := range prospects {
		if p.Next != NoToken && (p.Next < 0 || int(p.Next) >= w.tables.scorer.model.config.Vocabulary) {
			return fmt.Errorf("prospect %d has token %d next: want one of %d, or %d for none", i, p.Next, w.tables.scorer.model.config.Vocabulary, NoToken)
		}
	}
	return nil
}

// affordable adds to w.kept those of a block of emissions, the first of which is
// of extension start, that are to be pursued.
func (w *Walker) affordable(prospects []Prospect, start int, limit float64, near *StandIns) {
	w.foresee(len(prospects), near)
	for i, p := range prospects {
		if p.Next == NoToken || !w.exceeds(i, p, limit, near) {
			w.kept = append(w.kept, start+i)
		}
	}
}

// exceeds says whether emission i's prospect is certain to exceed the limit.
func (w *Walker) exceeds(i int, p Prospect, limit float64, near *StandIns) bool {
	emission, low := row(w.emitted, i, w.tables.units), w.foreseen(i, p.Next, near)
	if !(p.Spent+low > limit) {
		return false // whatever the margin, which is dearer
	}
	margin := w.tables.emissionMargin(math.Sqrt(kernels.SquaredNorm(emission)))
	return p.Spent+(low-margin) > limit
}

// foresee computes the logits of the coarse stand-ins for rows of emissions.
func (w *Walker) foresee(rows int, near *StandIns) {
	units, columns := w.tables.units, len(near.coarse.bias)
	w.logits = grow(w.logits, rows*columns)
	kernels.GemmPackedBias(false, rows, w.emitted, units, &near.emitted, near.coarse.bias, w.logits, columns)
	w.work.FLOPs += 2 * float64(rows) * float64(columns) * float64(units)
}

// foreseen is a lower bound of what the token costs after emission i, in nats, but
// for rounding.
func (w *Walker) foreseen(i int, token int32, near *StandIns) float64 {
	t, columns := w.tables, len(near.coarse.bias)
	logit := kernels.Dot(row(w.emitted, i, t.units), row(t.targets, int(token), t.units)) + float64(t.scorer.weights.outputBias[token])
	return kernels.LogSumExp(row(w.logits, i, columns)) - logit
}

// close moves the kept states of a block, whose first extension is number start
// and whose states are to's from at on, and their emissions together.
func (w *Walker) close(to *States, start, at int) {
	units := w.tables.units
	memory := to.memory[0][at*units:]
	for i, k := range w.kept[at:] {
		if from := k - start; from != i {
			copy(row(memory, i, units), row(memory, from, units))
			copy(row(w.emitted, i, units), row(w.emitted, from, units))
		}
	}
}
