package privacy

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"

	"coalmine/internal/numbers"
	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Group is the guarantee of a recipe for several members together, such as the balanced
// users that one person's data were cut into.
type Group struct {
	// Members is the size of the group, 1 or more.
	Members int `json:"members" doc:"number of members"`
	// EpsilonProved is at the delta of the report.
	EpsilonProved Epsilon `json:"epsilon_proved" doc:"epsilon proved at the delta of the report"`
	// Theorem names the theorem behind the bound; empty and omitted without a bound.
	Theorem string `json:"theorem,omitempty"`
}

// The theorems on groups.
const (
	groupAsOne    = " of a sample that may have any of the group, and moves by as many of them as find room in it (Balle, Barthe and Gaboardi 2018, Theorem 2)"
	groupByCount  = "PLD of the number of the group in a sample (Ganesh 2024, Tight Group-Level DP Guarantees)"
	groupReplaced = "PLD of the number of the group in a sample, all of them replaced (after Balle, Barthe and Gaboardi 2018, Theorem 2)"
	groupByChain  = "PLD of one member after another (Vadhan 2017, Lemma 2.2)"
)

// GroupOf returns a proved bound on epsilon, at the recipe's delta, if a number of members, 1 up to
// the population, change together. If samples are random and up to 64 members can be in one, all are
// added, all removed or all replaced, and the bound follows from the number of them in a sample. It is
// tight for Poisson samples. Otherwise it is the smaller of two looser bounds, of which the first is
// exact without sampling. In the first, a sample contains a member of the group with the probability
// of containing any, and its sum then moves by at most the joint updates of the members that fit into
// the sample. In the second, members change one after another: if one member has delta d at e, k
// members have d x (exp(ke) - 1) / (exp(e) - 1) at ke.
func GroupOf(recipe Recipe, members int) (Group, error) {
	if members < 1 || members > recipe.Population {
		return Group{}, fmt.Errorf("a group of %d of %d users: expected 1 up to all of them", members, recipe.Population)
	}
	recipe = recipe.withDefaults()
	all, err := together([]Recipe{recipe}, recipe.Delta)
	if err != nil {
		return Group{}, err
	}
	if counted := recipe.byCount(all.steps[0], members); !math.IsInf(counted, 1) {
		g := Group{members, Epsilon(counted), groupByCount}
		if recipe.Sampling == FixedSize {
			g.Theorem = groupReplaced
		}
		return g, nil
	}
	g, err := recipe.asOne(all, members)
	if err != nil {
		return Group{}, err
	}
	if chained := all.chained(members, recipe.Delta); Epsilon(chained) < g.EpsilonProved {
		g.EpsilonProved, g.Theorem = Epsilon(chained), groupByChain
	}
	return g, nil
}

// byCount returns the bound by the number of members in a sample, given the step of one member; +Inf
// if it does not apply.
func (r Recipe) byCount(step pld.Step, members int) float64 {
	bound := pld.GroupEpsilon
	if r.Sampling == FixedSize {
		bound = pld.FixedSizeGroupEpsilon
	}
	if r.Sampling != FixedSize && r.Sampling != Poisson || r.Tree != nil || r.Mechanism != nil || step.Rate == 1 {
		return math.Inf(1)
	}
	epsilon, err := bound(pld.GroupStep{Chances: r.chances(members), Sigma: step.Sigma, Rounds: step.Rounds}, r.Delta)
	if err != nil { // no noise, no rounds, or more than mostCounted in every sample
		return math.Inf(1)
	}
	return epsilon
}

// mostCounted is the largest number of members in a sample to compute the probability of.
const mostCounted = 400

// chances returns the probabilities of 0, 1... members in a sample: binomial for Poisson samples,
// hypergeometric for samples of fixed size. Numbers above mostCounted get no probability: if the
// numbers from 64 on have a small one, these have a negligible one, because both distributions are
// log-concave.
func (r Recipe) chances(members int) []float64 {
	in, out := float64(r.Cohort), float64(r.Population-r.Cohort) // users in a sample and outside
	least, most := max(0, members-(r.Population-r.Cohort)), min(members, r.Cohort)
	if r.Sampling == Poisson {
		least, most = 0, members
	}
	if least > mostCounted {
		return nil
	}
	logs := make([]float64, 0, mostCounted+1)
	log := 0.0
	for i := 0; i <= min(most, mostCounted); i++ {
		if i < least {
			logs = append(logs, math.Inf(-1))
			continue
		}
		logs = append(logs, log)
		n, k := float64(i), float64(members)
		if log += math.Log((k-n)/(n+1)) + math.Log(in/out); r.Sampling == FixedSize {
			log += math.Log1p(-n/in) - math.Log1p((n+1-k)/out)
		}
	}
	total := floats.LogSumExp(logs)
	for i := range logs {
		logs[i] = math.Exp(logs[i] - total)
	}
	return logs
}

// asOne returns the bound by a sample that contains any of the members.
func (r Recipe) asOne(all composed, members int) (Group, error) {
	one, err := r.groupStep(all.steps[0], members)
	if err != nil {
		return Group{}, err
	}
	divergence := rdp.ReplacedPair
	if all.relation == AddOrRemoveOne {
		divergence = rdp.Poisson
	}
	curve, err := divergence(one.Rate, one.Sigma, rdp.DefaultOrders())
	if err != nil {
		return Group{}, err
	}
	proved := all.relation.losses().tightest([]pld.Step{one}, curve.Times(one.Rounds), r.Delta)
	g := Group{members, Epsilon(proved.epsilon), strings.ToUpper(string(cmp.Or(proved.accountant, PLD))) + groupAsOne}
	if math.IsInf(proved.epsilon, 1) {
		g.Theorem = ""
	}
	return g, nil
}

// groupStep returns the step of a group that changes at once, given the step of one member.
func (r Recipe) groupStep(step pld.Step, members int) (pld.Step, error) {
	room := min(members, r.Cohort) // largest number of members in a round
	times := float64(room)
	switch {
	case r.Tree != nil:
		var err error
		if times, err = r.timesOfTree(members); err != nil {
			return step, err
		}
	case r.Sampling == Poisson:
		step.Rate, times = r.rateOfAny(members), float64(members)
	case r.Mechanism != nil:
		times = float64(members)
	case r.Sampling == Separated && r.Rounds > 0:
		often := r.Participation(r.Rounds).Times
		times = math.Sqrt(spread(float64(members)*float64(often), room, r.Rounds) / float64(often))
	case r.Sampling == Shuffled && r.Rounds > 0:
		epoch := epochRounds(r.Cohort, r.Population)
		squares := float64(r.Rounds/epoch)*spread(float64(members), room, epoch) + spread(float64(members), room, r.Rounds%epoch)
		times = math.Sqrt(squares / float64(step.Rounds))
	case step.Rate < 1:
		step.Rate = r.rateOfAny(members)
	}
	step.Sigma /= times
	return step, nil
}

// spread returns the largest sum of squares of the number of members that take part in each round,
// at most room in one round and all in total.
func spread(all float64, room, rounds int) float64 {
	full := min(math.Floor(all/float64(room)), float64(rounds))
	last := 0.0
	if full < float64(rounds) {
		last = all - full*float64(room)
	}
	return full*float64(room)*float64(room) + last*last
}

// timesOfTree returns the distance by which a group moves all nodes of a tree, in distances of one
// member: the number of members, or less if they exceed a cohort. Then a group moves the nodes by
// at most a cohort times the distance of one member that takes part, in any rounds, as often as the
// members can fill a cohort.
func (r Recipe) timesOfTree(members int) (float64, error) {
	if members <= r.Cohort {
		return float64(members), nil
	}
	t := &tree{recipe: r}
	single, _, err := t.squared(*r.Tree)
	if err != nil {
		return 0, err
	}
	often := math.Ceil(float64(members) * float64(r.Tree.Times) / float64(r.Cohort))
	filled, _, err := t.squared(Participations{Times: int(min(often, float64(r.Rounds))), Separation: 1})
	return min(float64(members), float64(r.Cohort)*math.Sqrt(filled/single)), err
}

// maxFactors is the largest number of factors of a probability to multiply; longer products are
// bounded instead.
const maxFactors = 1 << 20

// rateOfAny returns an upper bound, nearly tight, on the probability that a sample
// contains any of the members.
func (r Recipe) rateOfAny(members int) float64 {
	if r.Sampling == Poisson {
		return -math.Expm1(float64(members) * math.Log1p(-float64(r.Cohort)/float64(r.Population)))
	}
	few, many := min(members, r.Cohort), max(members, r.Cohort) // exchangeable in the product
	least := func(i int) float64 { return math.Log1p(-math.Min(1, float64(many)/float64(r.Population-i))) }
	if few > maxFactors {
		return -math.Expm1(float64(few) * least(few-1))
	}
	none := 0.0 // log of the probability that the sample contains no member
	for i := range few {
		none += least(i)
	}
	return -math.Expm1(none)
}

// chained returns the least epsilon at delta of a number of members that change
// one after another.
func (c composed) chained(members int, delta float64) float64 {
	k, best := float64(members), math.Inf(1)
	low, high := math.Log(minChained), numbers.Log(delta)
	for range chainSteps {
		middle := (low + high) / 2
		b, err := c.relation.losses().epsilon(c.steps, math.Exp(middle))
		if err != nil {
			return best
		}
		e := b.Upper
		if middle+(k-1)*e+math.Log1p(-math.Exp(-k*e))-math.Log1p(-math.Exp(-e)) <= numbers.Log(delta) {
			low, best = middle, math.Min(best, k*e)
		} else {
			high = middle
		}
	}
	return best
}

// Limits of the search for a chain: the least delta of one member, and the number of
// bisections.
const (
	minChained = 1e-150
	chainSteps = 14
)
