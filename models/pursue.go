package models

import (
	"fmt"
	"math"

	"coalmine/internal/kernels"
)

// Prospect is what an edge has to live up to: the tokens up to and with the
// edge have spent so many nats, and Next follows it; NoToken if more than one
// token may.
type Prospect struct {
	Spent float64
	Next  int32
}

// NoToken is no token.
const NoToken = -1

// Pursue is Advance along those edges that may stay within a limit: those
// whose Next costs too little, or not more than is certain, for the sum with
// what was spent to exceed the limit in nats. It returns which these are, in
// ascending order: their states are those of to. The others are not made: their
// costs are bounded before their outputs are known. The slice that it returns is
// overwritten by the next call. normaliser is as in Bounds, for the outputs that the new
// states would have.
func (ts *TreeScorer) Pursue(to, from *States, edges []Edge, prospects []Prospect, limit float64, normaliser *NormaliserBounds) ([]int, error) {
	if err := ts.checkAdvance(to, from, edges); err != nil {
		return nil, err
	}
	if err := ts.checkProspects(prospects, len(edges)); err != nil {
		return nil, err
	}
	ts.kept = ts.kept[:0]
	if ts.tables.targets == nil {
		ts.kept = upTo(ts.kept, 0, len(edges))
		return ts.kept, ts.Advance(to, from, edges)
	}
	ts.work.Foreseen += int64(len(edges))
	foresee := ts.glance(from, edges, prospects, limit, normaliser)
	edges, prospects = ts.likelyOnes(edges, prospects)
	to.reserve(from.cells, len(edges))
	for start := 0; start < len(edges); start += scoringBlock {
		end, at := min(start+scoringBlock, len(edges)), len(ts.kept)
		ts.emit(to, from, edges[start:end], prospects[start:end], at)
		if foresee {
			ts.affordable(prospects[start:end], start, limit, normaliser)
			foresee = pays(len(ts.kept)-at, end-start)
		} else {
			ts.kept = upTo(ts.kept, start, end)
		}
		ts.close(to, start, at)
		ts.project(to, len(ts.kept)-at, at)
	}
	to.reserve(from.cells, len(ts.kept))
	for i, k := range ts.kept {
		ts.kept[i] = ts.likely[k]
	}
	return ts.kept, nil
}

func (ts *TreeScorer) checkProspects(prospects []Prospect, edges int) error {
	if err := checkLength("the prospects", len(prospects), edges); err != nil {
		return err
	}
	for i, p := range prospects {
		if p.Next != NoToken && (p.Next < 0 || int(p.Next) >= ts.tables.scorer.model.config.Vocabulary) {
			return fmt.Errorf("prospect %d has token %d next: want one of %d, or %d for none", i, p.Next, ts.tables.scorer.model.config.Vocabulary, NoToken)
		}
	}
	return nil
}

// affordable adds to ts.kept those of a block of emissions, the first of which is
// of edge start, that are to be pursued.
func (ts *TreeScorer) affordable(prospects []Prospect, start int, limit float64, normaliser *NormaliserBounds) {
	ts.foresee(len(prospects), normaliser)
	for i, p := range prospects {
		if p.Next == NoToken || !ts.exceeds(i, p, limit, normaliser) {
			ts.kept = append(ts.kept, start+i)
		}
	}
}

// exceeds says whether emission i's prospect is certain to exceed the limit.
func (ts *TreeScorer) exceeds(i int, p Prospect, limit float64, normaliser *NormaliserBounds) bool {
	emission, low := row(ts.emitted, i, ts.tables.units), ts.foreseen(i, p.Next, normaliser)
	if !(p.Spent+low > limit) {
		return false // whatever the margin, which is dearer
	}
	margin := ts.tables.emissionMargin(math.Sqrt(kernels.SquaredNorm(emission)))
	return p.Spent+(low-margin) > limit
}

// foresee computes the logits of the merged tokens for rows of emissions.
func (ts *TreeScorer) foresee(rows int, normaliser *NormaliserBounds) {
	units, columns := ts.tables.units, len(normaliser.ofEmissions.bias)
	ts.logits = grow(ts.logits, rows*columns)
	kernels.GemmPackedBias(false, rows, ts.emitted, units, &normaliser.emissionVectors, normaliser.ofEmissions.bias, ts.logits, columns)
	ts.work.FLOPs += 2 * float64(rows) * float64(columns) * float64(units)
}

// foreseen is a lower bound of what the token costs after emission i, in nats, but
// for rounding.
func (ts *TreeScorer) foreseen(i int, token int32, normaliser *NormaliserBounds) float64 {
	t, columns := ts.tables, len(normaliser.ofEmissions.bias)
	logit := kernels.Dot(row(ts.emitted, i, t.units), row(t.targets, int(token), t.units)) + float64(t.scorer.weights.outputBias[token])
	return kernels.LogSumExp(row(ts.logits, i, columns)) - logit
}

// close moves the kept states of a block, whose first edge is number start
// and whose states are to's from at on, and their emissions together.
func (ts *TreeScorer) close(to *States, start, at int) {
	units := ts.tables.units
	memory := to.memory[0][at*units:]
	for i, k := range ts.kept[at:] {
		if from := k - start; from != i {
			copy(row(memory, i, units), row(memory, from, units))
			copy(row(ts.emitted, i, units), row(ts.emitted, from, units))
		}
	}
}
