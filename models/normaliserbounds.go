package models

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// NormaliserBounds bound the softmax normaliser (the log-partition, log sum exp of all logits) from
// both sides, at a small part of the cost of computing it. The bounds hold after any state. They
// are tight near the typical states given to the constructor, and widen with the distance.
// NormaliserBounds are immutable and safe for concurrent use.
type NormaliserBounds struct {
	// Lower bounds from an output and from an emission (the cell's value before projection).
	ofOutputs, ofEmissions mergedVocabulary
	// emissionVectors are the vectors of ofEmissions multiplied by the projection: [units, merged
	// tokens]. It is empty without look-ahead.
	emissionVectors kernels.Packed
	whole           whole // only with look-ahead
	upper           upperBound
}

// Bounds from outputs are tighter than bounds from emissions. On the paper's model, trained for
// 1,000 steps, and after outputs like the typical ones, the lower bound of a surprisal is 0.04 nats
// too low on average from the output, 0.11 from the emission, and 0.26 by one merged token for the
// whole vocabulary.
const (
	outputSingletons, outputGroups     = 48, 96
	emissionSingletons, emissionGroups = 8, 8
)

// NormaliserBounds returns bounds that are tight near the mean output of the typical states.
func (t *Tables) NormaliserBounds(typical *States) (*NormaliserBounds, error) {
	s := t.scorer
	if err := s.checkStates(typical, typical.Len(), "states"); err != nil {
		return nil, err
	}
	h := make([]float32, s.model.config.outputWidth())
	addRows(h, typical.top())
	kernels.Scale(1/float32(typical.Len()), h)
	logits := s.logits(h)
	order := descending(logits)
	b := &NormaliserBounds{upper: t.newUpperBound(h, logits)}
	var vectors []float32
	b.ofOutputs, _ = newMergedVocabulary(s, logits, divide(order, outputSingletons, outputGroups, t.outputGroupOf))
	b.ofEmissions, vectors = newMergedVocabulary(s, logits, divide(order, emissionSingletons, emissionGroups, t.emissionGroupOf))
	if t.targets != nil {
		units := s.layers[0].units
		kernels.PackB(true, units, len(b.ofEmissions.bias), s.emissionVectors(vectors), units, &b.emissionVectors)
		b.whole = s.newWhole(b.upper.mean, b.upper.merged)
	}
	return b, nil
}

// descending orders tokens by their logit, the highest first, ties by id.
func descending(logits []float32) []int32 {
	order := make([]int32, len(logits))
	for w := range order {
		order[w] = int32(w)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
	return order
}

// logits returns the logits of the whole vocabulary after one output.
func (s *Scorer) logits(h []float32) []float32 {
	logits := slices.Clone(s.weights.outputBias)
	kernels.Gemm(false, true, 1, len(logits), len(h), 1, h, len(h), s.weights.output, len(h), 1, logits, len(logits))
	return logits
}

// divide groups the tokens, given in descending order of probability. Each of the first singletons
// tokens is its own group; groupOf groups the remaining tokens.
func divide(order []int32, singletons, groups int, groupOf []int) [][]int32 {
	divided := make([][]int32, groups, groups+singletons)
	for i, w := range order {
		if i < singletons {
			divided = append(divided, []int32{w})
		} else {
			divided[groupOf[w]] = append(divided[groupOf[w]], w)
		}
	}
	return slices.DeleteFunc(divided, func(g []int32) bool { return len(g) == 0 })
}

// mergedVocabulary bounds the normaliser from below. It is a small vocabulary of merged tokens,
// each for one token or a group of tokens. With weights q that sum to 1 over a group, Jensen's
// inequality gives
//
//	log sum exp(l_w) >= sum q_w l_w + H(q),  l_w = h E_w + b_w,  H(q) = -sum q_w log q_w
//
// The right side is the logit of the merged token, whose vector is sum q_w E_w and
// whose bias is sum q_w b_w + H(q). So the log-sum-exp of the merged tokens is at most the
// log-sum-exp of the vocabulary. The inequality holds for any q, with equality if q is the softmax
// of the group. Here q is that softmax at the typical output, and groups hold tokens with similar
// vectors; both change only how tight the bound is.
type mergedVocabulary struct {
	vectors kernels.Packed // [width, merged tokens]
	bias    []float32
}

// newMergedVocabulary merges each group of tokens, given all logits at the typical output. It also
// returns the vectors, [merged tokens, width].
func newMergedVocabulary(s *Scorer, logits []float32, groups [][]int32) (m mergedVocabulary, vectors []float32) {
	width := s.model.config.outputWidth()
	m.bias, vectors = make([]float32, len(groups)), make([]float32, len(groups)*width)
	for g, tokens := range groups {
		m.bias[g] = float32(s.mergedToken(row(vectors, g, width), logits, tokens))
	}
	kernels.PackB(true, width, len(groups), vectors, width, &m.vectors)
	return m, vectors
}

// mergedToken sets vector to the vector of a group's merged token, and returns its bias.
func (s *Scorer) mergedToken(vector, logits []float32, tokens []int32) (bias float64) {
	chosen := make([]float32, len(tokens))
	for i, w := range tokens {
		chosen[i] = logits[w]
	}
	total := kernels.LogSumExp(chosen)
	sum := make([]float64, len(vector))
	for i, w := range tokens {
		logQ := float64(chosen[i]) - total
		q := math.Exp(logQ)
		bias += q * (float64(s.weights.outputBias[w]) - logQ)
		for j, v := range row(s.weights.output, int(w), len(vector)) {
			sum[j] += q * float64(v)
		}
	}
	for j, v := range sum {
		vector[j] = float32(v)
	}
	return bias
}

// upperBound bounds the normaliser from above. It adds the largest gap in Jensen's inequality to
// the merged token of the whole vocabulary. With q the softmax at the typical output t, and X =
// (h-t)(E_w - mean), which has mean 0 under q,
//
//	log sum exp(l_w) = h mean + bias + log E_q[e^X] <= h mean + bias + E_q[X^2] f(M),
//	f(M) = (e^M - 1 - M)/M^2,  X <= M
//
// (Bennett 1962), as f increases and log(1+x) <= x. E_q[X^2] is at most |h-t|^2 times
// the largest eigenvalue of the vectors' covariance; M is at most |h-t| times the largest |E_w -
// mean|. The gap is negligible while outputs are small, as in an untrained model. It grows without
// bound with the distance from the typical output.
type upperBound struct {
	typical, mean  []float32
	merged         float64 // the bias of the merged token
	bias           float64 // including roundings at the typical output
	spread, radius float64 // upper bounds on the eigenvalue and on the largest distance
	squared        float64 // |t|^2
}

func (t *Tables) newUpperBound(h, logits []float32) upperBound {
	s := t.scorer
	all := make([]int32, len(logits))
	for w := range all {
		all[w] = int32(w)
	}
	c := upperBound{typical: h, mean: make([]float32, len(h)), squared: kernels.SquaredNorm(h)}
	c.merged = s.mergedToken(c.mean, logits, all)
	c.bias = c.merged + t.margin(math.Sqrt(c.squared))
	c.spread, c.radius = s.spread(c.mean, logits)
	return c
}

// spread bounds the largest eigenvalue of the covariance of the output vectors under the softmax of
// the logits, by the Frobenius norm of the covariance, and their largest distance from the mean.
func (s *Scorer) spread(mean, logits []float32) (eigenvalue, distance float64) {
	width, total := len(mean), kernels.LogSumExp(logits)
	deviations := slices.Clone(s.weights.output)
	for w, logit := range logits {
		deviation := row(deviations, w, width)
		kernels.Axpy(-1, mean, deviation)
		distance = max(distance, kernels.SquaredNorm(deviation))
		kernels.Scale(float32(math.Exp((float64(logit)-total)/2)), deviation)
	}
	covariance := make([]float32, width*width)
	kernels.Gemm(true, false, width, width, len(logits), 1, deviations, width, deviations, width, 0, covariance, width)
	// The error of every element is a few hundred roundings of the sum of its absolute values; the
	// norm of the matrix of these sums is at most the trace.
	trace := kernels.SquaredNorm(deviations)
	return math.Sqrt(kernels.SquaredNorm(covariance)) + 1e-4*trace, math.Sqrt(distance) * (1 + 1e-5)
}

// logSum returns an upper bound of the log-sum-exp after the output h, given the square of h.
func (c *upperBound) logSum(h []float32, squared float64) float64 {
	away := max(0, squared-2*kernels.Dot(h, c.typical)+c.squared)
	away += 1e-12 * (squared + c.squared) // the difference may cancel
	return kernels.Dot(h, c.mean) + c.bias + c.spread*away*bennett(c.radius*math.Sqrt(away))
}

// bennett returns (e^m - 1 - m)/m^2, or a little more.
func bennett(m float64) float64 {
	const tiny = 1e-4 // below it (e^m - 1 - m)/m^2 is at most 1/2 + m/4
	if m < tiny {
		return 0.5 + m/4
	}
	return (math.Expm1(m) - m) / (m * m) * (1 + 1e-6)
}

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
