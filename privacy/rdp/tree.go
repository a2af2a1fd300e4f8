package rdp

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Participation limits the number and the separation of a user's updates in a training by tree
// aggregation without restarts (Kairouz et al. 2021, Practical and Private (Deep) Learning without
// Sampling or Shuffling, Theorem 4.1 and appendix D). The step updates are the leaves of a binary
// tree, and every node whose leaves are complete is released with its own noise. The training is
// [ZeroConcentrated] with SquaredSensitivity/(2 sigma^2), where sigma is the noise on one node over
// the clip norm. Neighbours are replace-special: a user's updates become zero.
type Participation struct {
	Steps int // updates of the training, 1 or more
	Times int // largest number of updates of a user, 1 or more
	// Separation is the least difference between the numbers of two updates with
	// the user, 1 or more; 1 allows every update.
	Separation int
}

func (p Participation) validate() error {
	switch {
	case p.Steps < 1:
		return fmt.Errorf("tree aggregation over %d steps: expected at least 1", p.Steps)
	case p.Times < 1:
		return fmt.Errorf("tree aggregation with %d participations of a user: expected at least 1", p.Times)
	case p.Separation < 1:
		return fmt.Errorf("tree aggregation with %d steps from one participation to the next: expected at least 1", p.Separation)
	}
	return nil
}

// SquaredSensitivity returns the largest squared L2 norm, in clip norms, of one user's contribution
// to all nodes of the tree together: a node above n updates of the user gets n clip norms, and the
// square of each counts. With one participation it is the number of nodes on the path from a leaf
// to the root. If the search would take too long, the error is ErrTooManyPlacements.
func (p Participation) SquaredSensitivity() (int, error) {
	if err := p.validate(); err != nil {
		return 0, err
	}
	// No more fit, and with every step taken the sum is that of a full tree.
	times := min(p.Times, (p.Steps-1)/p.Separation+1)
	worst := worstTree{separation: p.Separation - 1, known: map[subtree]int{}, left: maxPlacements}
	largest := 0
	for n := 1; n <= times; n++ {
		if largest = max(largest, worst.squares(subtree{size: p.Steps, times: n, reach: p.Separation - 1})); worst.left <= 0 {
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
