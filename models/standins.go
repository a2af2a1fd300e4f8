package models

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// StandIns bound what tokens cost after outputs like those of some typical
// states, at a small part of the price: they bound the normaliser of the softmax,
// from both sides. The further an output is from the typical ones, the wider the
// bounds; they hold for any. StandIns are immutable and safe for concurrent use.
type StandIns struct {
	fine, coarse merged
	// emitted are the vectors of coarse, carried back through the projection:
	// [units, stand-ins]. Only with foresight.
	emitted kernels.Packed
	whole   whole // only with foresight
	ceiling ceiling
}

// Fine stand-ins bound outputs, coarse ones emissions. On the paper's model,
// trained for 1,000 steps, and after outputs like the typical ones, the fine
// bounds from below are 0.04 nats below the price on average and the coarse ones
// 0.11, those of a single stand-in 0.26.
const (
	fineSolos, fineGroups     = 48, 96
	coarseSolos, coarseGroups = 8, 8
)

// StandIns makes bounds that are tight near the mean output of some states.
func (t *Tables) StandIns(typical *States) (*StandIns, error) {
	s := t.scorer
	if err := s.checkStates(typical, typical.Len(), "states"); err != nil {
		return nil, err
	}
	h := make([]float32, s.model.config.outputWidth())
	addRows(h, typical.top())
	kernels.Scale(1/float32(typical.Len()), h)
	logits := s.logits(h)
	order := make([]int32, len(logits))
	for w := range order {
		order[w] = int32(w)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
	in := &StandIns{ceiling: t.newCeiling(h, logits)}
	var vectors []float32
	in.fine, _ = newMerged(s, logits, divide(order, fineSolos, fineGroups, t.fine))
	in.coarse, vectors = newMerged(s, logits, divide(order, coarseSolos, coarseGroups, t.coarse))
	if t.targets != nil {
		units := s.layers[0].units
		kernels.PackB(true, units, len(in.coarse.bias), s.emissionVectors(vectors), units, &in.emitted)
		in.whole = s.newWhole(in.ceiling.mean, in.ceiling.merged)
	}
	return in, nil
}

// logits are those of the whole vocabulary after one output.
func (s *Scorer) logits(h []float32) []float32 {
	logits := slices.Clone(s.weights.outputBias)
	kernels.Gemm(false, true, 1, len(logits), len(h), 1, h, len(h), s.weights.output, len(h), 1, logits, len(logits))
	return logits
}

// divide makes groups of the tokens, given from the most probable down: the first
// solos alone, the others by their group.
func divide(order []int32, solos, groups int, groupOf []int) [][]int32 {
	divided := make([][]int32, groups, groups+solos)
	for i, w := range order {
		if i < solos {
			divided = append(divided, []int32{w})
		} else {
			divided[groupOf[w]] = append(divided[groupOf[w]], w)
		}
	}
	return slices.DeleteFunc(divided, func(g []int32) bool { return len(g) == 0 })
}

// merged is a vocabulary of few stand-ins, each for a token or for a group of
// them. With weights q that sum to 1 over a group, Jensen's inequality gives
//
//	log sum exp(l_w) >= sum q_w l_w + H(q),  l_w = h E_w + b_w,  H(q) = -sum q_w log q_w
//
// whose right side is the logit of one more token, of the vector sum q_w E_w and
// the bias sum q_w b_w + H(q). So the log-sum-exp of the stand-ins is at most that
// of the vocabulary. The inequality holds for any q; equality needs q to be the
// softmax of the group. It is taken at the typical output, and groups hold tokens
// with similar vectors, which changes only how tight the bound is.
type merged struct {
	vectors kernels.Packed // [width, stand-ins]
	bias    []float32
}

// newMerged makes the stand-ins of groups of tokens with the given logits, and
// returns their vectors, too: [stand-ins, width].
func newMerged(s *Scorer, logits []float32, groups [][]int32) (m merged, vectors []float32) {
	width := s.model.config.outputWidth()
	m.bias, vectors = make([]float32, len(groups)), make([]float32, len(groups)*width)
	for g, tokens := range groups {
		m.bias[g] = float32(s.standIn(row(vectors, g, width), logits, tokens))
	}
	kernels.PackB(true, width, len(groups), vectors, width, &m.vectors)
	return m, vectors
}

// standIn sets vector to that of a group's stand-in, and returns its bias.
func (s *Scorer) standIn(vector, logits []float32, tokens []int32) (bias float64) {
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

// ceiling bounds the normaliser from above: by the stand-in of the whole
// vocabulary, and what Jensen's inequality loses at most. With q the softmax at
// the typical output t, and X = (h-t)(E_w - mean), which has mean 0 under q,
//
//	log sum exp(l_w) = h mean + bias + log E_q[e^X] <= h mean + bias + E_q[X^2] f(M),
//	f(M) = (e^M - 1 - M)/M^2,  X <= M
//
// (Bennett 1962): f increases, and log(1+x) <= x. E_q[X^2] is at most |h-t|^2 times
// the largest eigenvalue of the vectors' covariance, M at most |h-t| times the
// largest |E_w - mean|. While the outputs of a model are small, as in an untrained
// one, that is next to nothing; far from the typical output it is without bound.
type ceiling struct {
	typical, mean  []float32
	merged         float64 // the bias of the stand-in
	bias           float64 // roundings at the typical output included
	spread, radius float64 // at least that eigenvalue, and that largest distance
	squared        float64 // |t|^2
}

func (t *Tables) newCeiling(h, logits []float32) ceiling {
	s := t.scorer
	all := make([]int32, len(logits))
	for w := range all {
		all[w] = int32(w)
	}
	c := ceiling{typical: h, mean: make([]float32, len(h)), squared: kernels.SquaredNorm(h)}
	c.merged = s.standIn(c.mean, logits, all)
	c.bias = c.merged + t.margin(math.Sqrt(c.squared))
	c.spread, c.radius = s.spread(c.mean, logits)
	return c
}

// spread bounds the largest eigenvalue of the covariance of the output vectors
// under the softmax of the logits, by the Frobenius norm of the covariance, and
// their largest distance from the mean.
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
	// Every element is off by a few hundred roundings of the sum of its absolute
	// values; the norm of the matrix of these sums is at most the trace.
	trace := kernels.SquaredNorm(deviations)
	return math.Sqrt(kernels.SquaredNorm(covariance)) + 1e-4*trace, math.Sqrt(distance) * (1 + 1e-5)
}

// logSum is at least the log-sum-exp after the output h, whose square is given.
func (c *ceiling) logSum(h []float32, squared float64) float64 {
	away := max(0, squared-2*kernels.Dot(h, c.typical)+c.squared)
	away += 1e-12 * (squared + c.squared) // cancelled in the difference
	return kernels.Dot(h, c.mean) + c.bias + c.spread*away*bennett(c.radius*math.Sqrt(away))
}

// bennett is (e^m - 1 - m)/m^2, or a little more.
func bennett(m float64) float64 {
	const tiny = 1e-4 // the series is shorter by m/24 there
	if m < tiny {
		return 0.5 + m/4
	}
	return (math.Expm1(m) - m) / (m * m) * (1 + 1e-6)
}
