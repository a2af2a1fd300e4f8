package correlated

import "math/bits"

// Tree is binary tree aggregation without restarts (Kairouz et al. 2021). The rounds are the
// leaves of a tree. Every node whose leaves are complete has noise of its own; the noise
// on a sum over the leaves of a node is estimated from it and from those below it, with the
// least variance (Honaker 2015). Between rounds there is a buffer for each complete subtree.
type Tree struct{}

var _ Strategy = Tree{}

// Validate implements Strategy: there is but one tree.
func (Tree) Validate() error { return nil }

// SquaredSensitivity implements Strategy. Of each level of the tree it takes the worst placement
// for that level alone, so that it is an upper bound: exact for one participation. The exact
// value, rdp.Participation.SquaredSensitivity, takes far longer.
func (Tree) SquaredSensitivity(p Participation) (float64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	squared := 0.0
	for level := range bits.Len(uint(p.Rounds)) {
		size := 1 << level
		// Participations are as many as can be below as few nodes as can be.
		most, left := Most(size, p.Separation), p.times()
		full := min(p.Rounds/size, left/most)
		squared += float64(full) * float64(most) * float64(most)
		if full < p.Rounds/size {
			rest := float64(left - full*most)
			squared += float64(rest * rest)
		}
	}
	return squared, nil
}

// Errors implements Strategy.
func (Tree) Errors(rounds int) []float64 {
	out := make([]float64, rounds)
	for t := range out {
		variance := 1.0 // of the estimate for a node of the level
		for left, level := t+1, 0; left > 0; left, level = left/2, level+1 {
			if left%2 == 1 {
				out[t] += variance
			}
			own := treeWeight(level + 1)
			variance = float64(own*own) + float64(2*(1-own)*(1-own)*variance)
		}
	}
	return out
}

// treeWeight is that of a node's own noise in the estimate for it; the rest is that of the sum
// of the estimates for the two nodes below: 1 / (2 - 2^-level).
func treeWeight(level int) float64 {
	leaves := float64(uint64(1) << min(level, 62))
	return leaves / (2*leaves - 1)
}

// Buffers implements Strategy.
func (Tree) Buffers(rounds int) int { return bits.Len(uint(rounds)) }

// Noise implements Strategy. The buffers are the estimates for the complete subtrees before the
// round, the largest first. The noise on the round's update is what the estimates grow by.
func (Tree) Noise(round int, buffers [][]float32, independent Independent) ([]float64, [][]float32, error) {
	node, err := independent(0)
	if err != nil {
		return nil, nil, err
	}
	if err := checkBuffers(round, buffers, bits.OnesCount(uint(round-1)), len(node)); err != nil {
		return nil, nil, err
	}
	before := make([]float64, len(node)) // the estimates that are replaced
	for level := 1; round%(1<<level) == 0; level++ {
		own, err := independent(uint64(level))
		if err != nil {
			return nil, nil, err
		}
		last := len(buffers) - 1
		weight := treeWeight(level)
		for i, v := range buffers[last] {
			before[i] += float64(v)
			node[i] = float64(weight*own[i]) + float64((1-weight)*(node[i]+float64(v)))
		}
		buffers = buffers[:last]
	}
	kept := make([]float32, len(node))
	for i, v := range node {
		kept[i] = float32(v)
		node[i] = float64(kept[i]) - before[i]
	}
	return node, append(buffers, kept), nil
}
