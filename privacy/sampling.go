package privacy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/registry"
	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Sampling names the method that draws the cohort of a round from the
// population.
type Sampling string

// The samplings. Their entries are in schemes.go and separated.go.
const (
	FixedSize  Sampling = "fixed-size"
	Poisson    Sampling = "poisson"
	Shuffled   Sampling = "shuffled"
	Separated  Sampling = "separated"
	NoSampling Sampling = "none"
)

// Phrase returns a phrase such as "fixed-size sampling" or "no sampling".
func (s Sampling) Phrase() string {
	if s == NoSampling {
		return "no sampling"
	}
	return string(s) + " sampling"
}

var schemes = registry.New("sampling", func(s Scheme) Sampling { return s.Sampling }, fixedSize, poisson, shuffled, separated, noSampling)

// Scheme describes a sampling: how cohorts are drawn, and how they are accounted for. One type has
// both because a bound holds only for one kind of draw.
type Scheme struct {
	Sampling Sampling
	// Summary describes the draw of a cohort in one line; Source names the proof
	// of its bound.
	Summary, Source string
	// Neighbouring is the relation of the bound.
	Neighbouring Neighbouring

	// draw returns the cohort of a round in ascending order, Round.Cohort users on
	// average. If nil, the scheme is for accounting, and no training can run it.
	draw func(Round) ([]int, error)

	// rate returns the probability that a user takes part in a round.
	rate func(cohort, population int) float64
	// divergence returns the curve of one round at a sampling rate and noise sigma, relative to the
	// sensitivity, for the given orders (package rdp).
	divergence func(rate, sigma float64, orders []float64) (rdp.Curve, error)
	// pair is the divergence of the pair of outputs behind lossAccountant, and pairAccountant names
	// its theorem; nil means divergence.
	pair           func(rate, sigma float64, orders []float64) (rdp.Curve, error)
	pairAccountant string
	// papersOrders returns the orders of the papers' convention.
	papersOrders func() []float64
	// accountant names the theorem behind divergence.
	accountant string
	// assumption states the assumption about the draw in a sentence with the
	// placeholders of terms.
	assumption string
	// participations returns the largest number of rounds of any user, for a scheme with a bound
	// that counts these rounds without credit for sampling. If nil, the bound counts every round at
	// its rate.
	participations func(rounds, cohort, population int) int
	// correlated reports that the cost of rounds follows from their joint sensitivity. The noise
	// may be correlated between rounds.
	correlated bool
	// lossAccountant names the theorem by which the loss distribution bounds epsilon.
	lossAccountant string
	// attainedBy describes the data that reach the lower bound, with the placeholders of terms;
	// empty if both bounds come from one pair of outputs.
	attainedBy string
}

// Round is the input of the draw of a cohort.
type Round struct {
	// Number counts from 1.
	Number int
	// Population is the number of users, Cohort the number of users of the
	// round, on average if its size is random. 1 <= Cohort <= Population.
	Population, Cohort int
	// Separation is the least number of rounds from one participation of a user to the next, and
	// Participations the largest number of participations, for Separated; 0 selects the limit of
	// the population.
	Separation, Participations int
	// Stream returns the random numbers of a round, from their start. A scheme with dependent
	// rounds may ask for the streams of earlier rounds and of round 0.
	Stream func(number int) (*rand.Rand, error)
}

// FindScheme returns the entry of a sampling. The error explains why a sampling has none.
func FindScheme(s Sampling) (Scheme, error) {
	if why, ok := unaccounted[s]; ok {
		return Scheme{}, fmt.Errorf("sampling %q is not accounted for: %s", s, why)
	}
	return schemes.Find(s)
}

// unaccounted maps samplings of production fleets to the reason why they have no bound here.
var unaccounted = map[Sampling]string{
	"with-replacement": "a user may be drawn several times, and counts as often in the sum; the theorem on that " +
		"(Balle, Barthe and Gaboardi 2018, Theorem 10) needs a bound for every number of times, and the one on fixed-size is not about it. " +
		"Draw cohorts without replacement",
	"truncated-poisson": "cutting rounds that are too large costs (1 + exp(epsilon)) x rounds x the probability of one in delta " +
		"(Chua et al. 2024, Scalable DP-SGD), which takes the largest size. " +
		"Use --sampling poisson where that probability is 0, or poisson at a delta lowered by so much",
	"random-allocation": "the theorems on a random round of each epoch for each user (Feldman and Shenfeld 2025) are not implemented. " +
		"Use --sampling shuffled, which holds for every order, random or not",
}

// Schemes lists all ways to sample.
func Schemes() []Scheme { return schemes.Entries() }

// Choices lists the samplings that a training can run, for an experiment file.
func (Sampling) Choices() []string {
	var words []string
	for _, s := range schemes.Entries() {
		if s.Drawn() {
			words = append(words, string(s.Sampling))
		}
	}
	return words
}

// Neighbouring returns the relation of the guarantee, empty for an unknown sampling.
func (s Sampling) Neighbouring() Neighbouring {
	scheme, err := schemes.Find(s)
	if err != nil {
		return ""
	}
	return scheme.Neighbouring
}

func (s Scheme) proving(a Accountant) func(rate, sigma float64, orders []float64) (rdp.Curve, error) {
	if a == RDPPair && s.pair != nil {
		return s.pair
	}
	return s.divergence
}

// Drawn reports whether a training can run the scheme.
func (s Scheme) Drawn() bool { return s.draw != nil }

// Draw returns the users of a round in ascending order. It depends only on the round, never on the
// data. It returns the error of Round.Stream, and an error if the users do not suffice for Separated
// sampling. Draw panics for a scheme that is not Drawn.
func (s Scheme) Draw(r Round) ([]int, error) { return s.draw(r) }

// Neighbouring is the relation between two populations that the guarantee makes hard to
// distinguish.
type Neighbouring string

const (
	// ReplaceOne replaces one user by another. A sum of clipped updates moves by at most twice the
	// clip norm.
	ReplaceOne Neighbouring = "replace-one"
	// AddOrRemoveOne adds or removes a user. A sum of clipped updates moves by
	// at most the clip norm.
	AddOrRemoveOne Neighbouring = "add-or-remove-one"
	// ZeroOutOne makes all updates of one user zero. A sum of clipped updates
	// moves by at most the clip norm. It is the relation of DP-FTRL.
	ZeroOutOne Neighbouring = "zero-out-one"
)

// sensitivity returns the distance by which the clipped sum moves under the
// relation, in clip norms; +Inf for an unknown relation.
func (n Neighbouring) sensitivity() float64 {
	switch n {
	case ReplaceOne:
		return 2
	case AddOrRemoveOne, ZeroOutOne:
		return 1
	}
	return math.Inf(1)
}

// losses returns the losses of the pair of outputs that dominates all pairs of neighbours. Some
// data reach that pair if a member is added, removed or made zero, or if a member is replaced
// without sampling.
func (n Neighbouring) losses() losses {
	if n == ReplaceOne {
		return losses{pld.FixedSizeEpsilon, pld.FixedSizeDelta}
	}
	return attained
}

// bothEpsilons begins the assumptions if Rényi divergences prove Epsilon. By divergences, both
// epsilons are equal.
const (
	bothEpsilons = "both epsilons: "
	sameEpsilons = "both epsilons are the same: "
)

// assumptions returns the effect of the relation on the noise, and, if the
// papers' epsilon differs, their convention.
func (n Neighbouring) assumptions() (convention, relation string) {
	const papers = "epsilon is the papers' convention: sigma = noise multiplier"
	switch n {
	case ReplaceOne:
		return papers, "epsilon_proved: one {member} is replaced by another, which moves the sum by up to 2C, so sigma = noise multiplier / 2"
	case AddOrRemoveOne:
		return "", bothEpsilons + "one {member} is added or removed, which moves the sum by up to C, so sigma = noise multiplier"
	case ZeroOutOne:
		return "", bothEpsilons + "the {update}s of one {member} become zero, of which each moves a sum by up to C, so sigma = noise multiplier"
	}
	return papers, fmt.Sprintf("epsilon_proved: nothing is known to bound the sum under %q", n)
}
