package privacy

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"coalmine/internal/extended"
	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Group is what a recipe proves for several members together: the balanced users that one
// person's data were cut into, say.
type Group struct {
	// Members are how many, 1 or more.
	Members int `json:"members"`
	// EpsilonProved is at the delta of the report.
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// Theorem names what it rests on; empty, and left out, where there is no bound.
	Theorem string `json:"theorem,omitempty"`
}

// The theorems on groups.
const (
	groupAsOne   = " of a sample that may have any of the group, and moves by as many of them as find room in it (Balle, Barthe and Gaboardi 2018, Theorem 2)"
	groupByChain = "PLD of one member after another (Vadhan 2017, Lemma 2.2)"
)

// GroupOf returns the least epsilon that is proved when so many members, 1 up to the population,
// change together, at the recipe's delta. It is the lesser of two. In the one, a sample has
// some of the group with the probability that it has any, and then its sum moves by at most
// what those of the group who find room in the sample can move it by. In the other, members
// change one after another: if one has delta d at e, k of them have
// d x (exp(ke) - 1) / (exp(e) - 1) at ke.
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

// groupStep is what a group costs all at once, of a recipe in which one member costs step.
func (r Recipe) groupStep(step pld.Step, members int) (pld.Step, error) {
	room := min(members, r.Cohort) // of a round
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

// spread is the largest sum of squares of how many of a group take part in each of so many rounds,
// at most room in one and so many in all.
func spread(all float64, room, rounds int) float64 {
	full := min(math.Floor(all/float64(room)), float64(rounds))
	rest := 0.0
	if full < float64(rounds) {
		rest = all - full*float64(room)
	}
	return full*float64(room)*float64(room) + rest*rest
}

// timesOfTree is how many times as far as one member a group moves all nodes of a tree: as many
// times as it has members, or less where these find no room in a cohort. Then a group moves the nodes
// by a cohort's worth at most of one member who takes part as often as the members can fill a
// cohort, in any rounds.
func (r Recipe) timesOfTree(members int) (float64, error) {
	if members <= r.Cohort {
		return float64(members), nil
	}
	t := &tree{recipe: r}
	alone, _, err := t.squared(*r.Tree)
	if err != nil {
		return 0, err
	}
	often := math.Ceil(float64(members) * float64(r.Tree.Times) / float64(r.Cohort))
	filled, _, err := t.squared(Participations{Times: int(min(often, float64(r.Rounds))), Separation: 1})
	return min(float64(members), float64(r.Cohort)*math.Sqrt(filled/alone)), err
}

// mostFactors is how many factors of a probability are multiplied; more are bounded.
const mostFactors = 1 << 20

// rateOfAny is the probability that a sample has any of the members, or a little more.
func (r Recipe) rateOfAny(members int) float64 {
	if r.Sampling == Poisson {
		return -math.Expm1(float64(members) * math.Log1p(-float64(r.Cohort)/float64(r.Population)))
	}
	few, many := min(members, r.Cohort), max(members, r.Cohort) // which change places in the product
	least := func(i int) float64 { return math.Log1p(-math.Min(1, float64(many)/float64(r.Population-i))) }
	if few > mostFactors {
		return -math.Expm1(float64(few) * least(few-1))
	}
	none := 0.0 // its log
	for i := range few {
		none += least(i)
	}
	return -math.Expm1(none)
}

// chained is the least epsilon at delta of so many members, one after another.
func (c composed) chained(members int, delta float64) float64 {
	k, best := float64(members), math.Inf(1)
	low, high := math.Log(leastChained), extended.Log(delta)
	for range chainSteps {
		middle := (low + high) / 2
		b, err := c.relation.losses().epsilon(c.steps, math.Exp(middle))
		if err != nil {
			return best
		}
		e := b.Upper
		if middle+(k-1)*e+math.Log1p(-math.Exp(-k*e))-math.Log1p(-math.Exp(-e)) <= extended.Log(delta) {
			low, best = middle, math.Min(best, k*e)
		} else {
			high = middle
		}
	}
	return best
}

// What a chain is searched in: the least delta of one member, and how often what is left is
// halved.
const (
	leastChained = 1e-150
	chainSteps   = 14
)
