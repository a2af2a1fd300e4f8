// Package pairs measures whether scores identify two vectors of one user: two updates, or an update and a
// vector of other data (Orekondy et al. 2018, sections 4.3 and 6). It draws pairs, half of them of one user,
// ranks them by a score, and trains networks that compute a score.
package pairs

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Pair is a pair of updates of different rounds, by its users A and B. With a higher score it is more likely
// of one user.
type Pair struct {
	A, B  int32
	Score float64
}

func (p *Pair) same() bool { return p.A == p.B }

// Measurement is the ranking of pairs by their scores.
type Measurement struct {
	// Pairs is the number of scored pairs. Same, half or fewer, are of one user.
	Pairs int `json:"pairs" doc:"number of scored pairs"`
	Same  int `json:"same" doc:"number of scored pairs of one user"`
	// Users is the number of users with a pair of their own. The intervals are over them (ranking.Resampling).
	Users int `json:"users" doc:"number of users with a pair of their own"`
	// AP is the average precision: the sum over thresholds of (R_n - R_(n-1)) P_n. By chance it is about
	// Same / Pairs.
	AP audits.Interval `json:"ap" doc:"of the average precision"`
	// AUC is the probability that a pair of one user has the higher score, ties counting half: the area
	// under the receiver operating characteristic. By chance it is 0.5.
	AUC audits.Interval `json:"auc" doc:"of the AUC"`
}

// Chance is the average precision and AUC by chance, if half of the pairs are of one user.
const Chance = 0.5

// Few states that the users are too few to distinguish the AP from chance; empty otherwise.
func (m *Measurement) Few() string { return audits.TooFewToTell(m.Users, Chance) }

// Limit returns the limit on the lower end of an AP as a multiple of Chance, one of several numbers. find
// returns the measurement, nil if there is none, and its label.
func Limit[V any](name string, numbers int, unit, doc string, find func(V) (label string, m *Measurement)) []audits.Limit {
	return []audits.Limit{audits.LimitOf[float64]{
		Name: name, Doc: doc, Range: "[1,2)", Unit: "times chance (50%)",
		Breaches: audits.Judged(name, func(v V, limit float64) []string {
			g := audits.Gate{Name: name, Limit: limit}
			if label, m := find(v); m != nil && m.AP != (audits.Interval{}) {
				g.Factor(label, m.Users, m.AP, Chance)
			}
			return g.Breaches()
		}),
		FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
			return audits.FactorAlarms(name, limit, numbers, unit, s.Owners(), Chance)
		},
	}.Limit()}
}

// Row returns the row of an attack in tables.
func (m *Measurement) Row(attack, of string) audits.Attack {
	return audits.Attack{
		Attack: attack, Of: of, Items: new(int64(m.Pairs)), AP: m.AP.Value, APLow: &m.AP.Low, APHigh: &m.AP.High,
		Chance: Chance, Factor: m.AP.Value / Chance, FactorLow: new(m.AP.Low / Chance), FactorHigh: new(m.AP.High / Chance),
		AUC: &m.AUC.Value,
	}
}

// resamples is the number of resamples for the intervals over users.
const resamples = 1000

// AveragePrecision sorts pairs by score. It is NaN without a pair of one user. A NaN score is an error.
func AveragePrecision(pairs []Pair) (float64, error) {
	if err := errNaN(pairs); err != nil {
		return 0, err
	}
	sortByScore(pairs)
	weights := unweighted(pairs)
	ap, _ := rank(pairs, weights, ends{}, total(pairs, weights, ends{}))
	return ap, nil
}

// Curve returns the precision at a recall of 1/steps, 2/steps, ...; it sorts the pairs. It is nil without a
// pair of one user.
func Curve(pairs []Pair, steps int) (precisions []float64) {
	sortByScore(pairs)
	all, found := int(total(pairs, unweighted(pairs), ends{}).same), 0
	for i := range pairs {
		if pairs[i].same() {
			found++
		}
		if i+1 < len(pairs) && pairs[i+1].Score == pairs[i].Score {
			continue
		}
		for len(precisions) < steps && found*steps >= (len(precisions)+1)*all && all > 0 {
			precisions = append(precisions, float64(found)/float64(i+1))
		}
	}
	return precisions
}

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

// Measure sorts pairs by their scores. A NaN is a permanent error. number distinguishes the measurements of
// one experiment.
func Measure(pairs []Pair, seed uint64, number int) (Measurement, error) {
	if err := errNaN(pairs); err != nil {
		return Measurement{}, tasks.Permanent(err)
	}
	sortByScore(pairs)
	weights := unweighted(pairs)
	count := total(pairs, weights, ends{})
	m := Measurement{Pairs: len(pairs), Same: int(count.same)}
	m.AP.Value, m.AUC.Value = rank(pairs, weights, ends{}, count)
	m.bound(pairs, seeds.Stream(seed, seeds.PairBootstrap, uint64(number)))
	return m, nil
}

// bound sets the intervals: a pair of one user has the user's weight, a pair of two users the product of
// theirs (Owen and Eckles 2012). For the lower ends the unseen user's own pairs stand last, and one more pair
// of two users first; for the upper ends, the opposite. Only users with pairs of their own count: the others say
// nothing of such pairs, and would make the interval too narrow.
func (m *Measurement) bound(pairs []Pair, stream *rand.Rand) {
	pairs, users := numbered(pairs)
	m.Users = paired(pairs, users)
	count := mass{float64(m.Same), float64(m.Pairs - m.Same)}
	draws := ranking.Resampling{Stream: stream, Groups: []int{users}, Resamples: resamples}
	var lowAUCs, highAUCs []float64
	weigh := make([]float64, len(pairs))
	lows, highs := draws.Ends(func(weights [][]float64) (float64, float64) {
		unseen := m.weights(weights[0], pairs, weigh)
		lowAP, lowAUC := rank(pairs, weigh, ends{first: mass{others: unseen.others}, last: mass{same: unseen.same}}, count)
		highAP, highAUC := rank(pairs, weigh, ends{first: mass{same: unseen.same}, last: mass{others: unseen.others}}, count)
		lowAUCs, highAUCs = append(lowAUCs, lowAUC), append(highAUCs, highAUC)
		return lowAP, highAP
	})
	slices.Sort(lowAUCs)
	slices.Sort(highAUCs)
	m.AP, m.AUC = interval(m.AP.Value, lows, highs), interval(m.AUC.Value, lowAUCs, highAUCs)
}

// weights sets the weights of pairs, and returns the mass of unseen ones: for pairs of one user, the unseen
// user's share; for pairs of two, the share of one more of the n(n-1)/2 pairs of the n users with pairs of their own.
func (m *Measurement) weights(users []float64, pairs []Pair, weigh []float64) (unseen mass) {
	n := len(users) - 1
	for i := range pairs {
		p := &pairs[i]
		weigh[i] = users[p.A]
		if !p.same() {
			weigh[i] = users[p.A] * users[p.B] * float64(n)
		}
	}
	of := float64(max(1, m.Users))
	share := users[n] / of
	return mass{same: share * float64(m.Same), others: share * float64(m.Pairs-m.Same) * 2 / of}
}

// interval lies between the ascending ends of resamples. Without resamples it is [0, 1]. Sums of weights may
// round to more than 1.
func interval(value float64, lows, highs []float64) audits.Interval {
	if len(lows) == 0 {
		return audits.Interval{Value: value, High: 1}
	}
	i := ranking.PercentileInterval(audits.Confidence)(lows, highs)
	i.High = min(1, i.High)
	return audits.NewInterval(value, i)
}

// numbered numbers the users of the pairs from 0.
func numbered(pairs []Pair) (renamed []Pair, users int) {
	var all []int32
	for _, p := range pairs {
		all = append(all, p.A, p.B)
	}
	all = lists.Distinct(all)
	number := func(user int32) int32 {
		i, _ := slices.BinarySearch(all, user)
		return int32(i)
	}
	return lists.Map(pairs, func(p Pair) Pair { return Pair{number(p.A), number(p.B), p.Score} }), len(all)
}

// paired returns the number of users, numbered from 0, with a pair of their own.
func paired(pairs []Pair, users int) (n int) {
	has := make([]bool, users)
	for i := range pairs {
		if p := &pairs[i]; p.same() && !has[p.A] {
			has[p.A] = true
			n++
		}
	}
	return n
}

// mass is the weight of pairs of one user, and of two.
type mass struct{ same, others float64 }

func (m *mass) add(p *Pair, weight float64) {
	if p.same() {
		m.same += weight
	} else {
		m.others += weight
	}
}

// ends are the masses before and after all pairs.
type ends struct{ first, last mass }

func unweighted(pairs []Pair) []float64 { return slices.Repeat([]float64{1}, len(pairs)) }

// rank returns the average precision and the area under the receiver operating characteristic of weighted
// pairs in the order of falling scores. Equal scores count together. The precision uses the frequencies of
// the kinds by count, so that weights do not shift it. Both are NaN without a pair of each kind.
func rank(pairs []Pair, weigh []float64, e ends, count mass) (ap, auc float64) {
	var found mass
	all := total(pairs, weigh, e)
	ratio := count.others / all.others * (all.same / count.same)
	step := func(m mass) {
		auc += float64(m.others * (found.same + m.same/2))
		found.same, found.others = found.same+m.same, found.others+m.others
		if m.same > 0 {
			ap += float64(m.same * (found.same / (found.same + float64(ratio*found.others))))
		}
	}
	step(e.first)
	for i := 0; i < len(pairs); {
		var tied mass
		for score := pairs[i].Score; i < len(pairs) && pairs[i].Score == score; i++ {
			tied.add(&pairs[i], weigh[i])
		}
		step(tied)
	}
	step(e.last)
	return ap / all.same, auc / (all.same * all.others)
}

func total(pairs []Pair, weigh []float64, e ends) mass {
	all := mass{e.first.same + e.last.same, e.first.others + e.last.others}
	for i := range pairs {
		all.add(&pairs[i], weigh[i])
	}
	return all
}

// Power returns the power of an audit by the average precision of the named pairs of updates. Their scores are
// independent normal numbers of equal deviation. The distance of the means gives the AUC of the leak. users
// returns the planned number of users, found the measurements of an outcome.
func Power[V any](limit, name string, pairs func(*audits.Setting) int, users func(*audits.Setting) int, found func(V) []*Measurement) func(*audits.Setting, audits.Outcome) []audits.Statement {
	return func(s *audits.Setting, v audits.Outcome) []audits.Statement {
		n := users(s)
		if v != nil {
			if n = 0; len(found(v.(V))) > 0 {
				n = found(v.(V))[0].Users
			}
		}
		if n == 0 {
			return nil
		}
		power := audits.Simulated(trials, 1, func(sizes []int, leak float64) func(*rand.Rand) Measurement {
			return func(rng *rand.Rand) Measurement { return simulate(pairs(s), sizes[0], leak, rng) }
		}, func(_ []int, factor float64) func(Measurement) bool {
			return func(m Measurement) bool {
				return m.Users >= audits.MinAbove(factor*Chance) && m.AP.Low > factor*Chance
			}
		})
		return []audits.Statement{{
			Finds: fmt.Sprintf("the lower bound of the average precision of %s is above chance", name), Limit: limit,
			Leak:  audits.Leak{Name: "AUC", Means: "the AUC of pairs is", Default: 0.7, Min: 0.5, Max: most},
			Sizes: []audits.Size{{Unit: "user", N: n}},
			None:  none(n, power),
			Nothing: func(v audits.Outcome) bool {
				list := found(v.(V))
				return len(list) > 0 && !slices.ContainsFunc(list, func(m *Measurement) bool { return m.AP.Low > Chance })
			},
			Power: power,
			Of:    pairs(s),
		}}
	}
}

// none returns the statement that the users are too few for a find, even by a perfect attack; "" if they suffice.
func none(users int, power func(audits.Question) float64) string {
	if few := audits.TooFewToTell(users, Chance); few != "" || users > fewUsers {
		return strings.TrimPrefix(few, ", ")
	}
	some := func(power float64) bool { return power > 0 } // one find in the simulated audits decides
	if some(power(audits.Question{Sizes: []int{users}, Leak: most, Enough: some})) {
		return ""
	}
	return fmt.Sprintf("were pairs of %s told apart almost without error, the interval would begin below chance", readable.Count(users, "user"))
}

const (
	// most is the largest AUC that is simulated.
	most = 0.9999
	// fewUsers is the largest number of users that may be too few for any find.
	fewUsers = 20
	// trials is the number of simulated audits: the standard error of a power is at most 5%. An audit takes
	// milliseconds.
	trials = 100
	// Limits on simulated pairs, per user and in total.
	pairsOfUser, maxPairs = 10, 400
)

// simulate measures pairs of users drawn at random. Half of the pairs are of one user.
func simulate(pairs, users int, auc float64, rng *rand.Rand) Measurement {
	if users < 2 {
		return Measurement{}
	}
	list := make([]Pair, min(pairs, pairsOfUser*users, maxPairs))
	for i := range list {
		a := rng.IntN(users)
		list[i] = Pair{A: int32(a), B: int32(a), Score: rng.NormFloat64()}
		if i%2 == 0 {
			list[i].B = int32((a + 1 + rng.IntN(users-1)) % users)
		} else {
			list[i].Score += math.Sqrt2 * mathext.NormalQuantile(auc)
		}
	}
	m, _ := Measure(list, rng.Uint64(), 0) // no score is NaN
	return m
}
