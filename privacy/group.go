package privacy

import (
	"fmt"
	"math"

	"coalmine/privacy/pld"
)

// Group is what a recipe proves for several members together: the balanced users that one
// person's data were cut into, say.
type Group struct {
	// Members are how many, 1 or more.
	Members int `json:"members"`
	// EpsilonProved is at the delta of the report.
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// Theorem names what it rests on.
	Theorem string `json:"theorem"`
}

// The theorems on groups.
const (
	groupAsOne   = "PLD of a sample that may have any of the group, and moves by all of it if it has one (Balle, Barthe and Gaboardi 2018, Theorem 2)"
	groupByChain = "PLD of one member after another (Vadhan 2017, Lemma 2.2)"
)

// GroupOf returns the least epsilon that is proved when so many members, 1 up to the population,
// change together, at the recipe's delta. It is the lesser of two. In the one, a sample has
// some of the group with the probability that it has any, and then its sum moves by at most
// what all of them together can move it by. In the other, members change one after another: if
// one has delta d at e, k of them have d x (exp(ke) - 1) / (exp(e) - 1) at ke.
func GroupOf(recipe Recipe, members int) (Group, error) {
	if members < 1 || members > recipe.Population {
		return Group{}, fmt.Errorf("a group of %d of %d users: expected 1 up to all of them", members, recipe.Population)
	}
	recipe = recipe.withDefaults()
	all, err := together([]Recipe{recipe}, recipe.Delta)
	if err != nil {
		return Group{}, err
	}
	one := pld.Step{Sigma: all.steps[0].Sigma / float64(members), Rounds: all.steps[0].Rounds, Rate: 1}
	if all.steps[0].Rate < 1 {
		one.Rate = recipe.rateOfAny(members)
	}
	bound, err := all.relation.losses().epsilon([]pld.Step{one}, recipe.Delta)
	if err != nil {
		return Group{}, err
	}
	g := Group{members, Epsilon(bound.Upper), groupAsOne}
	if chained := all.chained(members, recipe.Delta); chained < bound.Upper {
		g.EpsilonProved, g.Theorem = Epsilon(chained), groupByChain
	}
	return g, nil
}

// rateOfAny is the probability that a sample has any of the members.
func (r Recipe) rateOfAny(members int) float64 {
	none := 0.0 // its log
	for i := range members {
		rest := float64(r.Population - i)
		if r.Sampling == Poisson {
			rest = float64(r.Population)
		}
		none += math.Log1p(-math.Min(1, float64(r.Cohort)/rest))
	}
	return -math.Expm1(none)
}

// chained is the least epsilon at delta of so many members, one after another.
func (c composed) chained(members int, delta float64) float64 {
	k, best := float64(members), math.Inf(1)
	low, high := math.Log(leastChained), math.Log(delta)
	for range chainSteps {
		middle := (low + high) / 2
		b, err := c.relation.losses().epsilon(c.steps, math.Exp(middle))
		if err != nil {
			return best
		}
		e := b.Upper
		if middle+(k-1)*e+math.Log1p(-math.Exp(-k*e))-math.Log1p(-math.Exp(-e)) <= math.Log(delta) {
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
