package onerun

import (
	"fmt"
	"math"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// Ceiling is approximately the most that an audit can prove about a training that is as private as it claims,
// against one attacker: the bounds for the best guesser's mean number of right guesses, rounded down.
type Ceiling struct {
	// Attacker names the observed part of the training and the kind of canaries.
	Attacker Attacker `json:"attacker"`
	Correct  int      `json:"correct"`
	// EpsilonLower and TradeOffEpsilonLower are the bounds of an outcome with Correct right guesses. The
	// latter is nil for random cohorts, whose search takes seconds.
	EpsilonLower         float64          `json:"epsilon_lower"`
	TradeOffEpsilonLower *privacy.Epsilon `json:"trade_off_epsilon_lower,omitempty"`
}

// Attacker names a ceiling.
type Attacker string

// Attackers.
const (
	// OfMechanism observes all released sums, with canaries that differ as much as the clip norm allows and
	// do not hide each other.
	OfMechanism Attacker = "mechanism"
	// OfText observes all released sums, with texts whose clipped updates have the clip norm and are
	// orthogonal to those of the data that they replace: sqrt 2 clip norms apart instead of 2.
	OfText Attacker = "text"
	// OfLastModel observes the change of the model along the update of a text, as if the loss were linear:
	// the text's updates, of the clip norm each, plus the noise of all rounds, without other data.
	OfLastModel Attacker = "text-last-model"
)

// attackers returns the attackers of the claimed training, from the strongest to the weakest, with their
// trade-off curves.
func (p *BoundParams) attackers(recipe privacy.Recipe) (names []Attacker, curves []empirical.Curve, err error) {
	add := func(name Attacker, noise float64) {
		r := recipe
		r.NoiseMultiplier, r.ClipQuantile = noise, nil
		t, failed := privacy.NewTradeOff([]privacy.Recipe{r})
		if failed != nil {
			err = fmt.Errorf("trade-off curve at noise multiplier %g: %w", noise, failed)
			return
		}
		names, curves = append(names, name), append(curves, func(power float64) float64 { return t.At(1 - power) })
	}
	add(OfMechanism, recipe.NoiseMultiplier)
	if p.Vectors != nil {
		return names, curves, err
	}
	if p.Neighbouring == privacy.ReplaceOne {
		add(OfText, math.Sqrt2*recipe.NoiseMultiplier)
	}
	if recipe.Mechanism == nil {
		rate := min(1, float64(recipe.Cohort)/float64(recipe.Population))
		shift := rate * math.Sqrt(float64(recipe.Rounds)) / recipe.NoiseMultiplier
		names, curves = append(names, OfLastModel), append(curves, empirical.GaussianCurve(shift))
	}
	return names, curves, err
}

// ceilings returns the ceilings of a training that claims noise, for the numbers of guesses of the file.
func (p *BoundParams) ceilings(units int, counts datasets.PartitionMetrics) ([]Ceiling, error) {
	recipe := p.Null.Recipe(p.Delta, p.Unit, counts)
	if recipe.NoiseMultiplier == 0 {
		return nil, nil
	}
	names, curves, err := p.attackers(recipe)
	if err != nil {
		return nil, err
	}
	ceilings := make([]Ceiling, len(names))
	confidence := each(p.Confidence, len(p.choices()))
	for i, curve := range curves {
		o := empirical.Outcome{Units: units, Guesses: p.KPlus + p.KMinus}
		o.Correct = int(empirical.IdealCorrect(o.Units, o.Guesses, curve))
		bound, err := empirical.LowerBound(o, p.Delta, confidence)
		if err != nil {
			return nil, err
		}
		ceilings[i] = Ceiling{Attacker: names[i], Correct: o.Correct, EpsilonLower: bound.Epsilon}
		if p.Null.sampled() {
			continue
		}
		byCurve, err := p.minNoise()([]empirical.Outcome{o}, recipe, confidence)
		if err != nil {
			return nil, err
		}
		ceilings[i].TradeOffEpsilonLower = &byCurve.Epsilon
	}
	return ceilings, nil
}

func (p *BoundParams) minNoise() func([]empirical.Outcome, privacy.Recipe, float64) (empirical.NoiseBound, error) {
	if p.Null.Independent {
		return empirical.MinNoiseIndependent
	}
	return empirical.MinNoise
}

// estimate is nil for canaries without a likelihood, or with too few on a side of the coin.
func (p *BoundParams) estimate(units []audits.Unit, scores []float64) (*empirical.GaussianEstimate, error) {
	heads := 0
	for _, u := range units {
		if u.Included {
			heads++
		}
	}
	if p.score() != ScoreLikelihood || p.Delta == 0 || min(heads, len(units)-heads) < 2 {
		return nil, nil
	}
	e, err := empirical.EstimateGaussian(coinsOf(units), scores, p.Delta)
	return &e, err
}

// weakest is the ceiling of the weakest attacker, who sees no more than the audit's own score, or nil.
func (v *Outcome) weakest() *Ceiling {
	if len(v.Ceilings) == 0 {
		return nil
	}
	return &v.Ceilings[len(v.Ceilings)-1]
}

func (c *Ceiling) tradeOff() *float64 {
	if c.TradeOffEpsilonLower == nil {
		return nil
	}
	return numbers.Finite(*c.TradeOffEpsilonLower)
}

func estimateText(e *empirical.GaussianEstimate) string {
	return fmt.Sprintf("~%s (+-%s)", privacy.Epsilon(e.Epsilon), privacy.Epsilon(e.StandardError))
}

// beside is the part of the note about the ceilings and the estimate.
func (v *Outcome) beside() string {
	var text strings.Builder
	for _, c := range v.Ceilings {
		fmt.Fprintf(&text, "; as the training is claimed, %s is right about %d times, which certifies %s", c.Attacker.noun(), c.Correct, privacy.Epsilon(c.EpsilonLower))
		if c.TradeOffEpsilonLower != nil {
			fmt.Fprintf(&text, ", by the trade-off curve %s", *c.TradeOffEpsilonLower)
		}
	}
	if e := v.Estimate; e != nil {
		fmt.Fprintf(&text, "; epsilon is estimated, not bounded, as %s (standard error %s), if scores are normal", privacy.Epsilon(e.Epsilon), privacy.Epsilon(e.StandardError))
	}
	return text.String()
}

func (a Attacker) noun() string {
	switch a {
	case OfText:
		return "the best guesser of texts from all released sums"
	case OfLastModel:
		return "the best guesser of texts from the last model"
	case OfMechanism:
	}
	return "the best guesser of the mechanism"
}
