package models

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// merged bounds the normaliser of the softmax from below at a small part of its
// price. It is a vocabulary of a few hundred stand-ins: each of the most probable
// tokens stands for itself, each other stand-in for a group of tokens. With
// weights q that sum to 1 over a group, Jensen's inequality gives
//
//	log sum exp(l_w) >= sum q_w l_w + H(q),  l_w = h E_w + b_w,  H(q) = -sum q_w log q_w
//
// whose right side is the logit of one more token, of the vector sum q_w E_w and
// the bias sum q_w b_w + H(q). So the log-sum-exp of the stand-ins is at most that
// of the vocabulary. The inequality holds for any q; equality needs q to be the
// softmax of the group. It is taken at a typical output, and groups hold tokens
// with similar vectors, which changes only how tight the bound is.
type merged struct {
	width   int
	vectors kernels.Packed // [width, stand-ins]
	bias    []float32
	// longest is the largest length of an output vector; offset bounds every bias
	// and the entropies.
	longest, offset float64
}

// On the paper's model, trained for two epochs, these bounds are 0.3 nats below the
// price on average, those of 480 and 240 stand-ins 0.1, those of a single one 0.6.
const (
	soloTokens   = 48 // the most probable tokens, that stand for themselves
	mergedGroups = 96 // groups of the other tokens
	// groupingRounds of Lloyd's algorithm find the groups.
	groupingRounds = 3
)

// mergeVocabulary makes the stand-ins, tight near the output h.
func mergeVocabulary(s *Scorer, h []float32) merged {
	logits := s.logits(h)
	order := make([]int32, len(logits))
	for w := range order {
		order[w] = int32(w)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
	solo := min(soloTokens, len(order))
	groups := groupTokens(s, order[solo:])
	for _, w := range order[:solo] {
		groups = append(groups, []int32{w})
	}
	return newMerged(s, logits, groups)
}

// logits are those of the whole vocabulary after one output.
func (s *Scorer) logits(h []float32) []float32 {
	logits := slices.Clone(s.weights.outputBias)
	kernels.Gemm(false, true, 1, len(logits), len(h), 1, h, len(h), s.weights.output, len(h), 1, logits, len(logits))
	return logits
}

func newMerged(s *Scorer, logits []float32, groups [][]int32) merged {
	width := s.model.config.outputWidth()
	m := merged{width: width, bias: make([]float32, len(groups)), offset: math.Log(float64(len(logits)))}
	vectors := make([]float32, len(groups)*width)
	for g, tokens := range groups {
		m.bias[g] = s.standIn(row(vectors, g, width), logits, tokens)
	}
	kernels.PackB(true, width, len(groups), vectors, width, &m.vectors)
	largest := 0.0
	for w, b := range s.weights.outputBias {
		largest = max(largest, math.Abs(float64(b)))
		m.longest = max(m.longest, kernels.SquaredNorm(row(s.weights.output, w, width)))
	}
	m.longest, m.offset = math.Sqrt(m.longest), m.offset+largest
	return m
}

// standIn sets vector to that of a group's stand-in, and returns its bias.
func (s *Scorer) standIn(vector, logits []float32, tokens []int32) float32 {
	chosen := make([]float32, len(tokens))
	for i, w := range tokens {
		chosen[i] = logits[w]
	}
	total, bias := kernels.LogSumExp(chosen), 0.0
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
	return float32(bias)
}

// groupTokens divides tokens, given from the most probable down, into groups of
// similar output vectors: Lloyd's algorithm from centres spread over the tokens.
func groupTokens(s *Scorer, tokens []int32) [][]int32 {
	if len(tokens) == 0 {
		return nil
	}
	width, count := s.model.config.outputWidth(), min(mergedGroups, len(tokens))
	vectors, centres := make([]float32, len(tokens)*width), make([]float32, count*width)
	gatherRows(vectors, s.weights.output, width, tokens)
	for g := range count {
		copy(row(centres, g, width), row(vectors, g*len(tokens)/count, width))
	}
	var nearest []int
	for range groupingRounds {
		nearest = nearestCentres(vectors, centres, width)
		moveCentres(centres, vectors, width, nearest)
	}
	groups := make([][]int32, count)
	for i, g := range nearest {
		groups[g] = append(groups[g], tokens[i])
	}
	return slices.DeleteFunc(groups, func(g []int32) bool { return len(g) == 0 })
}

// nearestCentres returns the nearest centre of each vector, the first of equals.
func nearestCentres(vectors, centres []float32, width int) []int {
	n, count := len(vectors)/width, len(centres)/width
	// |v-c|^2 is least where v c - |c|^2/2 is largest.
	half := make([]float32, count)
	for g := range half {
		half[g] = float32(kernels.SquaredNorm(row(centres, g, width)) / -2)
	}
	scores := make([]float32, n*count)
	fillRows(scores, half)
	kernels.Gemm(false, true, n, count, width, 1, vectors, width, centres, width, 1, scores, count)
	nearest := make([]int, n)
	for i := range nearest {
		own := row(scores, i, count)
		nearest[i] = max(0, slices.Index(own, kernels.Max(own))) // NaN has no nearest centre
	}
	return nearest
}

// moveCentres puts each centre to the mean of its vectors; one that has none stays.
func moveCentres(centres, vectors []float32, width int, nearest []int) {
	sizes := make([]int, len(centres)/width)
	for _, g := range nearest {
		sizes[g]++
	}
	for g, n := range sizes {
		if n > 0 {
			clear(row(centres, g, width))
		}
	}
	for i, g := range nearest {
		kernels.Axpy(1/float32(sizes[g]), row(vectors, i, width), row(centres, g, width))
	}
}

// roundoff is half a unit in the last place of 1 in float32: the largest relative
// error of one rounding.
const roundoff = 1.0 / (1 << 24)

// margin is how far rounding may lift a lower bound above the log probability
// that LogProbs computes, after an output of the given length. With A the largest
// magnitude that the sum of absolute values of a logit can reach, the vector and
// bias of a stand-in included, and g the number of roundings in a logit, in
// units of roundoff:
//
//	3 g A   the logits of the vocabulary, of the stand-ins, of the target
//	8 A + 8 two log-sum-exps: the difference to the peak, of a logit from its
//	        tile's and of a tile's from the row's, at most 2 A each, and the two
//	        exponentials, at most 2 each; sums are in float64
//	2 A     a stand-in's vector and bias, rounded to float32
//	3 A     the log probability, rounded to float32
//
// to which it adds some for the higher orders.
func (m *merged) margin(length float64) float64 {
	largest := length*m.longest + m.offset
	roundings := float64(m.width + m.width/128 + 8)
	return roundoff * ((3*roundings+16)*largest + 16)
}
