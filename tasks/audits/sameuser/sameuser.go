// Package sameuser measures how well a score tells whether two updates come from one user
// (Orekondy et al. 2018, sections 4.3 and 6): as many pairs of one user as of two, ranked by
// the score.
package sameuser

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
)

// Pair is a pair of updates of different rounds, with its score.
type Pair struct {
	// A and B are the users; the pair is of one where they are equal.
	A, B int32
	// Score is higher the likelier the two are one. It is not NaN.
	Score float64
}

// same reports whether both are one user.
func (p *Pair) same() bool { return p.A == p.B }

// Estimate is a number with its interval.
type Estimate struct {
	Value float64 `json:"value"`
	// Low and High bound the middle 95% of the values that resampled users give.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Measurement is how well pairs are told.
type Measurement struct {
	// Pairs were scored, half of them, or fewer where there are no more, of one user.
	Pairs int `json:"pairs"`
	Same  int `json:"same"`
	// AP is the average precision: the sum over thresholds of (R_n - R_(n-1)) P_n. By
	// chance it is about Same / Pairs.
	AP Estimate `json:"ap"`
	// AUC is the area under the receiver operating characteristic: the probability that a
	// pair of one user has the higher score, ties counting half. By chance it is 0.5.
	AUC Estimate `json:"auc"`
}

// Row is a row of tables: what an attack has told of some pairs.
func (m *Measurement) Row(attack, of string) audits.Attack {
	return audits.Attack{
		Attack: attack, Of: of, Items: new(int64(m.Pairs)), AP: m.AP.Value, APLow: &m.AP.Low, APHigh: &m.AP.High,
		Chance: audits.PairChance, Factor: m.AP.Value / audits.PairChance, FactorLow: new(m.AP.Low / audits.PairChance), FactorHigh: new(m.AP.High / audits.PairChance),
		AUC: &m.AUC.Value,
	}
}

// resamples is the number of bootstrap samples.
const resamples = 1000

// AveragePrecision is that of pairs, which it sorts by their scores. It is NaN without one of
// one user.
func AveragePrecision(pairs []Pair) float64 {
	sortByScore(pairs)
	ap, _ := rank(pairs, func(*Pair) float64 { return 1 })
	return ap
}

// Curve is the precision where the shares 1/steps, 2/steps, ... of the pairs of one user are
// found, from the highest scores down; pairs are sorted by it. It is nil without a pair of one
// user.
func Curve(pairs []Pair, steps int) (precisions []float64) {
	sortByScore(pairs)
	total := 0
	for i := range pairs {
		if pairs[i].same() {
			total++
		}
	}
	found := 0
	for i := range pairs {
		if pairs[i].same() {
			found++
		}
		if i+1 < len(pairs) && pairs[i+1].Score == pairs[i].Score {
			continue
		}
		for len(precisions) < steps && found*steps >= (len(precisions)+1)*total && total > 0 {
			precisions = append(precisions, float64(found)/float64(i+1))
		}
	}
	return precisions
}

func sortByScore(pairs []Pair) {
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
}

// Measure ranks pairs by their scores, which it sorts. Its intervals are of a bootstrap over
// users: each is drawn a number of times, and a pair of two counts as often as the product
// says (Owen and Eckles 2012). number tells the measurements of one experiment apart.
func Measure(pairs []Pair, seed uint64, number int) Measurement {
	sortByScore(pairs)
	m := Measurement{Pairs: len(pairs)}
	for i := range pairs {
		if pairs[i].same() {
			m.Same++
		}
	}
	m.AP.Value, m.AUC.Value = rank(pairs, func(*Pair) float64 { return 1 })
	m.bootstrap(pairs, seed, number)
	return m
}

// bootstrap fills in the intervals. Samples without a pair of one user, or of two, say
// nothing and are left out.
func (m *Measurement) bootstrap(pairs []Pair, seed uint64, number int) {
	pairs, users := numbered(pairs)
	draws := ranking.Resampling{Stream: seeds.Stream(seed, seeds.PairBootstrap, uint64(number)), Users: users, Resamples: resamples}
	var aucs []float64
	aps := draws.Statistics(func(drawn []int) float64 {
		ap, auc := rank(pairs, counted(drawn))
		if !math.IsNaN(auc) {
			aucs = append(aucs, auc)
		}
		return ap
	})
	slices.Sort(aucs)
	m.AP.bound(aps)
	m.AUC.bound(aucs)
}

// counted weighs a pair by how often its users were drawn.
func counted(drawn []int) func(*Pair) float64 {
	weights := make([]float64, len(drawn))
	for _, user := range drawn {
		weights[user]++
	}
	return func(p *Pair) float64 {
		if p.same() {
			return weights[p.A]
		}
		return weights[p.A] * weights[p.B]
	}
}

// bound sets the interval by the ascending values of samples; where none says anything,
// nothing is known.
func (e *Estimate) bound(sorted []float64) {
	e.Low, e.High = 0, 1
	if len(sorted) > 0 {
		i := ranking.Percentile(sorted, audits.Confidence)
		e.Low, e.High = i.Low, i.High
	}
}

// numbered are the pairs with their users numbered from 0, and how many there are.
func numbered(pairs []Pair) (renamed []Pair, users int) {
	var all []int32
	for i := range pairs {
		all = append(all, pairs[i].A, pairs[i].B)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	number := map[int32]int32{}
	for i, user := range all {
		number[user] = int32(i)
	}
	for _, p := range pairs {
		renamed = append(renamed, Pair{number[p.A], number[p.B], p.Score})
	}
	return renamed, len(all)
}

// rank computes the average precision and the area under the receiver operating
// characteristic of pairs in the order of falling scores, each weighed. Pairs of one score
// count together. Both are NaN without a pair of each kind.
func rank(pairs []Pair, weigh func(*Pair) float64) (ap, auc float64) {
	var same, others float64 // so far
	for i := 0; i < len(pairs); {
		var s, o float64 // of this score
		for score := pairs[i].Score; i < len(pairs) && pairs[i].Score == score; i++ {
			if w := weigh(&pairs[i]); pairs[i].same() {
				s += w
			} else {
				o += w
			}
		}
		auc += float64(o * (same + s/2))
		same, others = same+s, others+o
		if s > 0 {
			ap += float64(s * (same / (same + others)))
		}
	}
	return ap / same, auc / (same * others)
}
