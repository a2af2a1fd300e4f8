package models

import (
	"math"

	"coalmine/internal/kernels"
)

// roundOutput rounds the transposed output weights, whose products with outputs are the logits.
func (s *Scorer) roundOutput() *kernels.Rounded {
	width, vocabulary := s.model.config.outputWidth(), s.model.config.Vocabulary
	turned := make([]float32, width*vocabulary)
	kernels.Transpose(turned, vocabulary, s.weights.output, width, vocabulary, width)
	return kernels.RoundB(width, vocabulary, turned, vocabulary)
}

// BoundsClosely reports whether the model is a transformer, so that CloseBounds can be called. The Bounds
// of a recurrent model are close enough.
func (t *Tables) BoundsClosely() bool { return t.output != nil }

// CloseBounds is Bounds with narrow intervals after any state, at about half the cost of LogProbs. It
// bounds the normaliser by the product of rounded 16-bit integers, whose error is bounded. It serves
// transformers: their outputs are far from any typical output, and there NormaliserBounds hardly bound
// from above.
func (ts *TreeScorer) CloseBounds(states *States, edges []Edge, dst []Interval) error {
	return eachBlock(ts, states, edges, dst, ts.boundClosely)
}

// boundClosely bounds the surprisals of edges from the gathered outputs. An error of at most e in every
// logit moves the normaliser by at most e. Adding a bias in float32 rounds once more, in place of a
// merged token's vector and bias in margin.
func (ts *TreeScorer) boundClosely(edges []Edge, dst []Interval) {
	t, rows := ts.tables, len(ts.parents)
	ts.sums, ts.errors = grow(ts.sums, rows), grow(ts.errors, rows)
	ts.rounded.Set(rows, ts.outputs, t.output, ts.errors)
	ts.logits = grow(ts.logits, ts.rounded.Room(tileWidth))
	ts.reset(rows, len(t.scorer.tiles))
	for k := range t.scorer.tiles {
		from, to := tileBounds(t.scorer.model.config.Vocabulary, k)
		kernels.GemmRoundedColumns(&ts.rounded, t.output, from, to, ts.logits, tileWidth)
		for i := range rows {
			logits := row(ts.logits, i, tileWidth)[:to-from]
			kernels.Add(logits, t.scorer.weights.outputBias[from:to])
			ts.add(i, k, logits)
		}
	}
	ts.finish()
	for i := range ts.sums {
		length := math.Sqrt(kernels.SquaredNorm(row(ts.outputs, i, ts.width())))
		off := ts.errors[i] + t.margin(length)
		ts.sums[i] = Interval{ts.logs[i] - off, ts.logs[i] + off}
	}
	ts.boundEdges(edges, dst)
	ts.work.Bounded += int64(rows)
	ts.work.FLOPs += 2 * float64(rows) * float64(t.scorer.model.config.Vocabulary) * float64(ts.width())
}
