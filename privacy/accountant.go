package privacy

import (
	"fmt"
	"math"
	"slices"

	"coalmine/privacy/pld"
	"coalmine/privacy/rdp"
)

// Accountant names how an epsilon is proved. A figure of epsilon means little without it.
type Accountant string

// Accountants. A recipe chooses any but the last; a report names the last two.
const (
	// Tightest takes the least epsilon that any accountant proves: the default.
	Tightest Accountant = "tightest"
	// Papers holds calibration to the papers' convention, which for cohorts of fixed size is
	// no proof. What is proved is as with Tightest.
	Papers Accountant = "papers"
	// RDPPair adds the Rényi divergences of the pair of outputs that dominates cohorts of fixed
	// size, where RDP takes those of a theorem that came before; otherwise they are the same.
	RDPPair Accountant = "rdp-pair"
	// RDP adds Rényi divergences, and converts them as the recipe says.
	RDP Accountant = "rdp"
	// PLD composes privacy loss distributions.
	PLD Accountant = "pld"
)

// Choices lists the accountants that an experiment file chooses from: those that prove
// something.
func (Accountant) Choices() []string { return []string{string(Tightest), string(RDP)} }

// Validate returns an error unless a recipe may ask for the accountant.
func (a Accountant) Validate() error {
	if !slices.Contains([]Accountant{Tightest, Papers, RDP, RDPPair}, a) {
		return fmt.Errorf("accountant %q: expected %s, %s, %s or %s", a, Tightest, RDP, RDPPair, Papers)
	}
	return nil
}

// Divergent reports whether the accountant proves by Rényi divergences alone.
func (a Accountant) Divergent() bool { return a == RDP || a == RDPPair }

// losses bound by privacy loss distributions what steps cost together, for one relation.
type losses struct {
	epsilon func(steps []pld.Step, delta float64) (pld.Bounds, error)
	delta   func(steps []pld.Step, epsilon float64) (pld.Bounds, error)
}

// attained bound what some data cost, with the noise relative to what the relation moves a sum
// by. Where the member that is replaced sends updates of the clip norm in one direction, the
// one in its place and all others in the opposite one, the sum of a round is that of an
// opposite cohort, or twice the clip norm from it if the member takes part. So are the outputs
// of a Poisson sample of the same rate when one is added or removed.
var attained = losses{pld.Epsilon, pld.Delta}

// proof is an epsilon, and how it is proved.
type proof struct {
	epsilon    float64
	accountant Accountant  // empty where there is no bound
	losses     *pld.Bounds // by loss distributions, if it was computed
}

// tightest is the least epsilon that is proved for steps under a relation at delta: by their
// losses, or by the divergences of all of them, in the better conversion.
func (l losses) tightest(steps []pld.Step, divergences rdp.Curve, delta float64) proof {
	best := byDivergence(divergences, delta, Improved)
	b, err := l.epsilon(steps, delta)
	if err != nil { // what the loss distribution refuses, such as a delta of 0, it does not prove
		return best
	}
	best.losses = &b
	if b.Upper <= best.epsilon && !math.IsInf(b.Upper, 1) {
		best.epsilon, best.accountant = b.Upper, PLD
	}
	return best
}

// steps are the recipe's rounds as the loss distribution composes them.
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

// proof is the proved epsilon after so many rounds, by the accountant of the recipe.
func (m *Meter) proof(rounds int, delta float64) proof {
	_, ofProof := m.curves(rounds)
	if !m.recipe.Accountant.Divergent() {
		return m.scheme.Neighbouring.losses().tightest(m.steps(rounds), ofProof, delta)
	}
	return byDivergence(ofProof, delta, m.recipe.Conversion)
}

// byDivergence is the epsilon of divergences.
func byDivergence(divergences rdp.Curve, delta float64, conversion Conversion) proof {
	epsilon, order := divergences.Epsilon(delta, conversion)
	if order == 0 {
		return proof{epsilon: epsilon}
	}
	return proof{epsilon: epsilon, accountant: RDP}
}

// theorem names what an accountant of the recipe rests on.
func (m *Meter) theorem(a Accountant) string {
	switch a {
	case PLD:
		return "PLD, " + m.scheme.lossAccountant
	case RDP:
		return m.divergenceTheorem()
	case Tightest, Papers, RDPPair:
		// They are ways to choose, and no epsilon rests on them.
	}
	return ""
}

// divergenceTheorem names what Rényi divergences of the recipe rest on where they prove epsilon.
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

// interval holds what the recipe costs after so many rounds between two bounds: that of the
// losses from above, which the proof may have, and of data that there may be from below.
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

// lossesAbove bounds what the recipe costs after so many rounds, at its delta.
func (m *Meter) lossesAbove(rounds int, proved proof) (pld.Bounds, error) {
	if proved.losses != nil {
		return *proved.losses, nil
	}
	return m.scheme.Neighbouring.losses().epsilon(m.steps(rounds), m.recipe.Delta)
}
