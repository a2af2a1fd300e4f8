package onerun

import (
	"cmp"
	"context"
	"math"

	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/privacy/onerun"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// Null is the training as its privacy is accounted: that of a noise multiplier, for all rounds
// that were asked for. One that ended earlier is more private, and its curve above the null's.
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
	// Records says that records are sampled, not users.
	Records bool `json:"records,omitempty"`
	// Joined says that another audit's clients stand beside the users: cohorts are drawn from
	// the population PopulationInput.
	Joined bool `json:"joined,omitempty"`
}

// newNull is that of the training. Central training without privacy goes through the records
// in order, epoch by epoch.
func newNull(t *audits.Training) *Null {
	r := t.Recipe
	return &Null{
		Cohort: r.Cohort, Rounds: r.Rounds, Sampling: cmp.Or(r.Sampling, privacy.Shuffled), NoiseMultiplier: r.NoiseMultiplier,
		Separation: r.Separation, Participations: r.Participations, Mechanism: r.Mechanism,
		Conversion: r.Conversion, Accountant: r.Accountant, Records: t.Central,
	}
}

// readCounts returns those of the population that cohorts are drawn from.
func (n *Null) readCounts(ctx context.Context, t *tasks.Task) (counts datasets.PartitionMetrics, err error) {
	input := UnitsInput
	if n.Joined {
		input = PopulationInput
	}
	err = t.InputMetrics(ctx, input, &counts)
	return counts, err
}

func (n *Null) recipe(p *BoundParams, counts datasets.PartitionMetrics) privacy.Recipe {
	population := counts.Users
	if n.Records {
		population = counts.Examples
	}
	return privacy.Recipe{
		Population: population, Cohort: n.Cohort, Rounds: n.Rounds, NoiseMultiplier: n.NoiseMultiplier, Delta: p.Delta,
		Sampling: n.Sampling, Conversion: n.Conversion, Accountant: n.Accountant, Unit: p.Unit,
		Separation: n.Separation, Participations: n.Participations, Mechanism: n.Mechanism,
	}
}

// TradeOff is the result of the guesses by the trade-off curve of the training (Mahloujifar, Melis
// and Chaudhuri 2024).
type TradeOff struct {
	// NoiseMultiplier is the least that is refuted: the training had less noise. It is nil
	// where none is.
	NoiseMultiplier *float64 `json:"noise_multiplier_refuted"`
	// EpsilonLower is the epsilon that is proved of that noise, 0 if none is refuted.
	EpsilonLower privacy.Epsilon `json:"epsilon_lower"`
	// PValue bounds the chance of guesses so good if the noise was as claimed; 1 without a
	// claim. Refuted says that it is below 1 - confidence.
	PValue  float64 `json:"p_value"`
	Refuted bool    `json:"refuted"`
	// Claimed says that there is a claim, and EpsilonRefuted that the outcome's EpsilonLower is
	// above what is proved of it.
	Claimed        bool `json:"claimed"`
	EpsilonRefuted bool `json:"epsilon_refuted"`
	// KPlus, KMinus and Correct are the guesses that refute, those of the file where none do.
	KPlus   int `json:"k_plus"`
	KMinus  int `json:"k_minus"`
	Correct int `json:"correct"`
}

// refute looks for the least noise that the guesses refute.
func (p *BoundParams) refute(units []audits.Unit, scores []float64, counts datasets.PartitionMetrics) (*TradeOff, error) {
	recipe := p.Null.recipe(p, counts)
	var outcomes []onerun.Outcome
	for _, k := range p.choices() {
		outcome, err := onerun.Guess(coinsOf(units), scores, k.KPlus, k.KMinus)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, outcome)
	}
	bound, err := onerun.LeastNoise(outcomes, recipe, p.Confidence)
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
	return v, nil
}

// compare says whether a bound by the theorem of Steinke et al. is above the proved epsilon.
func (p *BoundParams) compare(v *Outcome, counts datasets.PartitionMetrics) error {
	recipe := p.Null.recipe(p, counts)
	if recipe.NoiseMultiplier == 0 {
		return nil
	}
	report, err := privacy.Account(recipe)
	v.TradeOff.EpsilonRefuted = v.EpsilonLower > float64(report.EpsilonProved)
	return err
}
