package onerun

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
)

// Null is the training as its privacy is accounted, for all requested rounds. A training that ended earlier
// is more private, and its curve is above the null's.
type Null struct {
	Cohort          int                   `json:"cohort"`
	Rounds          int                   `json:"rounds"`
	Sampling        privacy.Sampling      `json:"sampling"`
	NoiseMultiplier float64               `json:"noise_multiplier,omitempty"`
	Separation      int                   `json:"separation,omitempty"`
	Participations  int                   `json:"participations,omitempty"`
	Mechanism       *correlated.Mechanism `json:"mechanism,omitempty"`
	Conversion      privacy.Conversion    `json:"conversion,omitempty"`
	Accountant      privacy.Accountant    `json:"accountant,omitempty"`
	// Records reports whether records are sampled, not users.
	Records bool `json:"records,omitempty"`
	// Joined reports whether the population includes another audit's clients: cohorts are drawn from
	// PopulationInput.
	Joined bool `json:"joined,omitempty"`
	// Independent reports whether canaries do not hide each other (empirical.IndependentPValue).
	Independent bool `json:"independent,omitempty"`
}

// NewNull treats central training without privacy as a pass through the records in order, epoch by epoch.
func NewNull(t *audits.Training) *Null {
	r := t.Recipe
	return &Null{
		Cohort: r.Cohort, Rounds: r.Rounds, Sampling: cmp.Or(r.Sampling, privacy.Shuffled), NoiseMultiplier: r.NoiseMultiplier,
		Separation: r.Separation, Participations: r.Participations, Mechanism: r.Mechanism,
		Conversion: r.Conversion, Accountant: r.Accountant, Records: t.Central,
	}
}

// sampled reports whether cohorts are random samples, whose privacy is amplified.
func (n *Null) sampled() bool { return sampled(n.Sampling) }

func sampled(s privacy.Sampling) bool { return s == privacy.FixedSize || s == privacy.Poisson }

func (n *Null) readCounts(ctx context.Context, t *tasks.Task) (counts population.PartitionMetrics, err error) {
	input := UnitsInput
	if n.Joined {
		input = PopulationInput
	}
	err = t.InputMetrics(ctx, input, &counts)
	return counts, err
}

// Recipe returns the recipe of the null over a population.
func (n *Null) Recipe(delta float64, unit string, counts population.PartitionMetrics) privacy.Recipe {
	population := counts.Users
	if n.Records {
		population = counts.Examples
	}
	return privacy.Recipe{
		Population: population, Cohort: n.Cohort, Rounds: n.Rounds, NoiseMultiplier: n.NoiseMultiplier, Delta: delta,
		Sampling: n.Sampling, Conversion: n.Conversion, Accountant: n.Accountant, Unit: unit,
		Separation: n.Separation, Participations: n.Participations, Mechanism: n.Mechanism,
	}
}

// Noise is the noise that guesses refute, by the trade-off curve of the training.
type Noise struct {
	// NoiseMultiplier is the smallest refuted one: the training had less noise. It is nil if there is none.
	NoiseMultiplier *float64 `json:"noise_multiplier_refuted" doc:"smallest refuted noise multiplier"`
	// EpsilonLower is the proved epsilon of that noise, or 0.
	EpsilonLower privacy.Epsilon `json:"epsilon_lower" doc:"proved epsilon of the refuted noise"`
	// PValue bounds the chance of guesses at least as good under the claimed noise; 1 without a claim.
	PValue float64 `json:"p_value" doc:"bound on the chance of guesses at least as good under the claimed noise; 1 without a claim"`
}

func NewNoise(b empirical.NoiseBound) Noise {
	return Noise{NoiseMultiplier: numbers.Finite(b.NoiseMultiplier), EpsilonLower: b.Epsilon, PValue: b.PValue}
}

// Text returns the proved epsilon, and the refuted multiplier.
func (n *Noise) Text() string {
	if n.NoiseMultiplier == nil {
		return "0"
	}
	return fmt.Sprintf("%s (%.3g)", n.EpsilonLower, *n.NoiseMultiplier)
}

// TradeOff is the result by the trade-off curve of the training (Mahloujifar, Melis and Chaudhuri
// 2024).
type TradeOff struct {
	Noise
	// Refuted reports whether PValue is at most 1 - confidence.
	Refuted bool `json:"refuted"`
	// Claimed reports whether the training claims noise, EpsilonRefuted whether the outcome's EpsilonLower is
	// above the proved epsilon of that claim.
	Claimed        bool `json:"claimed"`
	EpsilonRefuted bool `json:"epsilon_refuted"`
	// KPlus, KMinus and Correct are the guesses that refute, or else those of the file.
	KPlus   int `json:"k_plus" doc:"number of guesses that a canary was in the training data"`
	KMinus  int `json:"k_minus" doc:"number of guesses that a canary was not in the training data"`
	Correct int `json:"correct" doc:"number of right guesses"`
	// Independent reports whether the bound assumes canaries that do not hide each other. EpsilonLargest is
	// the bound for such canaries if all these guesses were right.
	Independent    bool            `json:"independent,omitempty"`
	EpsilonLargest privacy.Epsilon `json:"epsilon_largest,omitempty" doc:"lower bound of epsilon if all guesses were right"`
}

func (p *BoundParams) refute(units []audits.Unit, scores []float64, counts population.PartitionMetrics) (*TradeOff, error) {
	recipe := p.Null.Recipe(p.Delta, p.Unit, counts)
	var outcomes []empirical.Outcome
	for _, k := range p.choices() {
		outcome, err := empirical.Guess(coinsOf(units), scores, k.KPlus, k.KMinus)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, outcome)
	}
	bound, err := p.minNoise()(outcomes, recipe, p.Confidence)
	if err != nil {
		return nil, err
	}
	k := p.choices()[bound.By]
	v := &TradeOff{
		Noise: NewNoise(bound), Refuted: bound.PValue <= 1-p.Confidence, Claimed: recipe.NoiseMultiplier > 0,
		KPlus: k.KPlus, KMinus: k.KMinus, Correct: outcomes[bound.By].Correct,
	}
	if v.Independent = p.Null.Independent; v.Independent {
		for i := range outcomes {
			outcomes[i].Correct = outcomes[i].Guesses
		}
		best, err := p.minNoise()(outcomes, recipe, p.Confidence)
		v.EpsilonLargest = best.Epsilon
		return v, err
	}
	return v, nil
}

func (p *BoundParams) compare(v *Outcome, counts population.PartitionMetrics) error {
	recipe := p.Null.Recipe(p.Delta, p.Unit, counts)
	if recipe.NoiseMultiplier == 0 {
		return nil
	}
	report, err := privacy.Account(recipe)
	v.TradeOff.EpsilonRefuted = v.EpsilonLower > float64(report.EpsilonProved)
	return err
}

// curveContradicts reports whether guesses that are all right refute the trade-off curve of a report: the guesses
// made by the curve of independent canaries, or else one for each coin. It is true if the curve is unknown.
func (v *Outcome) curveContradicts(proved *privacy.Report) bool {
	switch t := v.TradeOff; {
	case t == nil:
		return false
	case t.Refuted, proved.Mechanism != "":
		return true
	case t.Independent:
		return t.EpsilonLargest >= proved.EpsilonProved
	}
	curve, err := SharedCurve(ClaimOf(proved))
	return err != nil || empirical.Refutes(empirical.Outcome{Units: v.Canaries, Guesses: v.Canaries, Correct: v.Canaries}, curve, 1-v.Confidence)
}

// ClaimOf returns the recipe of a report on noise that is independent between rounds.
func ClaimOf(r *privacy.Report) privacy.Recipe {
	return privacy.Recipe{
		Population: r.Population, Cohort: r.Cohort, Rounds: r.Rounds, NoiseMultiplier: r.NoiseMultiplier, Delta: r.Delta,
		Sampling: r.Sampling, Conversion: r.Conversion, Unit: r.Unit, Separation: r.Separation, Participations: r.Participations,
	}
}

// SharedCurve returns the trade-off curve of a claim. For random cohorts it rounds the population up by less than 1/32
// of itself, so that cells with different seeds share one curve, which takes long to compute. Rounding up raises the
// curve, which is refuted more easily: a warning may be missing but is never wrong.
func SharedCurve(claim privacy.Recipe) (empirical.Curve, error) {
	if sampled(claim.Sampling) {
		step := 1 << max(0, bits.Len(uint(claim.Population))-6)
		claim.Population = (claim.Population + step - 1) / step * step
	}
	return empirical.CurveOf(claim)
}

// Ceiling is approximately the most that an audit can prove about a training that is as private as it claims,
// against one attacker: the bounds for the best guesser's mean number of right guesses, rounded down.
type Ceiling struct {
	// Attacker names the observed part of the training and the kind of canaries.
	Attacker Attacker `json:"attacker"`
	Correct  int      `json:"correct" doc:"number of right guesses"`
	// EpsilonLower and TradeOffEpsilonLower are the bounds of an outcome with Correct right guesses. The
	// latter is nil for random cohorts, whose search takes seconds.
	EpsilonLower         float64          `json:"epsilon_lower" doc:"one-run lower bound of epsilon"`
	TradeOffEpsilonLower *privacy.Epsilon `json:"trade_off_epsilon_lower,omitempty" doc:"lower bound of epsilon by the trade-off function"`
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
		r.NoiseMultiplier = noise
		curve, failed := empirical.CurveOf(r)
		err = cmp.Or(err, failed)
		names, curves = append(names, name), append(curves, curve)
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
func (p *BoundParams) ceilings(units int, counts population.PartitionMetrics) ([]Ceiling, error) {
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

// estimate returns nil if canaries have no likelihood, or if heads or tails have fewer than two distinct scores. The
// scores of tails are equal in a training without noise.
func (p *BoundParams) estimate(units []audits.Unit, scores []float64) (*empirical.GaussianEstimate, error) {
	if p.score() != ScoreLikelihood || p.Delta == 0 {
		return nil, nil
	}
	for _, side := range []bool{true, false} {
		some := map[float64]bool{}
		for i, u := range units {
			if u.Included == side {
				some[scores[i]] = true
			}
		}
		if len(some) < 2 {
			return nil, nil
		}
	}
	e, err := empirical.EstimateGaussian(coinsOf(units), scores, p.Delta)
	return &e, err
}

// weakest returns the ceiling of the weakest attacker, who sees no more than the audit's own score, or nil.
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

// EstimateText returns an estimate of epsilon with its standard error.
func EstimateText(epsilon, standardError float64) string {
	return fmt.Sprintf("~%s (+-%s)", privacy.Epsilon(epsilon), privacy.Epsilon(standardError))
}

// beside returns the part of the note about the ceilings and the estimate.
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
