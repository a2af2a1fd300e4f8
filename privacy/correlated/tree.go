package correlated

import (
	"errors"
	"math"
	"math/bits"
)

// Tree is binary tree aggregation without restarts (Kairouz et al. 2021). The rounds are the leaves
// of a tree. Every node whose leaves are complete has its own noise; the noise on a sum over the
// leaves of a node is estimated from the noise of the node and of the nodes below it, with the
// least variance (Honaker 2015). Between rounds there is a buffer for each complete subtree.
type Tree struct{}

var _ Strategy = Tree{}

// Validate implements Strategy: a tree has no parameters.
func (Tree) Validate() error { return nil }

// SquaredSensitivity implements Strategy. It uses the worst placement for each level separately: an
// upper bound, exact for one participation. The exact value, WorstSquares, takes far longer to compute.
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

// WorstSquares returns the exact squared sensitivity (Kairouz et al. 2021, Theorem 4.1 and appendix
// D): the largest squared L2 norm, in clip norms, of one user's contribution to all nodes together. A
// node above n updates of the user gets n clip norms, and the square of each counts. With one
// participation it is the number of nodes on the path from a leaf to the root. If the search would
// take too long, the error is ErrTooManyPlacements.
func (Tree) WorstSquares(p Participation) (int, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	worst := worstTree{separation: p.Separation - 1, known: map[subtree]int{}, left: maxPlacements}
	largest := 0
	for n := 1; n <= p.times(); n++ {
		if largest = max(largest, worst.squares(subtree{size: p.Rounds, times: n, reach: p.Separation - 1})); worst.left <= 0 {
			return 0, ErrTooManyPlacements
		}
	}
	return largest, nil
}

// ErrTooManyPlacements means that a user's updates have too many possible placements in a tree to
// find the worst.
var ErrTooManyPlacements = errors.New("too many placements of a user's updates in the tree")

// Limits of the search: about a second and 100 MB.
const (
	maxPlacements = 1 << 24
	maxSubtrees   = 1 << 20
)

// subtree is a run of leaves with a number of participations of the user.
type subtree struct {
	size, times int
	start       int // leaves at the beginning that are not the user's
	// reach is the least distance from the end of the run to the user's next update: with a reach
	// of separation, the last leaf may be the user's.
	reach int
}

// worstTree finds the worst places of a user's updates by dynamic programming
// over the subtrees and the free leaves around them.
type worstTree struct {
	separation int // leaves between two updates of the user
	known      map[subtree]int
	left       int // remaining divisions of participations to try
}

// impossible is the value of a subtree that has no room for its participations.
const impossible = math.MinInt / 4

// squares is the largest sum of squares over the complete nodes of the subtree.
func (w *worstTree) squares(t subtree) int {
	switch complete := t.size&(t.size-1) == 0; {
	case t.times == 0:
		return 0
	case t.start+(w.separation+1)*t.times > t.size+t.reach:
		return impossible
	case t.times == 1 && complete:
		return bits.Len(uint(t.size)) // at any position
	}
	if value, ok := w.known[t]; ok {
		return value
	}
	value := w.split(t)
	if w.known[t] = value; len(w.known) > maxSubtrees {
		w.left = 0
	}
	return value
}

// split tries all ways to divide the participations between the largest complete subtree that is
// smaller than the run and the remaining leaves.
func (w *worstTree) split(t subtree) int {
	left := 1 << (bits.Len(uint(t.size-1)) - 1)
	right := t.size - left
	best := max(
		w.squares(subtree{left, t.times, t.start, min(w.separation, t.reach+right)}),
		w.squares(subtree{right, t.times, max(0, t.start-left), t.reach}),
	)
	for onRight := 1; onRight < t.times; onRight++ {
		for free := 0; free <= min(w.separation, right-1) && w.left > 0; free++ {
			w.left--
			before := w.squares(subtree{left, t.times - onRight, t.start, free})
			if before < 0 {
				continue // less room does not fit either
			}
			best = max(best, before+w.squares(subtree{right, onRight, free, t.reach}))
		}
	}
	if best < 0 {
		return impossible
	}
	if left == right { // the node above all leaves is complete
		best += t.times * t.times
	}
	return best
}
