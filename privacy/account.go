package privacy

import (
	"errors"
	"math"
	"slices"
	"sync"

	"coalmine/privacy/correlated"
	"coalmine/privacy/rdp"
)

// Account returns the privacy cost of a recipe, with a tree as [Tree] does. The error lists every field
// that is out of range.
func Account(recipe Recipe) (Report, error) {
	if recipe.Tree != nil {
		return Tree(recipe)
	}
	meter, err := NewMeter(recipe)
	if err != nil {
		return Report{}, err
	}
	return meter.After(recipe.Rounds)
}

// Sweep returns the cost of a recipe after each of several numbers of rounds, in the order given.
// account is [Account] or [Tree].
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

// Meter computes the cost of a recipe after any number of its rounds. It analyses one round once,
// on creation. It is safe for concurrent use.
type Meter struct {
	recipe             Recipe
	scheme             Scheme
	strategy           correlated.Strategy
	papers, proved     rdp.Curve // of one round
	sigma, sigmaProved float64
	updateNoise        float64
	within             sync.Map // Budget to func that returns its rounds
}

// NewMeter prepares a meter. It ignores the recipe's Rounds.
func NewMeter(recipe Recipe) (*Meter, error) {
	if err := recipe.Validate(); err != nil {
		return nil, err
	}
	if recipe.Tree != nil {
		return nil, errors.New("tree aggregation has no cost by rounds: account for whole trainings of it")
	}
	recipe = recipe.withDefaults()
	scheme, err := FindScheme(recipe.Sampling)
	if err != nil {
		return nil, err
	}
	strategy, err := recipe.strategy()
	if err != nil {
		return nil, err
	}
	var updateNoise float64
	if recipe.ClipQuantile != nil { // validated above
		updateNoise, _ = recipe.ClipQuantile.UpdateNoise(recipe.NoiseMultiplier)
	}
	m := &Meter{
		recipe: recipe, scheme: scheme, strategy: strategy,
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
	m.proved, err = scheme.proving(recipe.Accountant)(m.rate(), m.sigmaProved, rdp.DefaultOrders())
	return m, err
}

// rate returns the probability that a user takes part in a round.
func (m *Meter) rate() float64 { return m.scheme.rate(m.recipe.Cohort, m.recipe.Population) }

// After returns the cost of the given number of rounds, 0 or more.
func (m *Meter) After(rounds int) (Report, error) {
	r := m.recipe
	ofPapers, ofProof := m.curves(rounds)
	epsilon, order := ofPapers.Epsilon(r.Delta, r.Conversion)
	renyi, orderProved := ofProof.Epsilon(r.Delta, r.Conversion)
	proved := m.proof(rounds, r.Delta)
	infinite := math.IsInf(proved.epsilon, 1)
	report := Report{
		Epsilon: Epsilon(epsilon), EpsilonProved: Epsilon(proved.epsilon), EpsilonRenyi: Epsilon(renyi),
		Infinite: infinite, Delta: r.Delta,
		Order: order, OrderProved: orderProved, AccountantProved: proved.accountant, TheoremProved: m.theorem(proved.accountant),
		Conversion: r.Conversion, Sampling: r.Sampling, Neighbouring: m.scheme.Neighbouring,
		Population: r.Population, Cohort: r.Cohort, SamplingRate: m.rate(),
		Rounds: rounds, NoiseMultiplier: r.NoiseMultiplier,
		Sigma: m.sigma, SigmaProved: m.sigmaProved, UpdateNoise: m.updateNoise,
		Accountant: m.scheme.accountant, Unit: r.Unit, HoldsAgainst: r.holdsAgainst(), Control: r.Control,
		Assumptions: m.assumptions(rounds, infinite), NotCovered: slices.Clone(notCovered),
	}
	m.addCorrelation(&report)
	if !r.LossDistribution {
		return report, nil
	}
	interval, err := m.interval(rounds, proved)
	if err != nil {
		return Report{}, err
	}
	interval.PapersRefuted = report.Epsilon < interval.Lower
	report.LossDistribution = interval
	return report, nil
}

// Spent returns two epsilons for a number of rounds, by Rényi divergences with the recipe's
// conversion: by the convention of Report.Epsilon, and proved. It takes microseconds, and After
// tens of milliseconds, so the metrics of every training round use Spent.
func (m *Meter) Spent(rounds int) (epsilon, proved Epsilon) {
	ofPapers, ofProof := m.curves(rounds)
	e, _ := ofPapers.Epsilon(m.recipe.Delta, m.recipe.Conversion)
	p, _ := ofProof.Epsilon(m.recipe.Delta, m.recipe.Conversion)
	return Epsilon(e), Epsilon(p)
}

// curves returns the divergences of a number of rounds in both conventions.
func (m *Meter) curves(rounds int) (papers, proved rdp.Curve) {
	if m.scheme.correlated {
		curve := m.correlatedCurves(rounds)
		return curve, curve
	}
	counted := m.counted(rounds)
	return m.papers.Times(counted), m.proved.Times(counted)
}

// EpsilonProved returns the proved epsilon after the given number of rounds at delta, within (0,
// 1), by the recipe's accountant.
func (m *Meter) EpsilonProved(rounds int, delta float64) float64 {
	return m.proof(rounds, delta).epsilon
}

// limited returns the epsilon that budgets limit: the proved one, unless the recipe asks
// for the convention of the papers.
func (m *Meter) limited(rounds int, delta float64) float64 {
	if m.recipe.Accountant != Papers {
		return m.EpsilonProved(rounds, delta)
	}
	ofPapers, _ := m.curves(rounds)
	epsilon, _ := ofPapers.Epsilon(delta, m.recipe.Conversion)
	return epsilon
}

// counted returns the largest number of rounds that affect any one user.
func (m *Meter) counted(rounds int) int {
	if m.scheme.participations == nil {
		return rounds
	}
	return m.scheme.participations(rounds, m.recipe.Cohort, m.recipe.Population)
}
