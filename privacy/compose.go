package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Composition is the joint privacy cost of several trainings on the same users.
type Composition struct {
	// Epsilon and EpsilonProved are as in Report, over all rounds of all
	// trainings.
	Epsilon       Epsilon `json:"epsilon"`
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// AccountantProved, TheoremProved and EpsilonRenyi are as in Report.
	AccountantProved Accountant `json:"accountant_proved,omitempty"`
	TheoremProved    string     `json:"theorem_proved,omitempty"`
	EpsilonRenyi     Epsilon    `json:"epsilon_renyi"`
	// Rho and Mu are as in Report, under Neighbouring; 0 and omitted without rounds.
	Rho Epsilon `json:"rho,omitempty"`
	Mu  Epsilon `json:"mu,omitempty"`
	// Infinite reports that there is no bound; the epsilons are null in that case.
	Infinite bool    `json:"infinite,omitempty"`
	Delta    float64 `json:"delta"`
	// Order and OrderProved are the Rényi orders that gave Epsilon and EpsilonRenyi, 0 if no
	// order gave a bound.
	Order       float64 `json:"order"`
	OrderProved float64 `json:"order_proved"`
	// Conversion and Unit are common to all the trainings. Neighbouring is a relation under which
	// all are proved.
	Conversion   Conversion   `json:"conversion"`
	Neighbouring Neighbouring `json:"neighbouring"`
	Unit         string       `json:"unit"`
	// Trainings is the number of composed trainings.
	Trainings int `json:"trainings"`
}

// Compose returns the joint cost of all recipes at a delta within (0, 1): their losses and
// their Rényi divergences add up (Mironov 2017, Proposition 1), provided that every training
// draws its own noise. The recipes may differ in everything but conversion, accountant and
// unit; their own deltas are ignored.
//
// The relation is the recipes' own if all have the same. If members are added, removed or made
// zero, it is [ZeroOutOne]: the sum over a Poisson sample without a member equals the sum with a
// zero update of the member. Otherwise it is [ReplaceOne], whatever the sampling. Replacing the
// member then moves the sum over a Poisson sample by up to twice the clip norm, and the pair that
// dominates samples of fixed size dominates here too: advanced joint convexity (Balle, Barthe and
// Gaboardi 2018, Theorem 2) uses only the probability that a sample contains the member. The nodes
// of a tree move by at most twice as far as if updates become zero.
func Compose(recipes []Recipe, delta float64) (Composition, error) {
	switch {
	case len(recipes) == 0:
		return Composition{}, errors.New("no recipes to compose: expected at least one")
	case !(delta > 0 && delta < 1):
		return Composition{}, fmt.Errorf("delta %v: expected a number above 0 and below 1", delta)
	}
	all, err := together(recipes, delta)
	if err != nil {
		return Composition{}, err
	}
	r := all.recipe
	proved := all.proof(delta)
	c := Composition{
		EpsilonProved: Epsilon(proved.epsilon), AccountantProved: proved.accountant, TheoremProved: all.theorem(proved.accountant),
		Rho: Epsilon(rho(all.steps)), Mu: Epsilon(rho(all.steps)).gaussian(), Infinite: math.IsInf(proved.epsilon, 1),
		Delta: delta, Conversion: r.Conversion, Neighbouring: all.relation, Unit: r.Unit, Trainings: len(recipes),
	}
	epsilon, order := all.papers.Epsilon(delta, r.Conversion)
	renyi, orderProved := all.proved.Epsilon(delta, r.Conversion)
	c.Epsilon, c.Order, c.EpsilonRenyi, c.OrderProved = Epsilon(epsilon), order, Epsilon(renyi), orderProved
	return c, nil
}

// composed holds whole trainings under one relation.
type composed struct {
	recipe   Recipe // the fields common to all
	relation Neighbouring
	part
}

// part is the contribution of whole trainings to a composition: their divergences (by the papers'
// convention, and proved), their steps, and the theorems behind both.
type part struct {
	papers, proved          rdp.Curve
	steps                   []pld.Step
	ofLosses, ofDivergences []string
}

// together adds up whole trainings.
func together(recipes []Recipe, delta float64) (all composed, err error) {
	var papers, proved []rdp.Curve
	all.relation = inCommon(recipes)
	for _, recipe := range recipes {
		if err := recipes[0].composes(recipe); err != nil {
			return all, err
		}
		recipe.Delta = delta
		p, err := recipe.part(all.relation)
		if err != nil {
			return all, err
		}
		papers, proved = append(papers, p.papers), append(proved, p.proved)
		all.steps = append(all.steps, p.steps...)
		all.ofLosses, all.ofDivergences = append(all.ofLosses, p.ofLosses...), append(all.ofDivergences, p.ofDivergences...)
	}
	all.recipe = recipes[0].withDefaults()
	var provedErr error
	all.papers, err = rdp.Sum(papers...)
	all.proved, provedErr = rdp.Sum(proved...)
	return all, errors.Join(err, provedErr)
}

// inCommon returns a relation under which all recipes are proved.
func inCommon(recipes []Recipe) Neighbouring {
	relations := map[Neighbouring]bool{}
	for _, r := range recipes {
		relations[r.withDefaults().relation()] = true
	}
	switch {
	case len(relations) == 1:
		return recipes[0].withDefaults().relation()
	case relations[ReplaceOne]:
		return ReplaceOne
	}
	return ZeroOutOne
}

// relation returns the neighbouring relation of the recipe, not composed with others.
func (r Recipe) relation() Neighbouring {
	if r.Tree != nil {
		return ZeroOutOne
	}
	return r.Sampling.Neighbouring()
}

// part returns the contribution of the recipe under a relation.
func (r Recipe) part(under Neighbouring) (part, error) {
	if r.Tree != nil {
		return r.treePart(under)
	}
	meter, err := NewMeter(r)
	if err != nil {
		return part{}, err
	}
	p := part{steps: meter.steps(r.Rounds), ofLosses: []string{meter.scheme.lossAccountant}, ofDivergences: []string{meter.divergenceTheorem()}}
	p.papers, p.proved = meter.curves(r.Rounds)
	if under == ReplaceOne && meter.scheme.Neighbouring != ReplaceOne {
		return p.replacing(meter.scheme)
	}
	return p, nil
}

// replacing returns the part under replacement of one member, which moves every output by up to
// twice as far as if the member is added or removed or its updates become zero.
func (p part) replacing(of Scheme) (part, error) {
	step := &p.steps[0]
	step.Sigma /= ReplaceOne.sensitivity()
	curve, err := rdp.ReplacedPair(step.Rate, step.Sigma, rdp.DefaultOrders())
	p.proved = curve.Times(step.Rounds)
	if of.Sampling == Poisson {
		p.ofLosses = []string{replacedPoisson}
		p.ofDivergences = []string{"RDP, " + replacedPoisson}
	}
	return p, err
}

const replacedPoisson = "the pair that dominates Poisson samples under replacement (Balle, Barthe and Gaboardi 2018, Theorem 2; Zhu, Dong and Wang 2022, Theorem 11)"

func (c composed) proof(delta float64) proof {
	if !c.recipe.Accountant.Divergent() {
		return c.relation.losses().tightest(c.steps, c.proved, delta)
	}
	return byDivergence(c.proved, delta, c.recipe.Conversion)
}

// theorem names the theorems behind an accountant of the composition, each once.
func (c composed) theorem(a Accountant) string {
	var names []string
	switch a {
	case PLD:
		names = append([]string{"PLD"}, c.ofLosses...)
	case RDP:
		names = c.ofDivergences
	case Tightest, Papers, RDPPair:
		// They only choose among accountants.
	}
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return strings.Join(once, "; ")
}

// composes returns an error if the cost of two recipes cannot be added.
func (r Recipe) composes(other Recipe) error {
	r, other = r.withDefaults(), other.withDefaults()
	switch {
	case r.Unit != other.Unit:
		return fmt.Errorf("guarantees of a %s and of a %s cannot be composed: expected trainings that protect the same unit", r.Unit, other.Unit)
	case r.Accountant != other.Accountant:
		return fmt.Errorf("the accountants %s and %s cannot be composed: expected one for all trainings", r.Accountant, other.Accountant)
	case r.Conversion != other.Conversion:
		return fmt.Errorf("the conversions %s and %s cannot be composed: expected one for all trainings", r.Conversion, other.Conversion)
	}
	return nil
}
