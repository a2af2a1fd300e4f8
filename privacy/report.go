package privacy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/privacy/correlated"
	"coalmine/privacy/pld"
)

// Epsilon is a privacy bound, 0 or above. +Inf, the absence of a bound, is null
// in JSON.
type Epsilon float64

// MarshalJSON writes a number, or null for +Inf.
func (e Epsilon) MarshalJSON() ([]byte, error) { return numbers.Float(e).MarshalJSON() }

// UnmarshalJSON reads the output of MarshalJSON.
func (e *Epsilon) UnmarshalJSON(data []byte) error { return (*numbers.Float)(e).UnmarshalJSON(data) }

// String writes three significant digits, as papers do, or "infinite".
func (e Epsilon) String() string {
	if numbers.Float(e).Infinite() {
		return numbers.InfiniteText
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

// Report is the privacy cost of a recipe, with its assumptions. `coalmine account --json` prints
// it.
type Report struct {
	// Epsilon counts the noise relative to the clip norm, whatever the
	// neighbouring relation. For cohorts of fixed size that is the convention of
	// the papers on DP-FedAvg; if a user is added or removed, as with Poisson cohorts, it equals
	// EpsilonProved.
	Epsilon Epsilon `json:"epsilon"`
	// EpsilonProved is proved under Neighbouring, with the noise relative to the sensitivity under
	// that relation, by AccountantProved: the accountant with the smallest epsilon if several
	// apply.
	EpsilonProved Epsilon `json:"epsilon_proved"`
	// AccountantProved is PLD or RDP; empty and omitted without a bound.
	AccountantProved Accountant `json:"accountant_proved,omitempty"`
	// TheoremProved names the theorem behind AccountantProved.
	TheoremProved string `json:"theorem_proved,omitempty"`
	// EpsilonRenyi is the epsilon that Rényi divergences prove with Conversion: the epsilon_proved
	// of every round's metric row. It is omitted if 0.
	EpsilonRenyi Epsilon `json:"epsilon_renyi,omitzero" doc:"epsilon that Rényi divergences prove"`
	// Infinite reports that there is no bound; the epsilons are null in that case.
	Infinite bool    `json:"infinite,omitempty"`
	Delta    float64 `json:"delta,omitzero"`

	// Order and OrderProved are the Rényi orders that gave Epsilon and EpsilonRenyi, 0
	// if no order gave a bound.
	Order        float64      `json:"order" doc:"Rényi order that gave the epsilon by the papers' convention; 0 if none gave a bound"`
	OrderProved  float64      `json:"order_proved" doc:"Rényi order that gave the proved Rényi epsilon; 0 if none gave a bound"`
	Conversion   Conversion   `json:"conversion"`
	Sampling     Sampling     `json:"sampling"`
	Neighbouring Neighbouring `json:"neighbouring"`
	Population   int          `json:"population" doc:"number of users or records that cohorts are drawn from"`
	Cohort       int          `json:"cohort" doc:"number of users or records of a round (Poisson sampling: expected)"`
	SamplingRate float64      `json:"sampling_rate" doc:"share of the population in a cohort"`
	Rounds       int          `json:"rounds" doc:"number of rounds (sgd: steps) that the epsilon covers"`
	// RoundsAtLeast reports that Rounds is MaxRounds, the limit of the search for the largest
	// number of rounds within a budget.
	RoundsAtLeast bool `json:"rounds_at_least,omitempty"`
	// NoiseAtMost reports that NoiseMultiplier is MinNoise, and DeltaAtMost that Delta is
	// MinDelta, the limits of the searches for the least values.
	NoiseAtMost     bool    `json:"noise_multiplier_at_most,omitempty"`
	DeltaAtMost     bool    `json:"delta_at_most,omitempty"`
	NoiseMultiplier float64 `json:"noise_multiplier"`
	// Sigma and SigmaProved are the noise relative to the sensitivity behind
	// each epsilon.
	Sigma       float64 `json:"sigma" doc:"noise relative to the sensitivity, behind the epsilon by the papers' convention"`
	SigmaProved float64 `json:"sigma_proved" doc:"noise relative to the sensitivity, behind the proved epsilon"`
	// UpdateNoise is the noise multiplier of the updates under adaptive clipping, a little above
	// NoiseMultiplier; 0 with a fixed clip norm.
	UpdateNoise float64 `json:"update_noise_multiplier,omitempty" doc:"noise multiplier of the updates under adaptive clipping"`
	// Rho is the zero-concentrated privacy (Bun and Steinke 2016), for trees, for separated
	// sampling, and if Concentrated was called; otherwise 0 and omitted.
	Rho Epsilon `json:"rho,omitempty" doc:"rho of zero-concentrated differential privacy (Bun and Steinke 2016)"`
	// Mu is the Gaussian privacy (Dong, Roth and Su 2019) if Concentrated was called; otherwise 0
	// and omitted.
	Mu Epsilon `json:"mu,omitempty" doc:"mu of Gaussian differential privacy (Dong, Roth and Su 2019)"`

	// Separation is the least number of rounds from one participation of a user to the next,
	// Participations the largest number of participations, and Sensitivity, in clip norms, the
	// distance by which they move all outputs together; 0 and omitted except for separated
	// sampling.
	Separation     int     `json:"separation,omitempty" doc:"least number of rounds from one participation of a user to the next, with separated sampling"`
	Participations int     `json:"participations,omitempty" doc:"largest number of rounds of a user, with separated sampling"`
	Sensitivity    float64 `json:"sensitivity,omitempty" doc:"distance, in clip norms, by which a user moves all outputs together, with separated sampling"`
	// Mechanism correlates the noise of rounds; empty for independent noise.
	Mechanism correlated.Kind `json:"mechanism,omitempty"`

	// Accountant names the theorem behind Epsilon and EpsilonRenyi; with RDPPair, TheoremProved
	// names the theorem behind EpsilonRenyi.
	Accountant   string `json:"accountant"`
	Unit         string `json:"unit"`
	HoldsAgainst string `json:"holds_against,omitempty"`
	// Control is the deliberate fault of the training; with one, no epsilon holds.
	Control     Control  `json:"control,omitempty"`
	Assumptions []string `json:"assumptions"`
	NotCovered  []string `json:"not_covered"`

	// Group is the joint cost of several members, if requested.
	Group *Group `json:"group,omitempty" doc:"of a group"`

	// LossDistribution holds the tighter bounds, if requested.
	LossDistribution *Interval `json:"loss_distribution,omitempty" doc:"by the privacy loss distribution"`
}

// Interval encloses a true epsilon by two bounds.
type Interval struct {
	Lower Epsilon `json:"lower" doc:"lower bound of epsilon"`
	Upper Epsilon `json:"upper" doc:"upper bound of epsilon"`
	// Accountant names the theorems behind the bounds.
	Accountant string `json:"accountant"`
	// PapersRefuted reports that the report's Epsilon lies below Lower: the papers' convention is
	// then no bound under Neighbouring.
	PapersRefuted bool `json:"papers_refuted,omitempty"`
}

// notCovered lists facts about the data that a run reveals outside the noisy rounds.
var notCovered = []string{
	"the vocabulary",
	"tuning of hyperparameters",
	"training and evaluation metrics",
	"outputs of audits",
}

// Grounds holds the assumptions behind a recipe's epsilons, as sentences.
type Grounds struct {
	Assumptions  []string `json:"assumptions"`
	NotCovered   []string `json:"not_covered"`
	HoldsAgainst string   `json:"holds_against,omitempty"`
	// Validity is the condition of Report.Validity.
	Validity string `json:"validity,omitempty"`
}

// GroundsOf returns the grounds of a recipe that is not a tree. It computes no epsilon, and the
// grounds hold before the first round.
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
	against := recipe.holdsAgainst()
	return Grounds{m.assumptions(recipe.Rounds, false), slices.Clone(notCovered), against, validity(against)}, nil
}

// assumptions states the assumptions of the two epsilons in sentences.
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

// RecordUnit is the unit of central training, which processes batches of records
// step by step as federated training processes cohorts of users round by round.
const RecordUnit = "record"

var (
	federatedTerms = strings.NewReplacer("{member}", "user", "{update}", "update", "{round}", "round", "{cohort}", "cohort")
	centralTerms   = strings.NewReplacer("{member}", "record", "{update}", "gradient", "{round}", "step", "{cohort}", "batch")
)

// inTermsOf replaces the placeholders of assumptions by the words for a unit.
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

// withoutSeed is the HoldsAgainst of a seeded training. Stored outcomes contain it, and their bytes
// must not change; Validity returns the sentence for readers.
const withoutSeed = "only someone without the experiment's seed, which gives away cohorts and noise"

// holdsAgainst names the adversary that the guarantee protects against.
func (r Recipe) holdsAgainst() string {
	switch r.Randomness {
	case Seeded:
		return withoutSeed
	case Secret:
		return "anyone without the run's secret key and without its store, whose sums over chunks have no noise"
	}
	return ""
}

// Headline is the cost of a training for display: the tightest proved epsilon, and the epsilon of the
// papers' convention if it differs. Convention is nil if every figure is proved, or if there is no
// bound.
type Headline struct {
	Proved     Epsilon
	Convention *Epsilon
	// Underestimates reports that the true epsilon exceeds Convention, for some data or by an
	// audit.
	Underestimates bool
}

// Headline returns the figures of the report together with the largest lower bound on epsilon from
// audits, 0 without one.
func (r Report) Headline(atLeast Epsilon) Headline {
	h := Headline{Proved: r.EpsilonProved}
	if !r.proved() && !r.Infinite {
		h.Convention = &r.Epsilon
		h.Underestimates = r.Epsilon < atLeast || r.LossDistribution != nil && r.LossDistribution.PapersRefuted
	}
	return h
}

// HeadlineOf is the column title of a Headline in tables.
const HeadlineOf = "epsilon proved (papers' convention)"

// String returns the text for a column titled HeadlineOf.
func (h Headline) String() string {
	switch {
	case h.Convention == nil:
		return h.Proved.String()
	case h.Underestimates:
		return fmt.Sprintf("%s (%s underestimates)", h.Proved, h.Convention)
	}
	return fmt.Sprintf("%s (%s)", h.Proved, h.Convention)
}

// DeltaWarning returns a warning if delta is too large to mean much, and otherwise "".
func (r Report) DeltaWarning() string {
	if r.NoiseMultiplier == 0 || r.Delta < 1/float64(r.Population) {
		return ""
	}
	unit := cmp.Or(r.Unit, wholeUser)
	return fmt.Sprintf("delta %g is 1/%ss or more: a training that publishes all data of one random %s of %d satisfies it; expected delta well below %.2g",
		r.Delta, unit, unit, r.Population, 1/float64(r.Population))
}

// NoiseWarning returns a warning if the noise is so large that nothing is learned, and otherwise "". A
// coordinate of the mean update has noise of NoiseMultiplier x clip norm / Cohort, and no update exceeds the
// clip norm.
func (r Report) NoiseWarning() string {
	if r.Cohort == 0 || r.NoiseMultiplier < float64(r.Cohort) {
		return ""
	}
	return fmt.Sprintf("noise multiplier %g is the cohort %d or more: on each coordinate of a mean update the noise is as large as any update can be, so that a model learns next to nothing; expected a larger epsilon, a larger cohort or fewer rounds",
		r.NoiseMultiplier, r.Cohort)
}

// wholeUser is the default unit of a recipe.
const wholeUser = "user"

// proved reports whether Epsilon is proved because it equals EpsilonRenyi: the relation moves a sum
// by at most the clip norm.
func (r Report) proved() bool { return r.Neighbouring.sensitivity() == 1 }

// Validity is the condition under which the epsilon protects, as text; empty if there is none.
func (r Report) Validity() string { return validity(r.HoldsAgainst) }

func validity(holdsAgainst string) string {
	switch holdsAgainst {
	case "":
		return ""
	case withoutSeed:
		return "valid only while the experiment's seed, which determines cohorts and noise, is secret: for a model to be released, set training.privacy.randomness: secret"
	}
	return "protects against " + holdsAgainst
}

// Summary returns the report in one line: epsilon with its conditions.
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
	if r.Delta > 0 { // delta may be 0 without noise
		line += fmt.Sprintf(", at delta %g", r.Delta)
	}
	line += fmt.Sprintf(" after %d %s; unit %s, %s, %s conversion", r.Rounds, rounds, r.Unit, r.Sampling.Phrase(), r.Conversion)
	if validity := r.Validity(); validity != "" {
		line += "; " + validity
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

// Concentrated returns the report with Rho and Mu, which bound the mechanism without a delta.
// Both are exact, and sampling lowers neither: the supremum over orders of the divergence per
// order, and the far tail of the losses, equal those of noise without sampling.
func (r Report) Concentrated() Report {
	if r.Rho == 0 {
		rounds := r.Rounds
		if scheme, err := FindScheme(r.Sampling); err == nil && scheme.participations != nil {
			rounds = scheme.participations(r.Rounds, r.Cohort, r.Population)
		}
		r.Rho = Epsilon(rho([]pld.Step{{Sigma: r.SigmaProved, Rounds: rounds}}))
	}
	r.Mu = r.Rho.gaussian()
	return r
}

// rho returns the joint zero-concentrated privacy of steps, the sum over Gaussian mechanisms.
func rho(steps []pld.Step) float64 {
	total := 0.0
	for _, s := range steps {
		if s.Rounds > 0 {
			total += float64(s.Rounds) / s.Sigma / s.Sigma / 2
		}
	}
	return total
}

// gaussian returns the mu of the Gaussian mechanism with zero-concentrated privacy e.
func (e Epsilon) gaussian() Epsilon { return Epsilon(math.Sqrt(2 * float64(e))) }
