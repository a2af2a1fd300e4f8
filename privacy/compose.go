package privacy

import (
	"errors"
	"fmt"
	"math"

	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Composition is what several trainings on the same users cost together.
type Composition struct {
	// Epsilon and EpsilonProved are as in Report, of all rounds of all trainings.
	Epsilon       Epsilon `json:"epsilon"`
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// AccountantProved and EpsilonRenyi are as in Report.
	AccountantProved Accountant `json:"accountant_proved,omitempty"`
	EpsilonRenyi     Epsilon    `json:"epsilon_renyi"`
	// Infinite says that there is no bound, and the epsilons are null.
	Infinite bool    `json:"infinite,omitempty"`
	Delta    float64 `json:"delta"`
	// Order and OrderProved are the Rényi orders that gave Epsilon and EpsilonRenyi, 0 where
	// none gave a bound.
	Order       float64 `json:"order"`
	OrderProved float64 `json:"order_proved"`
	// Conversion, Neighbouring and Unit are those of all the trainings.
	Conversion   Conversion   `json:"conversion"`
	Neighbouring Neighbouring `json:"neighbouring"`
	Unit         string       `json:"unit"`
	// Trainings are how many were composed.
	Trainings int `json:"trainings"`
}

// Compose returns what all of the recipes cost together at a delta within (0, 1): their
// losses, and their Rényi divergences, add up (Mironov 2017, Proposition 1), which needs every
// training to draw noise of its own. The recipes may differ in everything but conversion,
// accountant, unit and the neighbouring relation of their sampling; their own deltas play no
// part.
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
		EpsilonProved: Epsilon(proved.epsilon), AccountantProved: proved.accountant, Infinite: math.IsInf(proved.epsilon, 1),
		Delta: delta, Conversion: r.Conversion, Neighbouring: r.Sampling.Neighbouring(), Unit: r.Unit, Trainings: len(recipes),
	}
	epsilon, order := all.papers.Epsilon(delta, r.Conversion)
	renyi, orderProved := all.proved.Epsilon(delta, r.Conversion)
	c.Epsilon, c.Order, c.EpsilonRenyi, c.OrderProved = Epsilon(epsilon), order, Epsilon(renyi), orderProved
	return c, nil
}

// composed are whole trainings under one relation.
type composed struct {
	recipe         Recipe // what they share
	papers, proved rdp.Curve
	steps          []pld.Step
}

// together are the divergences of whole trainings, in both conventions, and their steps.
func together(recipes []Recipe, delta float64) (all composed, err error) {
	var papers, proved []rdp.Curve
	for _, recipe := range recipes {
		if err := recipes[0].composes(recipe); err != nil {
			return all, err
		}
		recipe.Delta = delta
		meter, err := NewMeter(recipe)
		if err != nil {
			return all, err
		}
		ofPapers, ofProof := meter.curves(recipe.Rounds)
		papers, proved = append(papers, ofPapers), append(proved, ofProof)
		all.steps = append(all.steps, meter.steps(recipe.Rounds)...)
	}
	all.recipe = recipes[0].withDefaults()
	var provedErr error
	all.papers, err = rdp.Sum(papers...)
	all.proved, provedErr = rdp.Sum(proved...)
	return all, errors.Join(err, provedErr)
}

// proof is the proved epsilon by the accountant of the recipes.
func (c composed) proof(delta float64) proof {
	if !c.recipe.Accountant.Divergent() {
		return c.recipe.Sampling.Neighbouring().losses().tightest(c.steps, c.proved, delta)
	}
	return byDivergence(c.proved, delta, c.recipe.Conversion)
}

// composes says why the cost of two recipes cannot be added.
func (r Recipe) composes(other Recipe) error {
	r, other = r.withDefaults(), other.withDefaults()
	mine, others := r.Sampling.Neighbouring(), other.Sampling.Neighbouring()
	switch {
	case mine != others:
		return fmt.Errorf("%s and %s sampling cannot be composed: the one is proved for %s, the other for %s; "+
			"expected trainings under one relation", r.Sampling, other.Sampling, mine, others)
	case r.Unit != other.Unit:
		return fmt.Errorf("guarantees of a %s and of a %s cannot be composed: expected trainings that protect the same unit", r.Unit, other.Unit)
	case r.Accountant != other.Accountant:
		return fmt.Errorf("the accountants %s and %s cannot be composed: expected one for all trainings", r.Accountant, other.Accountant)
	case r.Conversion != other.Conversion:
		return fmt.Errorf("the conversions %s and %s cannot be composed: expected one for all trainings", r.Conversion, other.Conversion)
	}
	return nil
}
