package membership

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"coalmine/internal/lists"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
)

// ranks are the ascending scores of users that trained and of held-out ones.
type ranks struct{ members, heldOut []float64 }

func newRanking(members, heldOut []float64) ranks {
	return ranks{slices.Sorted(slices.Values(members)), slices.Sorted(slices.Values(heldOut))}
}

// resamples is the number of resamples for the interval of an area.
const resamples = 1000

// auc returns the probability that a member has a higher score than a held-out user, ties counting half. For
// the lower end of the interval an unseen member scores below all, and an unseen held-out user above all; for
// the upper end, the opposite.
func (r ranks) auc(stream *rand.Rand) audits.Interval {
	draws := ranking.Resampling{Stream: stream, Groups: []int{len(r.members), len(r.heldOut)}, Resamples: resamples}
	return audits.NewInterval(ranking.Mean(placements(r.members, r.heldOut)), draws.Interval(audits.Confidence, r.area()))
}

// area returns the area as a function of the weights of the members and of the held-out users.
func (r ranks) area() func(weights [][]float64) (low, high float64) {
	n := len(r.heldOut)
	lower, notHigher := make([]int, len(r.members)), make([]int, len(r.members))
	for i, v := range r.members {
		lower[i], notHigher[i] = counts(v, r.heldOut)
	}
	below := make([]float64, n+1) // by number of held-out users
	return func(weights [][]float64) (low, high float64) {
		member, unseen, missed := weights[0], weights[0][len(r.members)], weights[1][n]
		for i, w := range weights[1][:n] {
			below[i+1] = below[i] + w
		}
		for i := range lower {
			low += float64(member[i] * (below[lower[i]] + below[notHigher[i]]) / 2)
		}
		return low, min(1, low+float64((1-unseen)*missed)+unseen) // rounding
	}
}

// counts returns the numbers of ascending values that are lower and not higher.
func counts(v float64, ascending []float64) (lower, notHigher int) {
	return sort.SearchFloat64s(ascending, v), sort.Search(len(ascending), func(j int) bool { return ascending[j] > v })
}

// placements returns, for each value, the share of the others that are lower, ties counting half.
func placements(values, others []float64) []float64 {
	return lists.Map(values, func(v float64) float64 {
		lower, notHigher := counts(v, others)
		return float64(lower+notHigher) / 2 / float64(len(others))
	})
}

// minCompared is the minimum number of users in each group for a difference of areas.
const minCompared = 10

// areaDifference returns the area of scores a minus the area of scores b of the same users, with the interval
// of DeLong, DeLong and Clarke-Pearson (1988): from the variances of the placements of members and of
// held-out users, by Student's t with the degrees of freedom of the smaller group. It is nil with fewer than
// minCompared users in a group.
func areaDifference(membersA, heldOutA, membersB, heldOutB []float64) *audits.Interval {
	m, n := len(membersA), len(heldOutA)
	if min(m, n) < minCompared {
		return nil
	}
	a, b := newRanking(membersA, heldOutA), newRanking(membersB, heldOutB)
	ofMembers, ofHeldOut := placements(membersA, a.heldOut), placements(heldOutA, a.members)
	floats.Sub(ofMembers, placements(membersB, b.heldOut))
	floats.Sub(ofHeldOut, placements(heldOutB, b.members))
	mean, variance := stat.MeanVariance(ofMembers, nil)
	half := audits.StudentT(min(m, n)-1) * math.Sqrt(variance/float64(m)+stat.Variance(ofHeldOut, nil)/float64(n))
	return &audits.Interval{Value: mean, Low: max(-1, mean-half), High: min(1, mean+half)}
}

// falsePositives are the rates at which true positives are measured.
var falsePositives = []float64{0.01, 0.001}

// perFalsePositive is the minimum expected number of false positives at a rate that is estimated.
const perFalsePositive = 10

// needed returns the minimum number of held-out users for a rate of false positives.
func needed(rate float64) int { return int(math.Ceil(perFalsePositive/rate - 1e-9)) }

func (r ranks) rate(falsePositives float64) Rate {
	n := len(r.heldOut)
	found := Rate{FalsePositives: falsePositives, Needed: needed(falsePositives)}
	if n >= found.Needed {
		s := audits.NewShare(r.found(r.allowed(falsePositives)), len(r.members))
		s.Low, s.High = r.rateInterval(falsePositives)
		found.TruePositives = &s
	}
	return found
}

// rateInterval returns the interval of the share of members above the score that a share of all held-out
// users exceeds. The place of that score, by the binomial number of held-out users above it, and the number
// of members above it, by Clopper and Pearson, each have half of the error probability.
func (r ranks) rateInterval(falsePositives float64) (low, high float64) {
	n := len(r.heldOut)
	most := sort.Search(n, func(k int) bool { return audits.BinomialTail(k, n, falsePositives) <= rateTail })
	if fewest := firstHeldOut(n, falsePositives); fewest > 0 {
		low, _ = audits.ClopperPearson(float64(r.found(fewest-1)), float64(len(r.members)), rateTail)
	}
	_, high = audits.ClopperPearson(float64(r.found(most)), float64(len(r.members)), rateTail)
	return low, high
}

// rateTail is a quarter of the error probability.
const rateTail = (1 - audits.Confidence) / 4

// firstHeldOut returns the rank, 1 for the highest, of the held-out score at which the lower end of a rate
// begins, or 0.
func firstHeldOut(n int, falsePositives float64) int {
	return sort.Search(n, func(k int) bool { return 1-audits.BinomialTail(k, n, falsePositives) > rateTail })
}

// allowed returns the number of held-out users above the threshold at a share of false positives.
func (r ranks) allowed(share float64) int { return int(share*float64(len(r.heldOut)) + 1e-9) }

// found returns the number of members above all held-out users except the allowed highest ones.
func (r ranks) found(allowed int) int {
	n := len(r.heldOut)
	if allowed >= n {
		return len(r.members)
	}
	limit := r.heldOut[n-1-allowed]
	return len(r.members) - sort.Search(len(r.members), func(i int) bool { return r.members[i] > limit })
}

// rocCurve returns the share of members found at 0%, 1%, ..., 100% false positives, in [0, 1].
func rocCurve(members, heldOut []float64) []float64 {
	r := newRanking(members, heldOut)
	return lists.Make(101, func(percent int) float64 {
		return float64(r.found(r.allowed(float64(percent)/100))) / float64(len(members))
	})
}
