package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/models/attacks"
	"coalmine/models/ranking"
	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/audits/updates/attributes"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/audits/updates/pairs"
)

// Effects is the number of effect sizes: none, some, strong.
const Effects = 3

// quantity is a number with an interval over a few users or other independent units.
type quantity struct {
	name string
	// fewest is the minimum number of units that an audit measures.
	fewest int
	// draw simulates the numbers that an audit receives, and measures them as the audit does.
	draw func(rng *rand.Rand, users, effect int) ends
}

// times is the number of draws of a quantity in units of the slowest quantity's:
// intervals over seeds are quick.
func (q *quantity) times() int {
	if strings.HasSuffix(q.name, "over seeds") {
		return 15
	}
	return 1
}

// ends are the ends of an interval, with the truth that should lie between them.
type ends struct{ low, high, truth float64 }

func (e ends) cover() bool { return e.low <= e.truth+tiny && e.truth <= e.high+tiny }
func (e ends) above() bool { return e.low > e.truth+tiny }

// tiny is the limit on the rounding error of a sum of weights.
const tiny = 1e-12

// FewUsers are the numbers of users to try.
var FewUsers = []int{1, 2, 3, 5, 10, 30}

// others is the number of users on the side that has enough.
const others = 100

func quantities() []quantity {
	naming := namings{}
	return []quantity{
		{"membership AUC, few members", 2, func(rng *rand.Rand, users, effect int) ends { return area(rng, users, others, effect) }},
		{"membership AUC, few held out", 2, func(rng *rand.Rand, users, effect int) ends { return area(rng, others, users, effect) }},
		{"membership AUC, few of both", 2, func(rng *rand.Rand, users, effect int) ends { return area(rng, users, users, effect) }},
		{"membership TPR at 1% FPR", 1, rate},
		{"AP of pairs of updates", 2, updatePairs(1, endsAP)},
		{"AUC of pairs of updates", 2, updatePairs(1, endsAUC)},
		{"re-identification AP", 1, func(rng *rand.Rand, users, effect int) ends {
			o, truth := naming.draw(rng, users, effect)
			return ends{o.APInterval.Low, o.APInterval.High, truth.ap}
		}},
		{"re-identification factor", 1, func(rng *rand.Rand, users, effect int) ends {
			o, truth := naming.draw(rng, users, effect)
			return ends{o.FactorInterval.Low, o.FactorInterval.High, truth.factor}
		}},
		{"attribute accuracy", 1, attributeAccuracy},
		{"attribute, times the most frequent", 1, attributeFactor},
		{"share of words in samples", 1, words},
		{"share of things", 1, things},
		{"one-run epsilon, lower bound", 1, oneRunEpsilon},
		{"mean count over seeds", 1, overSeeds(mean)},
		{"pooled share over seeds", 1, overSeeds(pooled)},
		{"difference of rows over seeds", 1, overSeeds(paired)},
	}
}

// sparse returns quantities over pairs of updates if only a tenth of the users have pairs of their own.
func sparse() []quantity {
	return []quantity{
		{"AP of pairs, a tenth of users with their own", 1, updatePairs(10, endsAP)},
		{"AUC of pairs, a tenth of users with their own", 1, updatePairs(10, endsAUC)},
	}
}

// shifts of the scores of members, in standard deviations.
var shifts = [Effects]float64{0, 1.2, 3}

func normals(rng *rand.Rand, n int, shift float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = shift + rng.NormFloat64()
	}
	return values
}

func area(rng *rand.Rand, members, heldOut, effect int) ends {
	g, err := membership.CompareGroups(normals(rng, members, shifts[effect]), normals(rng, heldOut, 0), rng.Uint64())
	if err != nil {
		panic(err) // normal numbers are never NaN
	}
	return ends{g.AUC.Low, g.AUC.High, distuv.UnitNormal.CDF(shifts[effect] / math.Sqrt2)}
}

func rate(rng *rand.Rand, users, effect int) ends {
	const falsePositives = 0.01
	share := membership.Rates(normals(rng, users, shifts[effect]), normals(rng, 1000, 0))[0].TruePositives
	return ends{share.Low, share.High, distuv.UnitNormal.Survival(distuv.UnitNormal.Quantile(1-falsePositives) - shifts[effect])}
}

// similarity is the normal distribution of similarities of pairs of updates. The mean is higher by same
// for pairs of one user.
type similarity struct{ same, sameDeviation, otherDeviation float64 }

func (s similarity) area() float64 {
	return distuv.UnitNormal.CDF(s.same / math.Hypot(s.sameDeviation, s.otherDeviation))
}

// averagePrecision returns the average precision of pairs of which half are of one user: the integral of
// the precision over the recall.
func (s similarity) averagePrecision() (ap float64) {
	const steps = 10_000
	for i := range steps {
		recall := (float64(i) + 0.5) / steps
		score := s.same + s.sameDeviation*distuv.UnitNormal.Quantile(1-recall)
		ap += recall / (recall + distuv.UnitNormal.Survival(score/s.otherDeviation)) / steps
	}
	return ap
}

// endsAP and endsAUC return the intervals of a measurement with their truths.
func endsAP(m pairs.Measurement, truth similarity) ends {
	return ends{m.AP.Low, m.AP.High, truth.averagePrecision()}
}

func endsAUC(m pairs.Measurement, truth similarity) ends {
	return ends{m.AUC.Low, m.AUC.High, truth.area()}
}

// updatePairs returns a draw of pairs of updates. Each user has pairs of its own updates; times as many users have pairs
// with another. All pairs of a user share one random term, and so do all pairs of the same two users.
func updatePairs(times int, of func(pairs.Measurement, similarity) ends) func(rng *rand.Rand, users, effect int) ends {
	return func(rng *rand.Rand, users, effect int) ends {
		const each, own, own2, noise = 100, 1.0, 0.3, 1.0
		truth := similarity{2 * shifts[effect], math.Sqrt(own*own + 4*own2*own2 + noise*noise), math.Sqrt(own*own + 2*own2*own2 + noise*noise)}
		all := times * users
		hub, common := normals(rng, all, 0), normals(rng, all*all, 0)
		var list []pairs.Pair
		for range each {
			u := rng.IntN(users)
			v, w := rng.IntN(all), rng.IntN(all-1)
			if w >= v {
				w++
			}
			list = append(list,
				pairs.Pair{A: int32(u), B: int32(u), Score: truth.same + own*common[u*all+u] + 2*own2*hub[u] + noise*rng.NormFloat64()},
				pairs.Pair{A: int32(v), B: int32(w), Score: own*common[min(v, w)*all+max(v, w)] + own2*(hub[v]+hub[w]) + noise*rng.NormFloat64()})
		}
		m, err := pairs.Measure(list, rng.Uint64(), 0)
		if err != nil {
			panic(err) // normal numbers are never NaN
		}
		return of(m, truth)
	}
}

// namings holds true values for users named by their updates: means over many simulations.
type namings map[[2]int]naming

type naming struct{ ap, factor float64 }

// draw returns the outcome of an attack on the given number of users, and its true value.
func (n namings) draw(rng *rand.Rand, users, effect int) (o deanonymization.AttackOutcome, truth naming) {
	key := [2]int{users, effect}
	if _, known := n[key]; !known {
		n[key] = trueNaming(users, effect)
	}
	precision, chance := oneNaming(rng, users, effect)
	p := deanonymization.SummaryParams{Seed: rng.Uint64(), Attacks: []attacks.Kind{attacks.KNN}, Confidence: audits.Confidence}
	p.Bound(&o, precision, chance)
	return o, n[key]
}

// trueNaming returns the mean over many users.
func trueNaming(users, effect int) naming {
	const many = 20_000
	rng := rand.New(rand.NewPCG(9, uint64(users*Effects+effect)))
	var precision, chance float64
	for n := 0; n < many; n += users {
		a, b := oneNaming(rng, users, effect)
		precision, chance = precision+sum(a), chance+sum(b)
	}
	worlds := float64((many + users - 1) / users * users)
	return naming{precision / worlds, precision / chance}
}

// oneNaming returns the average precision of each user in one simulation, and its chance: for five
// updates of each user, which an attack also prefers by their owner.
func oneNaming(rng *rand.Rand, users, effect int) (precision, chance []float64) {
	const each = 5
	owners := make([][]int, users*each)
	for i := range owners {
		owners[i] = []int{i / each}
	}
	for class := range users {
		liking := normals(rng, users, 0)
		liking[class] += shifts[effect]
		scores := make([]float32, len(owners))
		for i := range scores {
			scores[i] = float32(liking[i/each] + rng.NormFloat64())
		}
		ap, err := ranking.Owned(scores, owners, users)
		if err != nil {
			panic(err) // normal numbers are never NaN
		}
		precision, chance = append(precision, ap[class]), append(chance, ranking.Mean(ap))
	}
	return precision, chance
}

// rates of correctly named updates, and of units that have a property.
var rates = [Effects]float64{0.5, 0.7, 0.95}

// propensity draws a user's propensity from the beta distribution of the mean whose parameters sum to 2.
func propensity(rng *rand.Rand, mean float64) float64 {
	return distuv.Beta{Alpha: 2 * mean, Beta: 2 * (1 - mean), Src: rng}.Rand()
}

// sentUpdates returns for some users the numbers of correct updates and of sent updates, and for how many
// the most frequent value is correct: half of them.
func sentUpdates(rng *rand.Rand, users int, mean float64) (hits, most, sent []float64) {
	for range users {
		n, p, q := 1+rng.IntN(9), propensity(rng, mean), float64(rng.IntN(2))
		right := 0.0
		for range n {
			right += indicator(rng.Float64() < p)
		}
		hits, most, sent = append(hits, right), append(most, q*float64(n)), append(sent, float64(n))
	}
	return hits, most, sent
}

func attributeAccuracy(rng *rand.Rand, users, effect int) ends {
	hits, _, sent := sentUpdates(rng, users, rates[effect])
	i := attributes.Interval(rng.Uint64(), hits, sent, sent)
	return ends{i.Low, i.High, rates[effect]}
}

// attributeFactor is the factor of a value that half of the users have. If it is never correct, there is
// no interval.
func attributeFactor(rng *rand.Rand, users, effect int) ends {
	hits, most, sent := sentUpdates(rng, users, rates[effect])
	if sum(most) == 0 {
		return ends{math.Inf(-1), math.Inf(1), 2 * rates[effect]}
	}
	return ends{attributes.Interval(rng.Uint64(), hits, most, sent).Low, math.Inf(1), 2 * rates[effect]}
}

// shares of units with a property.
var shares = [Effects]float64{0.02, 0.2, 0.8}

// words simulates words out of vocabulary, which occur together: in sentences of three to twelve.
func words(rng *rand.Rand, users, effect int) ends {
	var ratio audits.Ratio
	for range users {
		n, count, p := 3+rng.IntN(10), 0, propensity(rng, shares[effect])
		for range n {
			count += int(indicator(rng.Float64() < p))
		}
		ratio.Add(count, n)
	}
	s := ratio.Share()
	return ends{s.Low, s.High, shares[effect]}
}

func things(rng *rand.Rand, users, effect int) ends {
	count := 0
	for range users {
		count += int(indicator(rng.Float64() < shares[effect]))
	}
	s := audits.NewShare(count, users)
	return ends{s.Low, s.High, shares[effect]}
}

// oneRunEpsilon is the bound of randomized response if all answers are guessed.
func oneRunEpsilon(rng *rand.Rand, users, effect int) ends {
	epsilon := shifts[effect]
	included, scores := make([]bool, users), make([]float64, users)
	for i := range included {
		included[i] = rng.IntN(2) == 1
		correct := included[i] == (rng.Float64() < 1/(1+math.Exp(-epsilon)))
		scores[i] = indicator(correct) + rng.Float64()/2
	}
	outcome, err := empirical.Guess(included, scores, users/2, users-users/2)
	if err != nil {
		panic(err)
	}
	bound, err := empirical.LowerBound(outcome, 0, audits.Confidence)
	if err != nil {
		panic(err)
	}
	return ends{bound.Epsilon, math.Inf(1), epsilon}
}

// levels of memorization: nearly none, few, many.
var levels = [Effects]float64{-4, -0.8, 0.3}

func overSeeds(measure interval) func(rng *rand.Rand, users, effect int) ends {
	return func(rng *rand.Rand, users, effect int) ends {
		s := thakkar(users, levels[effect])
		low, high, truth := measure(&s, s.draw(rng))
		return ends{low, high, truth}
	}
}

// Few holds the coverage of one quantity with one number of users, at one effect.
type Few struct {
	Quantity string `json:"quantity"`
	Effect   string `json:"effect"`
	Users    int    `json:"users"`
	Draws    int    `json:"draws"`
	// Covered is the share of the draws with an interval that contains the truth, and Above the share
	// with an interval completely above the truth: at no effect, the false alarms of a gate at chance.
	Covered float64 `json:"covered"`
	Above   float64 `json:"above"`
}

var effectNames = [Effects]string{"none", "some", "strong"}

// RunFew measures the intervals of quantities over some numbers of users.
func RunFew(draws int, seed uint64, few []int, of []quantity) (rows []Few) {
	for i, q := range of {
		for effect, name := range effectNames {
			for _, users := range few {
				if users < q.fewest {
					continue
				}
				rng := rand.New(rand.NewPCG(seed, uint64(i*Effects+effect)<<32|uint64(users)))
				row := Few{Quantity: q.name, Effect: name, Users: users, Draws: draws * q.times()}
				for range row.Draws {
					e := q.draw(rng, users, effect)
					row.Covered += indicator(e.cover()) / float64(row.Draws)
					row.Above += indicator(e.above()) / float64(row.Draws)
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// printFew writes a table: for each quantity and effect the covered share, by users, and the largest
// share of intervals completely above the truth.
func printFew(rows []Few, w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "95% interval of\teffect")
	for _, users := range FewUsers {
		fmt.Fprintf(t, "\t%d", users)
	}
	fmt.Fprintln(t, "\tmost above\t")
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(r Few) bool { return r.Quantity != rows[0].Quantity || r.Effect != rows[0].Effect })
		if n < 0 {
			n = len(rows)
		}
		cells, most := make([]string, len(FewUsers)), 0.0
		for _, r := range rows[:n] {
			cells[slices.Index(FewUsers, r.Users)] = fmt.Sprintf("%.1f", 100*r.Covered)
			most = max(most, r.Above)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f\t\n", rows[0].Quantity, rows[0].Effect, strings.Join(cells, "\t"), 100*most)
		rows = rows[n:]
	}
	_ = t.Flush()
}
