package privacy

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Group is the guarantee of a recipe for several members together, such as the balanced
// users that one person's data were cut into.
type Group struct {
	// Members is the size of the group, 1 or more.
	Members int `json:"members"`
	// EpsilonProved is at the delta of the report.
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// Theorem names the theorem behind the bound; empty and omitted without a bound.
	Theorem string `json:"theorem,omitempty"`
}

// The theorems on groups.
const (
	groupAsOne   = " of a sample that may have any of the group, and moves by as many of them as find room in it (Balle, Barthe and Gaboardi 2018, Theorem 2)"
	groupByChain = "PLD of one member after another (Vadhan 2017, Lemma 2.2)"
)

// GroupOf returns the smaller of two proved bounds on epsilon, at the recipe's delta, if a number
// of members, 1 up to the population, change together. In the first, a sample contains a member of
// the group with the probability of containing any, and its sum then moves by at most the joint
// updates of the members that fit into the sample. In the second, members change one after another:
// if one member has delta d at e, k members have d x (exp(ke) - 1) / (exp(e) - 1) at ke.
func GroupOf(recipe Recipe, members int) (Group, error) {
	if members < 1 || members > recipe.Population {
		return Group{}, fmt.Errorf("a group of %d of %d users: expected 1 up to all of them", members, recipe.Population)
	}
	recipe = recipe.withDefaults()
	all, err := together([]Recipe{recipe}, recipe.Delta)
	if err != nil {
		return Group{}, err
	}
	one, err := recipe.groupStep(all.steps[0], members)
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
	atOnce := all.relation.losses().tightest([]pld.Step{one}, curve.Times(one.Rounds), recipe.Delta)
	g := Group{members, Epsilon(atOnce.epsilon), strings.ToUpper(string(cmp.Or(atOnce.accountant, PLD))) + groupAsOne}
	if math.IsInf(atOnce.epsilon, 1) {
		g.Theorem = ""
	}
	if chained := all.chained(members, recipe.Delta); chained < atOnce.epsilon {
		g.EpsilonProved, g.Theorem = Epsilon(chained), groupByChain
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
