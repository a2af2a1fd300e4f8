package onerun

import (
	"cmp"
	"context"
	"math"

	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
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
func (n *Null) sampled() bool {
	return n.Sampling == privacy.FixedSize || n.Sampling == privacy.Poisson
}

func (n *Null) readCounts(ctx context.Context, t *tasks.Task) (counts datasets.PartitionMetrics, err error) {
	input := UnitsInput
	if n.Joined {
		input = PopulationInput
	}
	err = t.InputMetrics(ctx, input, &counts)
	return counts, err
}

// Recipe is the recipe of the null over a population.
func (n *Null) Recipe(delta float64, unit string, counts datasets.PartitionMetrics) privacy.Recipe {
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

// TradeOff is the result by the trade-off curve of the training (Mahloujifar, Melis and Chaudhuri
// 2024).
type TradeOff struct {
	// NoiseMultiplier is the smallest refuted one: the training had less noise. It is nil if there is none.
	NoiseMultiplier *float64 `json:"noise_multiplier_refuted"`
	// EpsilonLower is the proved epsilon of that noise, or 0.
	EpsilonLower privacy.Epsilon `json:"epsilon_lower"`
	// PValue bounds the chance of at least as many right guesses under the claimed noise; 1 without a claim.
	// Refuted: it is at most 1 - confidence.
	PValue  float64 `json:"p_value"`
	Refuted bool    `json:"refuted"`
	// EpsilonRefuted reports whether the outcome's EpsilonLower is above the proved epsilon of the claim.
	Claimed        bool `json:"claimed"`
	EpsilonRefuted bool `json:"epsilon_refuted"`
	// KPlus, KMinus and Correct are the guesses that refute, or else those of the file.
	KPlus   int `json:"k_plus"`
	KMinus  int `json:"k_minus"`
	Correct int `json:"correct"`
	// Independent reports whether the bound assumes canaries that do not hide each other. EpsilonLargest is
	// the bound for such canaries if all these guesses were right.
	Independent    bool            `json:"independent,omitempty"`
	EpsilonLargest privacy.Epsilon `json:"epsilon_largest,omitempty"`
}

func (p *BoundParams) refute(units []audits.Unit, scores []float64, counts datasets.PartitionMetrics) (*TradeOff, error) {
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
		EpsilonLower: bound.Epsilon, PValue: bound.PValue, Refuted: bound.PValue <= 1-p.Confidence,
		KPlus: k.KPlus, KMinus: k.KMinus, Correct: outcomes[bound.By].Correct, Claimed: recipe.NoiseMultiplier > 0,
	}
	if !math.IsInf(bound.NoiseMultiplier, 1) {
		v.NoiseMultiplier = &bound.NoiseMultiplier
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

func (p *BoundParams) compare(v *Outcome, counts datasets.PartitionMetrics) error {
	recipe := p.Null.Recipe(p.Delta, p.Unit, counts)
	if recipe.NoiseMultiplier == 0 {
		return nil
	}
	report, err := privacy.Account(recipe)
	v.TradeOff.EpsilonRefuted = v.EpsilonLower > float64(report.EpsilonProved)
	return err
}
