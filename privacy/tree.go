package privacy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"coalmine/privacy/correlated"
	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Participations limits how often a user may take part in a training by tree
// aggregation.
type Participations struct {
	// Times is the largest number of participations of a user, 1 or more.
	Times int
	// Separation is the least number of rounds from one participation of a user to the next, as for
	// Separated sampling; 0 and 1 allow every round.
	Separation int
}

func (p Participations) separation() int { return cmp.Or(p.Separation, 1) }

// oneEpoch lets no user take part twice.
var oneEpoch = Participations{Times: 1}

// Tree returns the cost of DP-FTRL by tree aggregation without restarts (Kairouz et al. 2021,
// Theorem 4.1 and appendix D), for comparison with a recipe. recipe.Tree limits the
// participations of users, to one by default, in its Rounds, 1 or more. Cohort and Population must
// allow them. No sampling is assumed. NoiseMultiplier is the noise on one node of the tree over the
// clip norm. Both epsilons use the same relation. Sampling, ClipQuantile and LossDistribution are
// ignored.
func Tree(recipe Recipe) (Report, error) {
	t, err := newTree(recipe)
	if err != nil {
		return Report{}, err
	}
	r := t.recipe
	bound, order := t.curve.Epsilon(r.Delta, r.Conversion)
	proved := byDivergence(t.curve, r.Delta, r.Conversion)
	if !r.Accountant.Divergent() {
		proved = ZeroOutOne.losses().tightest(t.steps(ZeroOutOne), t.curve, r.Delta)
	}
	infinite := math.IsInf(proved.epsilon, 1)
	return Report{
		Epsilon: Epsilon(bound), EpsilonProved: Epsilon(proved.epsilon), EpsilonRenyi: Epsilon(bound), Infinite: infinite, Delta: r.Delta,
		Order: order, OrderProved: order, AccountantProved: proved.accountant, TheoremProved: t.theorem(proved.accountant),
		Conversion: r.Conversion, Sampling: r.Sampling, Neighbouring: ZeroOutOne,
		Population: r.Population, Cohort: r.Cohort, SamplingRate: 1,
		Rounds: r.Rounds, NoiseMultiplier: r.NoiseMultiplier, Sigma: r.NoiseMultiplier, SigmaProved: r.NoiseMultiplier,
		Rho:        Epsilon(t.squares / (2 * r.NoiseMultiplier * r.NoiseMultiplier)),
		Accountant: t.theorem(RDP),
		Unit:       r.Unit, HoldsAgainst: r.holdsAgainst(), NotCovered: slices.Clone(notCovered),
		Assumptions: t.assumptions(infinite),
	}, nil
}

// tree is a training by tree aggregation. One user moves all nodes together by at most
// sqrt(squares) clip norms.
type tree struct {
	recipe  Recipe
	squares float64
	byLevel bool // squares are an upper bound
	curve   rdp.Curve
}

func newTree(recipe Recipe) (*tree, error) {
	recipe.Sampling, recipe.ClipQuantile = NoSampling, nil
	t := &tree{recipe: recipe.withDefaults()}
	if t.recipe.Tree == nil {
		t.recipe.Tree = &oneEpoch
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	var err error
	if t.squares, t.byLevel, err = t.squared(*t.recipe.Tree); err != nil {
		return nil, err
	}
	t.curve, err = t.divergence(1)
	return t, err
}

// squared returns the squared sensitivity for a user with these participations: for the worst
// placement or, if that takes too long to find, for the worst placement on each level.
func (t *tree) squared(p Participations) (squares float64, byLevel bool, err error) {
	participation := correlated.Participation{Rounds: t.recipe.Rounds, Times: p.Times, Separation: p.separation()}
	worst, err := correlated.Tree{}.WorstSquares(participation)
	if !errors.Is(err, correlated.ErrTooManyPlacements) {
		return float64(worst), false, err
	}
	squares, err = correlated.Tree{}.SquaredSensitivity(participation)
	return squares, true, err
}

// divergence returns the divergence of the whole training if a user moves the nodes by times the
// distance of zeroing its updates.
func (t *tree) divergence(times float64) (rdp.Curve, error) {
	sigma := t.recipe.NoiseMultiplier / times
	return rdp.ZeroConcentrated(math.Max(t.squares*(1/sigma/sigma/2), math.SmallestNonzeroFloat64), rdp.DefaultOrders())
}

// Limits of the search for the worst rounds of a user.
const (
	maxTimes      = 256
	maxTreeRounds = 1 << 20
)

// validate returns an error if there are too few users for the cohorts.
func (t *tree) validate() error {
	r, p := t.recipe, *t.recipe.Tree
	if err := r.Validate(); err != nil {
		return err
	}
	switch {
	case p.Times < 1 || p.Times > maxTimes:
		return fmt.Errorf("%d participations of a user: expected 1 to %d", p.Times, maxTimes)
	case p.Separation < 0:
		return fmt.Errorf("a separation of %d rounds: expected at least 1, which lets a user take part in two rounds in a row", p.Separation)
	case p.Times > 1 && r.Rounds > maxTreeRounds:
		return fmt.Errorf("%d rounds with %d participations of a user: expected at most %d rounds where a user takes part more than once", r.Rounds, p.Times, maxTreeRounds)
	}
	most := r.Population / r.Cohort // rounds before a user must take part again
	switch {
	case r.Rounds < 1:
		return fmt.Errorf("tree aggregation over %d steps: expected at least 1", r.Rounds)
	case p.Times == 1 && r.Rounds > most:
		return fmt.Errorf("%d rounds of %d users are more than one epoch of %d users: expected at most %d rounds, since with the tree no user may take part twice",
			r.Rounds, r.Cohort, r.Population, most)
	case float64(r.Rounds)*float64(r.Cohort) > float64(p.Times)*float64(r.Population):
		return fmt.Errorf("%d rounds of %d users are more than %d users can take part in, %d times each: expected fewer rounds or more participations",
			r.Rounds, r.Cohort, r.Population, p.Times)
	case min(r.Rounds, p.Separation) > most:
		return fmt.Errorf("a separation of %d rounds with cohorts of %d takes more users than the %d there are: expected at most %d",
			p.Separation, r.Cohort, r.Population, most)
	}
	return nil
}

// steps returns the tree as one Gaussian mechanism, under ZeroOutOne or
// ReplaceOne.
func (t *tree) steps(under Neighbouring) []pld.Step {
	return []pld.Step{{Rate: 1, Sigma: t.recipe.NoiseMultiplier / under.sensitivity() / math.Sqrt(t.squares), Rounds: 1}}
}

// treePart returns the contribution of a tree to a composition.
func (r Recipe) treePart(under Neighbouring) (part, error) {
	t, err := newTree(r)
	if err != nil {
		return part{}, err
	}
	p := part{papers: t.curve, steps: t.steps(under), ofLosses: []string{t.mechanism() + " as one Gaussian (" + treeSource + ")"}, ofDivergences: []string{t.theorem(RDP)}}
	p.proved, err = t.divergence(under.sensitivity())
	return p, err
}

const treeSource = "Kairouz et al. 2021, Theorem 4.1"

func (t *tree) mechanism() string {
	if t.recipe.Tree.Times == 1 {
		return "tree aggregation"
	}
	name := fmt.Sprintf("tree aggregation with %d participations, %d rounds apart", t.recipe.Tree.Times, t.recipe.Tree.separation())
	if t.byLevel {
		name += ", bounded by the worst placement for each level of the tree"
	}
	return name
}

// theorem names the theorem behind an accountant of the tree.
func (t *tree) theorem(a Accountant) string {
	switch {
	case a == PLD:
		return "PLD, " + t.mechanism() + " as one Gaussian (" + treeSource + "; Balle and Wang 2018, Theorem 8)"
	case a == RDP && t.recipe.Tree.Times == 1:
		return "RDP, tree aggregation without restarts, one epoch (" + treeSource + ")"
	case a == RDP:
		return "RDP, " + t.mechanism() + ", without restarts (Kairouz et al. 2021, appendix D)"
	}
	return ""
}

func (t *tree) assumptions(infinite bool) []string {
	_, relation := ZeroOutOne.assumptions()
	rounds := "every user takes part in at most one round, in whatever order users come"
	if p := t.recipe.Tree; p.Times > 1 {
		rounds = fmt.Sprintf("every user takes part in at most %d rounds, each %d or more after the one before; epsilon is that of the worst rounds", p.Times, p.separation())
	}
	out := []string{
		"every update is clipped to the clip norm C, and every node of the tree over the rounds has noise of standard deviation noise multiplier x C",
		rounds,
		relation,
	}
	return inTermsOf(t.recipe.Unit, append(out, t.recipe.noiseAssumptions(infinite)...))
}
