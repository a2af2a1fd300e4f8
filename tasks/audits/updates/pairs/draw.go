package pairs

import (
	"fmt"
	"math/rand/v2"

	"coalmine/internal/lists"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/devices"
)

// Update is the user and the round of an update.
type Update struct{ User, Round int32 }

// Side has the updates on one side of pairs, or vectors of users, which have no round.
type Side struct {
	Of  []Update
	Row func(i int) []float32
}

// SideOf returns the updates of a sample that fit.
func SideOf(s *observed.Sample, fits func(*observed.Observation) bool) *Side {
	x, rows := new(Side), []int(nil)
	for i := range s.Of {
		if o := &s.Of[i]; fits(o) {
			x.Of, rows = append(x.Of, Update{int32(o.User), int32(o.Round)}), append(rows, i)
		}
	}
	x.Row = func(i int) []float32 { return s.Row(rows[i]) }
	return x
}

// Sides returns all updates of a sample, and those of seen and of unseen users. Both are empty without unseen
// users.
func Sides(s *observed.Sample) (everyone, seen, unseen *Side) {
	of := func(set devices.Set) *Side {
		return SideOf(s, func(o *observed.Observation) bool { return o.Set == set })
	}
	everyone, unseen = SideOf(s, func(*observed.Observation) bool { return true }), of(devices.Unseen)
	if seen = unseen; len(unseen.Of) > 0 {
		seen = of(devices.Seen)
	}
	return everyone, seen, unseen
}

// IndexPair is a pair of indices into the two sides.
type IndexPair struct {
	A, B int
	Same bool
}

// Comparison is a set of pairs drawn from two sides, which may be equal.
type Comparison struct {
	First, Second *Side
	Drawn         []IndexPair
}

func (c *Comparison) Pairs(score func(a, b int) float64) []Pair {
	return lists.Map(c.Drawn, func(d IndexPair) Pair {
		return Pair{A: c.First.Of[d.A].User, B: c.Second.Of[d.B].User, Score: score(d.A, d.B)}
	})
}

// Draw draws n pairs, n even, of updates of two rounds, with replacement: n/2 updates of the first side, each
// with one of the second side of the same user and one of another. So both kinds of pairs have the same first
// updates. Updates of the first side without both kinds of partner are left out.
func Draw(first, second *Side, n int, rng *rand.Rand) (*Comparison, error) {
	a, b := first.Of, second.Of
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
	c := &Comparison{First: first, Second: second}
	for len(c.Drawn) < n {
		i := anchors[rng.IntN(len(anchors))]
		own := partners.of[a[i].User]
		same := own[DrawFitting(rng, len(own), func(k int) bool { return b[own[k]].Round != a[i].Round })]
		other := DrawFitting(rng, len(b), func(k int) bool { return b[k].User != a[i].User && b[k].Round != a[i].Round })
		c.Drawn = append(c.Drawn, IndexPair{i, same, true}, IndexPair{i, other, false})
	}
	return c, nil
}

// DrawFitting draws uniformly among the numbers below n that fit; one must fit.
func DrawFitting(rng *rand.Rand, n int, fits func(int) bool) int {
	for {
		if k := rng.IntN(n); fits(k) {
			return k
		}
	}
}

// partners counts possible second updates.
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

// count returns the number of the user's updates in other rounds, and of other users'.
func (p *partners) count(u Update) (same, others int) {
	same = len(p.of[u.User]) - p.inRoundOf[u]
	return same, p.all - p.inRound[u.Round] - same
}
