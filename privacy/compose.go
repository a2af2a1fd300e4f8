package privacy

import (
	"errors"
	"fmt"
	"math"

	"coalmine/privacy/rdp"
)

// Composition is what several trainings on the same users cost together.
type Composition struct {
	// Epsilon and EpsilonProved are as in Report, of all rounds of all trainings.
	Epsilon       Epsilon `json:"epsilon"`
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// Infinite says that there is no bound, and the epsilons are null.
	Infinite bool    `json:"infinite,omitempty"`
	Delta    float64 `json:"delta"`
	// Order and OrderProved are the Rényi orders that gave the two epsilons, 0 where none
	// gave a bound.
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
// Rényi divergences add up (Mironov 2017, Proposition 1), which needs every training to
// draw noise of its own. The recipes may differ in everything but conversion, unit and the
// neighbouring relation of their sampling; their own deltas play no part.
func Compose(recipes []Recipe, delta float64) (Composition, error) {
	switch {
	case len(recipes) == 0:
		return Composition{}, errors.New("no recipes to compose: expected at least one")
	case !(delta > 0 && delta < 1):
		return Composition{}, fmt.Errorf("delta %v: expected a number above 0 and below 1", delta)
	}
	papers, proved, err := curvesOf(recipes, delta)
	if err != nil {
		return Composition{}, err
	}
	first := recipes[0].withDefaults()
	c := Composition{
		Delta: delta, Conversion: first.Conversion, Neighbouring: first.Sampling.Neighbouring(), Unit: first.Unit, Trainings: len(recipes),
	}
	var provedErr error
	c.Epsilon, c.Order, err = epsilonOfAll(papers, delta, first.Conversion)
	c.EpsilonProved, c.OrderProved, provedErr = epsilonOfAll(proved, delta, first.Conversion)
	c.Infinite = math.IsInf(float64(c.EpsilonProved), 1)
	return c, errors.Join(err, provedErr)
}

// curvesOf are the divergences of whole trainings, in both conventions.
func curvesOf(recipes []Recipe, delta float64) (papers, proved []rdp.Curve, err error) {
	papers, proved = make([]rdp.Curve, len(recipes)), make([]rdp.Curve, len(recipes))
	for i, recipe := range recipes {
		if err := recipes[0].composes(recipe); err != nil {
			return nil, nil, err
		}
		recipe.Delta = delta
		meter, err := NewMeter(recipe)
		if err != nil {
			return nil, nil, err
		}
		papers[i], proved[i] = meter.curves(recipe.Rounds)
	}
	return papers, proved, nil
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
	case r.Conversion != other.Conversion:
		return fmt.Errorf("the conversions %s and %s cannot be composed: expected one for all trainings", r.Conversion, other.Conversion)
	}
	return nil
}

func epsilonOfAll(curves []rdp.Curve, delta float64, conversion Conversion) (Epsilon, float64, error) {
	sum, err := rdp.Sum(curves...)
	if err != nil {
		return 0, 0, err
	}
	epsilon, order := sum.Epsilon(delta, conversion)
	return Epsilon(epsilon), order, nil
}
