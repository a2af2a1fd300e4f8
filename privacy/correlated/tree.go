package correlated

import "math/bits"

// Tree is binary tree aggregation without restarts (Kairouz et al. 2021). The rounds are the leaves
// of a tree. Every node whose leaves are complete has its own noise; the noise on a sum over the
// leaves of a node is estimated from the noise of the node and of the nodes below it, with the
// least variance (Honaker 2015). Between rounds there is a buffer for each complete subtree.
type Tree struct{}

var _ Strategy = Tree{}

// Validate implements Strategy: a tree has no parameters.
func (Tree) Validate() error { return nil }

// SquaredSensitivity implements Strategy. It uses the worst placement for each level separately: an
// upper bound, exact for one participation. The exact value, rdp.Participation.SquaredSensitivity,
// takes far longer to compute.
func (Tree) SquaredSensitivity(p Participation) (float64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	squared := 0.0
	for level := range bits.Len(uint(p.Rounds)) {
		size := 1 << level
		// Concentrate the participations below as few nodes as possible.
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

func (Tree) Errors(rounds int) []float64 {
	out := make([]float64, rounds)
	for t := range out {
		variance := 1.0 // variance of the estimate for a node of this level
		for left, level := t+1, 0; left > 0; left, level = left/2, level+1 {
			if left%2 == 1 {
				out[t] += variance
			}
			weight := treeWeight(level + 1)
			variance = float64(weight*weight) + float64(2*(1-weight)*(1-weight)*variance)
		}
	}
	return out
}

// treeWeight returns the weight of a node's own noise in the estimate for it, 1 / (2 - 2^-level);
// the sum of the estimates for the two nodes below has the remaining weight.
func treeWeight(level int) float64 {
	leaves := float64(uint64(1) << min(level, 62))
	return leaves / (2*leaves - 1)
}

func (Tree) Buffers(rounds int) int { return bits.Len(uint(rounds)) }

// Noise implements Strategy. The buffers are the estimates for the complete subtrees before the
// round, largest first. The noise on the round's update is the growth of the estimates.
func (Tree) Noise(round int, buffers [][]float32, independent Independent) ([]float64, [][]float32, error) {
	node, err := independent(0)
	if err != nil {
		return nil, nil, err
	}
	if err := checkBuffers(round, buffers, bits.OnesCount(uint(round-1)), len(node)); err != nil {
		return nil, nil, err
	}
	before := make([]float64, len(node)) // the replaced estimates
	for level := 1; round%(1<<level) == 0; level++ {
		noise, err := independent(uint64(level))
		if err != nil {
			return nil, nil, err
		}
		last := len(buffers) - 1
		weight := treeWeight(level)
		for i, v := range buffers[last] {
			before[i] += float64(v)
			node[i] = float64(weight*noise[i]) + float64((1-weight)*(node[i]+float64(v)))
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
