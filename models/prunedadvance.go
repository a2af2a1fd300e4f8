package models

import (
	"fmt"
	"math"

	"coalmine/internal/kernels"
)

// Candidate is the state of branch and bound at an edge. Cost is the cost of the tokens up to and
// including the edge's token, in nats. Next is the token that follows, NoToken if more than one
// may.
type Candidate struct {
	Cost float64
	Next int32
}

// NoToken stands for no token.
const NoToken = -1

// AdvancePruned is Advance along the edges that may stay within a limit, in nats. It
// prunes an edge if a lower bound of its candidate's Cost plus the cost of Next after
// it exceeds the limit; the bound needs no state of the pruned edge. It returns the remaining
// edges, in ascending order; their states are in to. The next call overwrites the slice. normaliser
// is as in Bounds, for the outputs of the new states.
func (ts *TreeScorer) AdvancePruned(to, from *States, edges []Edge, candidates []Candidate, limit float64, normaliser *NormaliserBounds) ([]int, error) {
	if err := ts.checkAdvance(to, from, edges); err != nil {
		return nil, err
	}
	if err := ts.checkCandidates(candidates, len(edges)); err != nil {
		return nil, err
	}
	ts.kept = ts.kept[:0]
	if ts.tables.targets == nil {
		ts.kept = upTo(ts.kept, 0, len(edges))
		return ts.kept, ts.Advance(to, from, edges)
	}
	ts.work.LookedAhead += int64(len(edges))
	lookAhead := ts.pruneCoarsely(from, edges, candidates, limit, normaliser)
	edges, candidates = ts.takeRemaining(edges, candidates)
	to.reserve(from.cells, len(edges))
	for start := 0; start < len(edges); start += scoringBlock {
		end, at := min(start+scoringBlock, len(edges)), len(ts.kept)
		ts.emit(to, from, edges[start:end], candidates[start:end], at)
		if lookAhead {
			ts.affordable(candidates[start:end], start, limit, normaliser)
			lookAhead = pays(len(ts.kept)-at, end-start)
		} else {
			ts.kept = upTo(ts.kept, start, end)
		}
		ts.compact(to, start, at)
		ts.project(to, len(ts.kept)-at, at)
	}
	to.reserve(from.cells, len(ts.kept))
	for i, k := range ts.kept {
		ts.kept[i] = ts.remaining[k]
	}
	return ts.kept, nil
}

func (ts *TreeScorer) checkCandidates(candidates []Candidate, edges int) error {
	if err := checkLength("the candidates", len(candidates), edges); err != nil {
		return err
	}
	for i, c := range candidates {
		if c.Next != NoToken && (c.Next < 0 || int(c.Next) >= ts.tables.scorer.model.config.Vocabulary) {
			return fmt.Errorf("candidate %d has token %d next: want one of %d, or %d for none", i, c.Next, ts.tables.scorer.model.config.Vocabulary, NoToken)
		}
	}
	return nil
}

// affordable adds the edges of a block that may stay within the limit to ts.kept. The emissions are
// the block's; its first edge is number start.
func (ts *TreeScorer) affordable(candidates []Candidate, start int, limit float64, normaliser *NormaliserBounds) {
	ts.lookAhead(len(candidates), normaliser)
	for i, c := range candidates {
		if c.Next == NoToken || !ts.exceeds(i, c, limit, normaliser) {
			ts.kept = append(ts.kept, start+i)
		}
	}
}

// exceeds reports whether emission i's candidate is certain to exceed the limit.
func (ts *TreeScorer) exceeds(i int, c Candidate, limit float64, normaliser *NormaliserBounds) bool {
	emission, low := row(ts.emitted, i, ts.tables.units), ts.lookAheadBound(i, c.Next, normaliser)
	if !(c.Cost+low > limit) {
		return false // for any margin; computing it costs more
	}
	margin := ts.tables.emissionMargin(math.Sqrt(kernels.SquaredNorm(emission)))
	return c.Cost+(low-margin) > limit
}

// lookAhead computes the logits of the merged tokens after a number of emissions.
func (ts *TreeScorer) lookAhead(rows int, normaliser *NormaliserBounds) {
	units, columns := ts.tables.units, len(normaliser.ofEmissions.bias)
	ts.logits = grow(ts.logits, rows*columns)
	kernels.GemmPackedBias(false, rows, ts.emitted, units, &normaliser.emissionVectors, normaliser.ofEmissions.bias, ts.logits, columns)
	ts.work.FLOPs += 2 * float64(rows) * float64(columns) * float64(units)
}

// lookAheadBound returns a lower bound of the token's surprisal after emission i, in
// nats, except for rounding.
func (ts *TreeScorer) lookAheadBound(i int, token int32, normaliser *NormaliserBounds) float64 {
	t, columns := ts.tables, len(normaliser.ofEmissions.bias)
	logit := kernels.Dot(row(ts.emitted, i, t.units), row(t.targets, int(token), t.units)) + float64(t.scorer.weights.outputBias[token])
	return kernels.LogSumExp(row(ts.logits, i, columns)) - logit
}

// compact closes the gaps that pruned edges leave in a block's states and emissions. The block's
// first edge is number start, and its states begin at state at of to.
func (ts *TreeScorer) compact(to *States, start, at int) {
	units, width := ts.tables.units, to.cells[0].memory()
	memory := to.memory[0][at*width:]
	for i, k := range ts.kept[at:] {
		if from := k - start; from != i {
			copy(row(memory, i, width), row(memory, from, width))
			copy(row(ts.emitted, i, units), row(ts.emitted, from, units))
		}
	}
}
