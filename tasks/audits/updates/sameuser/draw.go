package sameuser

import (
	"fmt"
	"math/rand/v2"
)

// Update is an update as far as pairs are drawn by it: whose, and of which round.
type Update struct{ User, Round int32 }

// Drawn is a pair: an update of the first list and one of the second, by their places.
type Drawn struct {
	A, B int
	Same bool
}

// Draw draws n pairs, n even, of an update of a and one of b, always of two rounds, with
// replacement: n/2 times one of a, with one of b of the same user and one of another. So pairs
// of one user and of two have the same updates on one side. Updates of a that have no partner
// of either kind are left out. The two lists may be one.
func Draw(a, b []Update, n int, rng *rand.Rand) ([]Drawn, error) {
	partners := newPartners(b)
	var anchors []int
	for i, u := range a {
		if same, others := partners.count(u); same > 0 && others > 0 {
			anchors = append(anchors, i)
		}
	}
	if len(anchors) == 0 {
		return nil, fmt.Errorf("of %d updates and %d none can be paired with one of its own user and one of another, both of another round; train and record more rounds, or more devices in each", len(a), len(b))
	}
	var drawn []Drawn
	for len(drawn) < n {
		i := anchors[rng.IntN(len(anchors))]
		own := partners.of[a[i].User]
		same := own[draw(rng, len(own), func(k int) bool { return b[own[k]].Round != a[i].Round })]
		other := draw(rng, len(b), func(k int) bool { return b[k].User != a[i].User && b[k].Round != a[i].Round })
		drawn = append(drawn, Drawn{i, same, true}, Drawn{i, other, false})
	}
	return drawn, nil
}

// draw draws one of n numbers that fit, of which there is one.
func draw(rng *rand.Rand, n int, fits func(int) bool) int {
	for {
		if k := rng.IntN(n); fits(k) {
			return k
		}
	}
}

// partners says who could stand second in a pair.
type partners struct {
	all       int
	of        map[int32][]int // by user
	inRound   map[int32]int
	inRoundOf map[Update]int
}

func newPartners(list []Update) *partners {
	p := &partners{len(list), map[int32][]int{}, map[int32]int{}, map[Update]int{}}
	for i, u := range list {
		p.of[u.User] = append(p.of[u.User], i)
		p.inRound[u.Round]++
		p.inRoundOf[u]++
	}
	return p
}

// count says how many of the user there are in other rounds, and how many of others.
func (p *partners) count(u Update) (same, others int) {
	same = len(p.of[u.User]) - p.inRoundOf[u]
	return same, p.all - p.inRound[u.Round] - same
}
