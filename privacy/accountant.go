package privacy

import (
	"fmt"
	"math"
	"slices"

	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Accountant names the method that proves an epsilon. An epsilon means little without it.
type Accountant string

// The accountants. A recipe chooses any except the last; a report names one of the last two.
const (
	// Tightest, the default, takes the least epsilon of all accountants.
	Tightest Accountant = "tightest"
	// Papers calibrates to the papers' convention, which is no proof for cohorts of fixed size. The
	// proved epsilon comes from Tightest.
	Papers Accountant = "papers"
	// RDPPair adds the Rényi divergences of the pair of outputs that dominates cohorts of fixed
	// size, instead of the earlier theorem that RDP uses; otherwise it equals RDP.
	RDPPair Accountant = "rdp-pair"
	// RDP adds Rényi divergences, and converts them by the recipe's Conversion.
	RDP Accountant = "rdp"
	// PLD composes privacy loss distributions.
	PLD Accountant = "pld"
)

// Choices lists the accountants that an experiment file can name.
func (Accountant) Choices() []string { return []string{string(Tightest), string(RDP)} }

// Validate returns an error unless a recipe may ask for the accountant.
func (a Accountant) Validate() error {
	if !slices.Contains([]Accountant{Tightest, Papers, RDP, RDPPair}, a) {
		return fmt.Errorf("accountant %q: expected %s, %s, %s or %s", a, Tightest, RDP, RDPPair, Papers)
	}
	return nil
}

// Divergent reports whether the accountant uses only Rényi divergences.
func (a Accountant) Divergent() bool { return a == RDP || a == RDPPair }

// losses holds the functions that bound the joint cost of steps by privacy loss distributions, for
// one relation.
type losses struct {
	epsilon func(steps []pld.Step, delta float64) (pld.Bounds, error)
	delta   func(steps []pld.Step, epsilon float64) (pld.Bounds, error)
}

// attained bounds the cost that some data sets reach, with the noise relative to the distance
// by which the relation moves a sum. Suppose that the replaced member sends updates of the clip
// norm in one direction, and all other members, the new one included, in the opposite direction.
// Then the sum of a round is fixed, or twice the clip norm away if the replaced member takes part.
// A Poisson sample of the same rate has these outputs when one member is added or removed.
var attained = losses{pld.Epsilon, pld.Delta}

// proof is an epsilon and the method that proves it.
type proof struct {
	epsilon    float64
	accountant Accountant  // empty if there is no bound
	losses     *pld.Bounds // by loss distributions, if computed
}

// tightest returns the least epsilon that is proved for steps under a relation at delta: by
// their losses, or by their summed divergences in the better conversion.
func (l losses) tightest(steps []pld.Step, divergences rdp.Curve, delta float64) proof {
	best := byDivergence(divergences, delta, Improved)
	b, err := l.epsilon(steps, delta)
	if err != nil { // the loss distribution rejects some inputs, such as a delta of 0
		return best
	}
	best.losses = &b
	if b.Upper <= best.epsilon && !math.IsInf(b.Upper, 1) {
		best.epsilon, best.accountant = b.Upper, PLD
	}
	return best
}

// steps returns the recipe's rounds as steps of package pld.
func (m *Meter) steps(rounds int) []pld.Step {
	if m.scheme.correlated {
		return m.correlatedSteps(rounds)
	}
	rate := m.rate()
	if m.scheme.participations != nil {
		rate = 1
	}
	return []pld.Step{{Rate: rate, Sigma: m.sigmaProved, Rounds: m.counted(rounds)}}
}

// proof returns the proved epsilon after a number of rounds, by the accountant of
// the recipe.
func (m *Meter) proof(rounds int, delta float64) proof {
	_, ofProof := m.curves(rounds)
	if !m.recipe.Accountant.Divergent() {
		return m.scheme.Neighbouring.losses().tightest(m.steps(rounds), ofProof, delta)
	}
	return byDivergence(ofProof, delta, m.recipe.Conversion)
}

func byDivergence(divergences rdp.Curve, delta float64, conversion Conversion) proof {
	epsilon, order := divergences.Epsilon(delta, conversion)
	if order == 0 {
		return proof{epsilon: epsilon}
	}
	return proof{epsilon: epsilon, accountant: RDP}
}

// theorem names the theorem behind an accountant of the recipe.
func (m *Meter) theorem(a Accountant) string {
	switch a {
	case PLD:
		return "PLD, " + m.scheme.lossAccountant
	case RDP:
		return m.divergenceTheorem()
	case Tightest, Papers, RDPPair:
		// They only choose among accountants.
	}
	return ""
}

// divergenceTheorem names the theorem by which Rényi divergences of the recipe prove epsilon.
func (m *Meter) divergenceTheorem() string {
	theorem, conversion := m.scheme.accountant, Improved
	if m.recipe.Accountant.Divergent() {
		conversion = m.recipe.Conversion
	}
	if m.recipe.Accountant == RDPPair && m.scheme.pair != nil {
		theorem = m.scheme.pairAccountant
	}
	return fmt.Sprintf("%s, %s conversion", theorem, conversion)
}

// interval encloses the cost of the recipe after a number of rounds: the losses, which proved may
// already hold, bound it from above, and the cost on possible data from below.
func (m *Meter) interval(rounds int, proved proof) (*Interval, error) {
	i := &Interval{Accountant: m.scheme.lossAccountant}
	if by := m.scheme.attainedBy; by != "" {
		i.Accountant = "upper: " + i.Accountant + "; lower: " + inTermsOf(m.recipe.Unit, []string{by})[0]
	}
	if m.recipe.NoiseMultiplier == 0 {
		i.Lower, i.Upper = Epsilon(math.Inf(1)), Epsilon(math.Inf(1))
		return i, nil
	}
	above, err := m.lossesAbove(rounds, proved)
	if err != nil {
		return nil, err
	}
	below := above
	if m.scheme.Neighbouring == ReplaceOne {
		below, err = attained.epsilon(m.steps(rounds), m.recipe.Delta)
	}
	i.Lower, i.Upper = Epsilon(below.Lower), Epsilon(above.Upper)
	return i, err
}

// lossesAbove bounds the cost of the recipe after a number of rounds, at its
// delta.
func (m *Meter) lossesAbove(rounds int, proved proof) (pld.Bounds, error) {
	if proved.losses != nil {
		return *proved.losses, nil
	}
	return m.scheme.Neighbouring.losses().epsilon(m.steps(rounds), m.recipe.Delta)
}
