package membership

import (
	"math"
	"slices"
	"sort"

	"coalmine/tasks/audits"
)

// ranks are the scores of users that trained and of held-out ones, each ascending.
type ranks struct{ members, heldOut []float64 }

func newRanking(members, heldOut []float64) ranks {
	return ranks{slices.Sorted(slices.Values(members)), slices.Sorted(slices.Values(heldOut))}
}

// auc is the probability that a member has a higher score than a held-out user, ties counting
// half, with the interval of Clopper and Pearson for as many independent users as give it the
// variance of DeLong et al. 1988.
func (r ranks) auc() AUC {
	below, above := placements(r.members, r.heldOut), placements(r.heldOut, r.members)
	a := AUC{Value: mean(below)}
	spread := variance(below)/float64(len(below)) + variance(above)/float64(len(above))
	a.Low, a.High = audits.RatioInterval(a.Value, spread, min(len(below), len(above)))
	return a
}

// placements are, of each value, the share of the others that are lower, ties counting half.
func placements(values, others []float64) []float64 {
	shares := make([]float64, len(values))
	for i, v := range values {
		lower := sort.SearchFloat64s(others, v)
		notHigher := sort.Search(len(others), func(j int) bool { return others[j] > v })
		shares[i] = float64(lower+notHigher) / 2 / float64(len(others))
	}
	return shares
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// variance has one less than the number of values in the divisor; 0 of a single one.
func variance(values []float64) float64 {
	m, squares := mean(values), 0.0
	for _, v := range values {
		squares += float64((v - m) * (v - m))
	}
	return squares / float64(max(1, len(values)-1))
}

// falsePositives are the rates at which true positives are told.
var falsePositives = []float64{0.01, 0.001}

// perFalsePositive is how many false positives a rate must leave room for to be estimated.
const perFalsePositive = 10

// needed is the number of held-out users from which on a rate of false positives is estimated.
func needed(rate float64) int { return int(math.Ceil(perFalsePositive/rate - 1e-9)) }

// rate is that of true positives where so many held-out users, or fewer, are taken for members.
func (r ranks) rate(falsePositives float64) Rate {
	found := Rate{FalsePositives: falsePositives, Needed: needed(falsePositives)}
	if len(r.heldOut) >= found.Needed {
		found.TruePositives = new(audits.NewShare(r.found(falsePositives), len(r.members)))
	}
	return found
}

// found is how many members have a score above those of all held-out users but the highest ones,
// which are at most the share of them.
func (r ranks) found(share float64) int {
	n := len(r.heldOut)
	allowed := int(share*float64(n) + 1e-9)
	if allowed >= n {
		return len(r.members)
	}
	// The highest score that may not be taken for a member's.
	limit := r.heldOut[n-1-allowed]
	return len(r.members) - sort.Search(len(r.members), func(i int) bool { return r.members[i] > limit })
}

// rocCurve is the share of members that are found, at each whole percent of false positives,
// 0 and 100 among them, in [0, 1].
func rocCurve(members, heldOut []float64) []float64 {
	r := newRanking(members, heldOut)
	curve := make([]float64, 101)
	for percent := range curve {
		curve[percent] = float64(r.found(float64(percent)/100)) / float64(len(members))
	}
	return curve
}
