package privacy

import (
	"fmt"
	"math"
	"slices"

	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Tree returns the cost of one epoch of DP-FTRL by tree aggregation without
// restarts (Kairouz et al. 2021, Theorem 4.1), for a recipe to be compared with:
// every user is in at most one of its Rounds, 1 or more, which Cohort and
// Population must leave room for, and no sampling is assumed. NoiseMultiplier
// is the noise on one node of the tree over the clip norm. Both epsilons are about the same
// relation. Sampling, ClipQuantile and LossDistribution play no part.
func Tree(recipe Recipe) (Report, error) {
	recipe.Sampling, recipe.ClipQuantile = NoSampling, nil
	r := recipe.withDefaults()
	if err := r.Validate(); err != nil {
		return Report{}, err
	}
	if most := r.Population / r.Cohort; r.Rounds > most {
		return Report{}, fmt.Errorf("%d rounds of %d users are more than one epoch of %d users: expected at most %d rounds, since with the tree no user may take part twice",
			r.Rounds, r.Cohort, r.Population, most)
	}
	epoch := rdp.OneEpoch(r.Rounds)
	nodes, err := epoch.SquaredSensitivity()
	if err != nil {
		return Report{}, err
	}
	curve, err := rdp.Tree(epoch, r.NoiseMultiplier, rdp.DefaultOrders())
	if err != nil {
		return Report{}, err
	}
	bound, order := curve.Epsilon(r.Delta, r.Conversion)
	proved := byDivergence(curve, r.Delta, r.Conversion)
	if !r.Accountant.Divergent() {
		once := pld.Step{Rate: 1, Sigma: r.NoiseMultiplier / math.Sqrt(float64(nodes)), Rounds: 1}
		proved = ZeroOutOne.losses().tightest([]pld.Step{once}, curve, r.Delta)
	}
	infinite := math.IsInf(proved.epsilon, 1)
	return Report{
		Epsilon: Epsilon(bound), EpsilonProved: Epsilon(proved.epsilon), EpsilonRenyi: Epsilon(bound), Infinite: infinite, Delta: r.Delta,
		Order: order, OrderProved: order, AccountantProved: proved.accountant, TheoremProved: treeTheorems[proved.accountant],
		Conversion: r.Conversion, Sampling: r.Sampling, Neighbouring: ZeroOutOne,
		Population: r.Population, Cohort: r.Cohort, SamplingRate: 1,
		Rounds: r.Rounds, NoiseMultiplier: r.NoiseMultiplier, Sigma: r.NoiseMultiplier, SigmaProved: r.NoiseMultiplier,
		Rho:        Epsilon(float64(nodes) / (2 * r.NoiseMultiplier * r.NoiseMultiplier)),
		Accountant: treeTheorems[RDP],
		Unit:       r.Unit, HoldsAgainst: r.holdsAgainst(), NotCovered: slices.Clone(notCovered),
		Assumptions: r.treeAssumptions(infinite),
	}, nil
}

// treeTheorems are what the accountants of a tree rest on.
var treeTheorems = map[Accountant]string{
	RDP: "RDP, tree aggregation without restarts, one epoch (Kairouz et al. 2021, Theorem 4.1)",
	PLD: "PLD, tree aggregation as one Gaussian (Kairouz et al. 2021, Theorem 4.1; Balle and Wang 2018, Theorem 8)",
}

func (r Recipe) treeAssumptions(infinite bool) []string {
	_, relation := ZeroOutOne.assumptions()
	out := []string{
		"every update is clipped to the clip norm C, and every node of the tree over the rounds has noise of standard deviation noise multiplier x C",
		"every user takes part in at most one round, in whatever order users come",
		relation,
	}
	return inTermsOf(r.Unit, append(out, r.noiseAssumptions(infinite)...))
}
