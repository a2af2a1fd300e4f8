package privacy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/registry"
	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Sampling says how the cohort of a round is drawn from the population.
type Sampling string

// Ways to sample. The entry of each is in schemes.go.
const (
	FixedSize  Sampling = "fixed-size"
	Poisson    Sampling = "poisson"
	Shuffled   Sampling = "shuffled"
	Separated  Sampling = "separated"
	NoSampling Sampling = "none"
)

// schemes are all ways to sample.
var schemes = registry.New("sampling", func(s Scheme) Sampling { return s.Sampling }, fixedSize, poisson, shuffled, separated, noSampling)

// Scheme describes a way to sample: how cohorts are drawn, and what accounting for
// them takes. The two stand together, since a bound holds for one draw alone.
type Scheme struct {
	Sampling Sampling
	// Summary says in one line how a cohort is drawn, Source who proved its bound.
	Summary, Source string
	// Neighbouring is the relation under which the bound is proved.
	Neighbouring Neighbouring

	// draw returns the cohort of a round in ascending order, Round.Cohort users in
	// the mean. nil: the scheme is for accounting, and no training can run it.
	draw func(Round) ([]int, error)

	// rate is the chance of a user to take part in a round.
	rate func(cohort, population int) float64
	// divergence is that of one round at a sampling rate and noise sigma, relative
	// to the sensitivity, for the given orders (package rdp).
	divergence func(rate, sigma float64, orders []float64) (rdp.Curve, error)
	// pair is the divergence of the pair of outputs that lossAccountant is about, and
	// pairAccountant its theorem. nil: divergence is it.
	pair           func(rate, sigma float64, orders []float64) (rdp.Curve, error)
	pairAccountant string
	// papersOrders are the orders of the papers' convention.
	papersOrders func() []float64
	// accountant names the theorem behind divergence.
	accountant string
	// assumption says in a sentence what is taken for granted of the draw, in the
	// placeholders of terms.
	assumption string
	// participations is how many of the rounds anybody takes part in, at most, for a
	// scheme whose bound counts these without credit for sampling. nil: every round
	// counts, at its rate.
	participations func(rounds, cohort, population int) int
	// correlated says that rounds cost together what their sensitivity says, whatever the
	// noise of one takes back of that of others.
	correlated bool
	// lossAccountant names the theorem by which the loss distribution bounds epsilon.
	lossAccountant string
	// attainedBy are the data that cost as much as the lower bound says, in the placeholders
	// of terms; empty where both bounds are those of one pair of outputs.
	attainedBy string
}

// Round is what a cohort is drawn for.
type Round struct {
	// Number counts from 1.
	Number int
	// Population is the number of users, Cohort how many of them the round is to
	// have, in the mean where its size is random. 1 <= Cohort <= Population.
	Population, Cohort int
	// Separation and Participations are the least rounds from one participation of a user to
	// the next, and the most participations, of Separated; 0 for what the population allows.
	Separation, Participations int
	// Stream returns the random numbers of a round, from their start. A scheme
	// whose rounds depend on each other may ask for those of earlier ones, and for round 0.
	Stream func(number int) (*rand.Rand, error)
}

// FindScheme returns the entry of a way to sample. The error says why there is none.
func FindScheme(s Sampling) (Scheme, error) {
	if why, ok := unaccounted[s]; ok {
		return Scheme{}, fmt.Errorf("sampling %q is not accounted for: %s", s, why)
	}
	return schemes.Find(s)
}

// unaccounted are ways to sample that fleets have, and why nothing is proved of them here.
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

// Choices lists the samplings that a training can run, as words of an experiment
// file.
func (Sampling) Choices() []string {
	var words []string
	for _, s := range schemes.Entries() {
		if s.Drawn() {
			words = append(words, string(s.Sampling))
		}
	}
	return words
}

// Neighbouring is the relation under which the guarantee is proved. That of an
// unknown sampling is empty, and no relation.
func (s Sampling) Neighbouring() Neighbouring {
	scheme, err := schemes.Find(s)
	if err != nil {
		return ""
	}
	return scheme.Neighbouring
}

// proving is the divergence that an accountant counts by.
func (s Scheme) proving(a Accountant) func(rate, sigma float64, orders []float64) (rdp.Curve, error) {
	if a == RDPPair && s.pair != nil {
		return s.pair
	}
	return s.divergence
}

// Drawn reports whether a training can run the scheme.
func (s Scheme) Drawn() bool { return s.draw != nil }

// Draw returns the users of a round in ascending order. It depends on the round
// alone, never on the data. The error is that of Round.Stream. A scheme that is not
// Drawn has no cohorts, and panics.
func (s Scheme) Draw(r Round) ([]int, error) { return s.draw(r) }

// Neighbouring is the relation between two populations that the guarantee
// makes hard to tell apart.
type Neighbouring string

const (
	// ReplaceOne puts another user in the place of one. A sum of clipped
	// updates moves by at most twice the clip norm.
	ReplaceOne Neighbouring = "replace-one"
	// AddOrRemoveOne adds a user or takes one away. A sum of clipped updates
	// moves by at most the clip norm.
	AddOrRemoveOne Neighbouring = "add-or-remove-one"
	// ZeroOutOne makes all updates of one user zero. A sum of clipped updates
	// moves by at most the clip norm. It is the relation of DP-FTRL.
	ZeroOutOne Neighbouring = "zero-out-one"
)

// sensitivity is how far the clipped sum moves under the relation, in clip
// norms. Nothing bounds it under an unknown one.
func (n Neighbouring) sensitivity() float64 {
	switch n {
	case ReplaceOne:
		return 2
	case AddOrRemoveOne, ZeroOutOne:
		return 1
	}
	return math.Inf(1)
}

// losses are those of the pair of outputs that dominates all pairs of neighbours. Where a
// member is added, removed or made zero, that pair is one of some data; so it is where a
// member is replaced and nothing is sampled.
func (n Neighbouring) losses() losses {
	if n == ReplaceOne {
		return losses{pld.FixedSizeEpsilon, pld.FixedSizeDelta}
	}
	return attained
}

// bothEpsilons begins what is assumed where Rényi divergences prove Epsilon. By them alone
// both epsilons are one.
const (
	bothEpsilons = "both epsilons: "
	sameEpsilons = "both epsilons are the same: "
)

// assumptions are what the relation makes of the noise, and before it, where the
// papers' epsilon is another one, their convention.
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
