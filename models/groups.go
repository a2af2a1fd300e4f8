package models

import (
	"slices"

	"coalmine/internal/kernels"
)

// groupingRounds is the number of rounds of Lloyd's algorithm.
const groupingRounds = 3

// groupTokens divides the vocabulary into at most count groups of similar output
// vectors, and returns the group of each token. It uses Lloyd's algorithm from
// centres spread over the vocabulary.
func groupTokens(s *Scorer, count int) []int {
	width, vectors := s.model.config.outputWidth(), s.weights.output
	tokens := len(vectors) / width
	count = min(count, tokens)
	centres := make([]float32, count*width)
	for g := range count {
		copy(row(centres, g, width), row(vectors, g*tokens/count, width))
	}
	var nearest []int
	for range groupingRounds {
		nearest = nearestCentres(vectors, centres, width)
		moveCentres(centres, vectors, width, nearest)
	}
	return nearest
}

// nearestCentres returns the nearest centre of each vector, the first in a tie.
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
		products := row(scores, i, count)
		nearest[i] = max(0, slices.Index(products, kernels.Max(products))) // NaN has no nearest centre
	}
	return nearest
}

// moveCentres moves each centre to the mean of its vectors; a centre without vectors does not move.
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
