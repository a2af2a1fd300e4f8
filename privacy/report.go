package privacy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/extended"
	"coalmine/privacy/correlated"
)

// Epsilon is a privacy bound, 0 or above. +Inf, no bound at all, is null in
// JSON.
type Epsilon float64

// MarshalJSON writes a number, or null for +Inf.
func (e Epsilon) MarshalJSON() ([]byte, error) { return extended.Float(e).MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Epsilon) UnmarshalJSON(data []byte) error { return (*extended.Float)(e).UnmarshalJSON(data) }

// String writes three significant digits, as papers do, or "infinite".
func (e Epsilon) String() string {
	if extended.Float(e).Infinite() {
		return extended.Text
	}
	return formatNumber(float64(e))
}

// formatNumber writes three significant digits, plainly up to a million.
func formatNumber(x float64) string {
	if x != 0 && (x < 1e-4 || x >= 1e6) {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	digits := 2
	for limit := 10.0; x >= limit && digits > 0; limit *= 10 {
		digits--
	}
	for limit := 1.0; x != 0 && x < limit && digits < 7; limit /= 10 {
		digits++
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

// Report is the privacy cost of a recipe, with all that it assumes. It is what
// `coalmine account --json` prints.
type Report struct {
	// Epsilon counts the noise relative to the clip norm, whatever the
	// neighbouring relation. For cohorts of fixed size that is the convention of
	// the papers on DP-FedAvg; where a user is added or removed, as with Poisson
	// cohorts, it is the same as EpsilonProved.
	Epsilon Epsilon `json:"epsilon"`
	// EpsilonProved is what is proved under Neighbouring, with the noise relative to the
	// sensitivity under it, by the accountant that AccountantProved names: of several, by
	// that which proves the least.
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// AccountantProved is PLD or RDP; empty, and left out, where there is no bound.
	AccountantProved Accountant `json:"accountant_proved,omitempty"`
	// TheoremProved names what AccountantProved rests on.
	TheoremProved string `json:"theorem_proved,omitempty"`
	// EpsilonRenyi is what Rényi divergences prove with Conversion: the epsilon_proved of
	// every round's metric row. It is left out where it is 0.
	EpsilonRenyi Epsilon `json:"epsilon_renyi,omitzero"`
	// Infinite says that there is no bound, and the epsilons are null.
	Infinite bool    `json:"infinite,omitempty"`
	Delta    float64 `json:"delta,omitzero"`

	// Order and OrderProved are the Rényi orders that gave Epsilon and EpsilonRenyi, 0
	// where none gave a bound.
	Order        float64      `json:"order"`
	OrderProved  float64      `json:"order_proved"`
	Conversion   Conversion   `json:"conversion"`
	Sampling     Sampling     `json:"sampling"`
	Neighbouring Neighbouring `json:"neighbouring"`
	Population   int          `json:"population"`
	Cohort       int          `json:"cohort"`
	SamplingRate float64      `json:"sampling_rate"`
	Rounds       int          `json:"rounds"`
	// RoundsAtLeast says that Rounds is MaxRounds, where the search for the most
	// rounds within a budget has ended.
	RoundsAtLeast bool `json:"rounds_at_least,omitempty"`
	// NoiseAtMost says that NoiseMultiplier is LeastNoise, and DeltaAtMost that Delta is LeastDelta,
	// where the searches for the least ones have ended.
	NoiseAtMost     bool    `json:"noise_multiplier_at_most,omitempty"`
	DeltaAtMost     bool    `json:"delta_at_most,omitempty"`
	NoiseMultiplier float64 `json:"noise_multiplier"`
	// Sigma and SigmaProved are the noise relative to the sensitivity that
	// stands behind each epsilon.
	Sigma       float64 `json:"sigma"`
	SigmaProved float64 `json:"sigma_proved"`
	// UpdateNoise is the noise multiplier that the updates get under adaptive
	// clipping, a little above NoiseMultiplier; 0 with a fixed clip norm.
	UpdateNoise float64 `json:"update_noise_multiplier,omitempty"`
	// Rho is the zero-concentrated privacy (Bun and Steinke 2016), of trees, of separated
	// sampling, and where Concentrated was asked for it; otherwise 0, and left out.
	Rho Epsilon `json:"rho,omitempty"`
	// Mu is the Gaussian privacy (Dong, Roth and Su 2019) where Concentrated was asked for it;
	// otherwise 0, and left out.
	Mu Epsilon `json:"mu,omitempty"`

	// Separation is the least number of rounds from one participation of a user to the next,
	// Participations the most of them, and Sensitivity, in clip norms, how far they move all
	// outputs together; 0, and left out, but for separated sampling.
	Separation     int     `json:"separation,omitempty"`
	Participations int     `json:"participations,omitempty"`
	Sensitivity    float64 `json:"sensitivity,omitempty"`
	// Mechanism correlates the noise of rounds; empty where it is independent.
	Mechanism correlated.Kind `json:"mechanism,omitempty"`

	// Accountant names the theorem behind Epsilon and EpsilonRenyi; with RDPPair, that behind
	// the second is TheoremProved.
	Accountant   string `json:"accountant"`
	Unit         string `json:"unit"`
	HoldsAgainst string `json:"holds_against,omitempty"`
	// Control is the fault that the training has on purpose, with which no epsilon holds.
	Control     Control  `json:"control,omitempty"`
	Assumptions []string `json:"assumptions"`
	NotCovered  []string `json:"not_covered"`

	// Group is what several members together cost, where asked for.
	Group *Group `json:"group,omitempty"`

	// LossDistribution holds the tighter bounds, where asked for.
	LossDistribution *Interval `json:"loss_distribution,omitempty"`
}

// Interval holds a true epsilon between two bounds.
type Interval struct {
	Lower Epsilon `json:"lower"`
	Upper Epsilon `json:"upper"`
	// Accountant names the theorems behind them.
	Accountant string `json:"accountant"`
	// PapersRefuted says that the report's Epsilon lies below Lower: under the relation
	// Neighbouring the papers' convention is then no bound.
	PapersRefuted bool `json:"papers_refuted,omitempty"`
}

// notCovered is what a run learns from the data outside the noisy rounds.
var notCovered = []string{
	"the vocabulary",
	"tuning of hyperparameters",
	"training and evaluation metrics",
	"outputs of audits",
}

// Grounds are what the epsilons of a recipe rest on, in sentences.
type Grounds struct {
	Assumptions  []string `json:"assumptions"`
	NotCovered   []string `json:"not_covered"`
	HoldsAgainst string   `json:"holds_against,omitempty"`
}

// GroundsOf are those of a Report of the recipe, which is not a tree, without its numbers:
// they take no time, and hold before the first round.
func GroundsOf(recipe Recipe) (Grounds, error) {
	if err := recipe.Validate(); err != nil {
		return Grounds{}, err
	}
	recipe = recipe.withDefaults()
	m := &Meter{recipe: recipe}
	var err error
	if m.scheme, err = FindScheme(recipe.Sampling); err != nil {
		return Grounds{}, err
	}
	if m.strategy, err = recipe.strategy(); err != nil {
		return Grounds{}, err
	}
	return Grounds{m.assumptions(recipe.Rounds, false), slices.Clone(notCovered), recipe.holdsAgainst()}, nil
}

// assumptions says in sentences what the two epsilons take for granted.
func (m *Meter) assumptions(rounds int, infinite bool) []string {
	out := []string{
		"every {update} is clipped to the clip norm C, and the noise on a {round}'s sum has standard deviation noise multiplier x C",
	}
	convention, relation := m.scheme.Neighbouring.assumptions()
	if convention != "" {
		out = append(out, convention)
	}
	r := m.recipe
	if r.Accountant.Divergent() {
		relation = strings.Replace(relation, bothEpsilons, sameEpsilons, 1)
	}
	out = append(out, m.scheme.assumption, relation)
	out = append(out, m.correlationAssumptions(rounds)...)
	if r.NoiseBy == ByDevices && r.NoiseMultiplier > 0 {
		out = append(out, "every member of a {cohort} adds its share of the noise, noise multiplier x C / sqrt({cohort}), and only their sum is seen: "+
			"a single {update} has less noise than epsilon counts, and so has a sum that lacks members")
	}
	if r.ClipQuantile != nil {
		out = append(out, "C follows a quantile of the update norms: the noise multiplier is the total, "+
			"shared by the updates and the noisy count of those clipped (Andrew et al. 2021, Theorem 1)")
	}
	if warning := r.Control.Warning(); warning != "" {
		out = append([]string{warning}, out...)
	}
	return inTermsOf(r.Unit, append(out, r.noiseAssumptions(infinite)...))
}

// RecordUnit is the unit of central training, which takes batches of records step by
// step where federated training takes cohorts of users round by round.
const RecordUnit = "record"

// terms are the words of assumptions for their placeholders.
var (
	federatedTerms = strings.NewReplacer("{member}", "user", "{update}", "update", "{round}", "round", "{cohort}", "cohort")
	centralTerms   = strings.NewReplacer("{member}", "record", "{update}", "gradient", "{round}", "step", "{cohort}", "batch")
)

// inTermsOf fills in the words that go with a unit.
func inTermsOf(unit string, sentences []string) []string {
	terms := federatedTerms
	if unit == RecordUnit {
		terms = centralTerms
	}
	for i, s := range sentences {
		sentences[i] = terms.Replace(s)
	}
	return sentences
}

func (r Recipe) noiseAssumptions(infinite bool) []string {
	out := []string{"noise is taken as real numbers, not floating-point ones (Mironov 2012)"}
	switch {
	case r.NoiseMultiplier == 0:
		out = append([]string{"without noise there is no bound: epsilon is infinite"}, out...)
	case infinite:
		out = append([]string{"with so little noise the bound is above every number that a computer holds: epsilon is infinite"}, out...)
	}
	return out
}

// holdsAgainst says whom the guarantee protects from.
func (r Recipe) holdsAgainst() string {
	switch r.Randomness {
	case Seeded:
		return "only someone without the experiment's seed, which gives away cohorts and noise"
	case Secret:
		return "anyone without the run's secret key and without its store, whose sums over chunks have no noise"
	}
	return ""
}

// Headline is the cost of a training as people read it, everywhere: first the least epsilon that is
// proved, and beside it what the papers' convention says, if it is another number for the same
// training. Convention is nil where every figure is proved, and without a bound.
type Headline struct {
	Proved     Epsilon
	Convention *Epsilon
	// Underestimates says that the truth is above Convention: for some data, or as an audit found.
	Underestimates bool
}

// Headline returns the figures of the report, beside the most that audits have bounded epsilon by from
// below, 0 without one.
func (r Report) Headline(atLeast Epsilon) Headline {
	h := Headline{Proved: r.EpsilonProved}
	if !r.proved() && !r.Infinite {
		h.Convention = &r.Epsilon
		h.Underestimates = r.Epsilon < atLeast || r.LossDistribution != nil && r.LossDistribution.PapersRefuted
	}
	return h
}

// HeadlineOf is a Headline's column in tables.
const HeadlineOf = "epsilon proved (papers' convention)"

// String is the text below HeadlineOf.
func (h Headline) String() string {
	switch {
	case h.Convention == nil:
		return h.Proved.String()
	case h.Underestimates:
		return fmt.Sprintf("%s (%s underestimates)", h.Proved, h.Convention)
	}
	return fmt.Sprintf("%s (%s)", h.Proved, h.Convention)
}

// DeltaWarning says that delta is too large to mean much, and is empty if it is not.
func (r Report) DeltaWarning() string {
	if r.NoiseMultiplier == 0 || r.Delta < 1/float64(r.Population) {
		return ""
	}
	unit := cmp.Or(r.Unit, wholeUser)
	return fmt.Sprintf("delta %g is 1/%ss or more: a training that publishes all data of one random %s of %d satisfies it; expected delta well below %.2g",
		r.Delta, unit, unit, r.Population, 1/float64(r.Population))
}

// wholeUser is the unit of a recipe that states none.
const wholeUser = "user"

// proved reports whether Epsilon is EpsilonRenyi, and so is proved, too: whether the relation
// moves a sum by no more than the clip norm.
func (r Report) proved() bool { return r.Neighbouring.sensitivity() == 1 }

// Summary is the report in one line, never a bare epsilon.
func (r Report) Summary() string {
	how, proved := string(r.Neighbouring), "proved"
	if r.AccountantProved != "" {
		how += ", accountant " + string(r.AccountantProved)
	}
	h := r.Headline(0)
	if r.Infinite {
		proved = "nothing is proved"
	}
	line := fmt.Sprintf("epsilon %s, %s (%s)", h.Proved, proved, how)
	if h.Convention != nil {
		line += fmt.Sprintf("; %s by the papers' convention", h.Convention)
	}
	rounds := inTermsOf(r.Unit, []string{"{round}s"})[0]
	if r.Delta > 0 { // without noise there need not be one
		line += fmt.Sprintf(", at delta %g", r.Delta)
	}
	line += fmt.Sprintf(" after %d %s; unit %s, %s sampling, %s conversion", r.Rounds, rounds, r.Unit, r.Sampling, r.Conversion)
	if r.HoldsAgainst != "" {
		line += "; holds against " + r.HoldsAgainst
	}
	if h.Underestimates {
		line += fmt.Sprintf("; the papers' convention underestimates: for %s some data have %s at least", r.Neighbouring, r.LossDistribution.Lower)
	}
	if warning := r.DeltaWarning(); warning != "" {
		line += "; WARNING: " + warning
	}
	if warning := r.Control.Warning(); warning != "" {
		return warning + ". Claimed: " + line
	}
	return line
}
