package privacy

import (
	"math"
	"slices"

	"coalmine/privacy/rdp"
)

// Account returns the privacy cost of a recipe. The error lists every field
// that is out of range.
func Account(recipe Recipe) (Report, error) {
	meter, err := NewMeter(recipe)
	if err != nil {
		return Report{}, err
	}
	report := meter.After(recipe.Rounds)
	if recipe.LossDistribution {
		if report.LossDistribution, err = meter.lossDistribution(); err != nil {
			return Report{}, err
		}
		report.LossDistribution.PapersRefuted = report.Epsilon < report.LossDistribution.Lower
	}
	return report, nil
}

// Sweep returns the cost of a recipe after each of several numbers of rounds,
// in the order given, as account, which is Account or Tree, counts it.
func Sweep(account func(Recipe) (Report, error), recipe Recipe, rounds []int) ([]Report, error) {
	reports := make([]Report, len(rounds))
	for i, n := range rounds {
		recipe.Rounds = n
		var err error
		if reports[i], err = account(recipe); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// Meter tells what a recipe has cost after any number of its rounds. It does
// the work of one round once. It is safe for concurrent use.
type Meter struct {
	recipe             Recipe
	scheme             Scheme
	papers, proved     rdp.Curve // of one round
	sigma, sigmaProved float64
	updateNoise        float64
}

// NewMeter prepares a meter. The recipe's Rounds play no part.
func NewMeter(recipe Recipe) (*Meter, error) {
	if err := recipe.Validate(); err != nil {
		return nil, err
	}
	recipe = recipe.withDefaults()
	scheme, err := FindScheme(recipe.Sampling)
	if err != nil {
		return nil, err
	}
	var updateNoise float64
	if recipe.ClipQuantile != nil { // validated above
		updateNoise, _ = recipe.ClipQuantile.UpdateNoise(recipe.NoiseMultiplier)
	}
	m := &Meter{
		recipe: recipe, scheme: scheme,
		sigma: recipe.NoiseMultiplier, sigmaProved: recipe.NoiseMultiplier / scheme.Neighbouring.sensitivity(),
		updateNoise: updateNoise,
	}
	if m.papers, err = scheme.divergence(m.rate(), m.sigma, scheme.papersOrders()); err != nil {
		return nil, err
	}
	if m.sigmaProved == m.sigma {
		m.proved = m.papers
		return m, nil
	}
	m.proved, err = scheme.divergence(m.rate(), m.sigmaProved, rdp.DefaultOrders())
	return m, err
}

// rate is the chance of a user to take part in a round.
func (m *Meter) rate() float64 { return m.scheme.rate(m.recipe.Cohort, m.recipe.Population) }

// After returns the cost of rounds rounds, 0 or more.
func (m *Meter) After(rounds int) Report {
	r := m.recipe
	ofPapers, ofProof := m.curves(rounds)
	epsilon, order := ofPapers.Epsilon(r.Delta, r.Conversion)
	proved, orderProved := ofProof.Epsilon(r.Delta, r.Conversion)
	return Report{
		Epsilon: Epsilon(epsilon), EpsilonProved: Epsilon(proved),
		Infinite: math.IsInf(proved, 1), Delta: r.Delta,
		Order: order, OrderProved: orderProved,
		Conversion: r.Conversion, Sampling: r.Sampling, Neighbouring: m.scheme.Neighbouring,
		Population: r.Population, Cohort: r.Cohort, SamplingRate: m.rate(),
		Rounds: rounds, NoiseMultiplier: r.NoiseMultiplier,
		Sigma: m.sigma, SigmaProved: m.sigmaProved, UpdateNoise: m.updateNoise,
		Accountant: m.scheme.accountant, Unit: r.Unit, HoldsAgainst: r.holdsAgainst(),
		Assumptions: m.assumptions(math.IsInf(proved, 1)), NotCovered: slices.Clone(notCovered),
	}
}

// curves are the divergences of so many rounds, in both conventions.
func (m *Meter) curves(rounds int) (papers, proved rdp.Curve) {
	counted := m.counted(rounds)
	return m.papers.Times(counted), m.proved.Times(counted)
}

// EpsilonProved returns the proved epsilon after rounds rounds at delta,
// within (0, 1).
func (m *Meter) EpsilonProved(rounds int, delta float64) float64 {
	epsilon, _ := m.proved.Times(m.counted(rounds)).Epsilon(delta, m.recipe.Conversion)
	return epsilon
}

// counted is how many of the rounds cost anybody something, at most.
func (m *Meter) counted(rounds int) int {
	if m.scheme.participations == nil {
		return rounds
	}
	return m.scheme.participations(rounds, m.recipe.Cohort, m.recipe.Population)
}
