// Package sameuser measures how well a score tells whether two updates come from one user
// (Orekondy et al. 2018, sections 4.3 and 6): as many pairs of one user as of two, ranked by
// the score.
package sameuser

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
)

// Pair is a pair of updates of different rounds, with its score.
type Pair struct {
	// A and B are the users; the pair is of one where they are equal.
	A, B int32
	// Score is higher the likelier the two are one.
	Score float64
}

// same reports whether both are one user.
func (p *Pair) same() bool { return p.A == p.B }

// Estimate is a number with its interval.
type Estimate struct {
	Value float64 `json:"value"`
	// Low and High are its interval over users (ranking.Resampling).
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Bounded is the same for limits and measures.
func (e *Estimate) Bounded() audits.Bounded { return audits.Bounded(*e) }

// Percent is the estimate for people: "76.0 (70.0 to 80.0)".
func (e *Estimate) Percent() string { return fmt.Sprintf("%.1f (%s)", 100*e.Value, e.Ends()) }

// Ends are those of the interval: "70.0 to 80.0".
func (e *Estimate) Ends() string { return fmt.Sprintf("%.1f to %.1f", 100*e.Low, 100*e.High) }

// Measurement is how well pairs are told.
type Measurement struct {
	// Pairs were scored, half of them, or fewer where there are no more, of one user.
	Pairs int `json:"pairs"`
	Same  int `json:"same"`
	// Users stand in the pairs: those over whom the intervals are.
	Users int `json:"users"`
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

// resamples of the intervals over users.
const resamples = 1000

// AveragePrecision is that of pairs, which it sorts by their scores. It is NaN without one of
// one user. No score may be NaN.
func AveragePrecision(pairs []Pair) (float64, error) {
	if err := errNaN(pairs); err != nil {
		return 0, err
	}
	sortByScore(pairs)
	ap, _ := rank(pairs, unweighted, ends{}, total(pairs, unweighted, ends{}))
	return ap, nil
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

// errNaN names the first pair whose score has no rank.
func errNaN(pairs []Pair) error {
	for _, p := range pairs {
		if math.IsNaN(p.Score) {
			return fmt.Errorf("the score of two updates, of users %d and %d, is NaN; expected a number: the attack's network has diverged, or the updates have", p.A, p.B)
		}
	}
	return nil
}

func sortByScore(pairs []Pair) {
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
}

// Measure ranks pairs by their scores, which it sorts; none may be NaN. number tells the
// measurements of one experiment apart.
func Measure(pairs []Pair, seed uint64, number int) (Measurement, error) {
	if err := errNaN(pairs); err != nil {
		return Measurement{}, err
	}
	sortByScore(pairs)
	count := total(pairs, unweighted, ends{})
	m := Measurement{Pairs: len(pairs), Same: int(count.same)}
	m.AP.Value, m.AUC.Value = rank(pairs, unweighted, ends{}, count)
	m.bound(pairs, seeds.Stream(seed, seeds.PairBootstrap, uint64(number)))
	return m, nil
}

// bound fills in the intervals: a pair of one user counts with the weight of the user, one of two
// with the product of theirs (Owen and Eckles 2012). For the lower ends the pairs of the unseen
// user stand last, and those of one more pair of users first; for the upper ends the other way
// round.
func (m *Measurement) bound(pairs []Pair, stream *rand.Rand) {
	pairs, m.Users = numbered(pairs)
	count := mass{float64(m.Same), float64(m.Pairs - m.Same)}
	draws := ranking.Resampling{Stream: stream, Groups: []int{m.Users}, Resamples: resamples}
	var lowAUCs, highAUCs []float64
	lows, highs := draws.Ends(func(weights [][]float64) (float64, float64) {
		weigh, unseen := m.weights(weights[0])
		lowAP, lowAUC := rank(pairs, weigh, ends{first: mass{others: unseen.others}, last: mass{same: unseen.same}}, count)
		highAP, highAUC := rank(pairs, weigh, ends{first: mass{same: unseen.same}, last: mass{others: unseen.others}}, count)
		lowAUCs, highAUCs = append(lowAUCs, lowAUC), append(highAUCs, highAUC)
		return lowAP, highAP
	})
	slices.Sort(lowAUCs)
	slices.Sort(highAUCs)
	m.AP.bound(lows, highs)
	m.AUC.bound(lowAUCs, highAUCs)
}

// weights are those of pairs by the weights of their users, and what is unseen: of the pairs of
// one user the unseen user's share, of those of two users that of one more of the n(n-1)/2 pairs
// that n users form.
func (m *Measurement) weights(users []float64) (weigh func(*Pair) float64, unseen mass) {
	n := len(users) - 1
	weigh = func(p *Pair) float64 {
		if p.same() {
			return users[p.A]
		}
		return users[p.A] * users[p.B] * float64(n)
	}
	share := users[n] / float64(n)
	return weigh, mass{same: share * float64(m.Same), others: share * float64(m.Pairs-m.Same) * 2 / float64(n)}
}

// bound sets the interval by the ascending ends of resamples. Without any, nothing is known.
func (e *Estimate) bound(lows, highs []float64) {
	e.Low, e.High = 0, 1
	if len(lows) > 0 {
		i := ranking.Between(audits.Confidence)(lows, highs)
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

// mass is how much of pairs of one user, and of two, there is.
type mass struct{ same, others float64 }

// ends stand before and after all pairs.
type ends struct{ first, last mass }

func unweighted(*Pair) float64 { return 1 }

// rank computes the average precision and the area under the receiver operating
// characteristic of pairs in the order of falling scores, each weighed. Pairs of one score
// count together. The precision is that where pairs of one user and of two are as frequent as
// by their count: else weights alone would move it. Both are NaN without a pair of each kind.
func rank(pairs []Pair, weigh func(*Pair) float64, e ends, count mass) (ap, auc float64) {
	var found mass
	all := total(pairs, weigh, e)
	ratio := count.others / all.others * (all.same / count.same)
	step := func(s, o float64) {
		auc += float64(o * (found.same + s/2))
		found.same, found.others = found.same+s, found.others+o
		if s > 0 {
			ap += float64(s * (found.same / (found.same + float64(ratio*found.others))))
		}
	}
	step(e.first.same, e.first.others)
	for i := 0; i < len(pairs); {
		var s, o float64 // of this score
		for score := pairs[i].Score; i < len(pairs) && pairs[i].Score == score; i++ {
			if w := weigh(&pairs[i]); pairs[i].same() {
				s += w
			} else {
				o += w
			}
		}
		step(s, o)
	}
	step(e.last.same, e.last.others)
	return ap / all.same, auc / (all.same * all.others)
}

// total is that of pairs and ends.
func total(pairs []Pair, weigh func(*Pair) float64, e ends) mass {
	all := mass{e.first.same + e.last.same, e.first.others + e.last.others}
	for i := range pairs {
		if w := weigh(&pairs[i]); pairs[i].same() {
			all.same += w
		} else {
			all.others += w
		}
	}
	return all
}
