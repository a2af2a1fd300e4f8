// Package upperbound shows what a training costs in privacy by its proof: an upper bound
// on epsilon, beside which audits put lower ones. It is measured by no task: the report
// of a cell has it from the accountant (package privacy).
package upperbound

import (
	"fmt"

	"coalmine/internal/extended"
	"coalmine/privacy"
	"coalmine/tasks/audits"
)

// Audit is not asked for: it follows from clipping.
var Audit = audits.Description{
	Name:    "privacy",
	Legend:  "Epsilon: the least that is proved; in brackets, for cohorts that replace a user, the papers' convention, which takes the noise relative to the clip norm and may underestimate.",
	Limits:  func() audits.Limits { return new(Limits) },
	Verdict: func() audits.Verdict { return new(Verdict) },
	Derive: func(c *audits.Cell) audits.Verdict {
		if c.Privacy == nil {
			return nil
		}
		return &Verdict{Report: *c.Privacy, atLeast: c.EpsilonAtLeast()}
	},
	Columns: []audits.Column{{Header: privacy.HeadlineOf}},
}

// Verdict is the cost of a training whose updates were clipped.
type Verdict struct {
	privacy.Report
	// atLeast is the bound from below by the audits of the cell, 0 without one.
	atLeast privacy.Epsilon
}

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string {
	text := v.Headline(v.atLeast).String()
	if v.Control != "" {
		text += " CONTROL: does not hold"
	}
	return []string{text}
}

// Note implements audits.Noter.
func (v *Verdict) Note(*audits.Cell) string {
	if v.Headline(0).Convention == nil || v.Epsilon >= v.atLeast {
		return v.Summary()
	}
	return fmt.Sprintf("%s; the papers' convention underestimates: an audit has %s at least", v.Summary(), v.atLeast)
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{
		NoiseMultiplier: &v.NoiseMultiplier, Delta: &v.Delta, Infinite: &v.Infinite, Unit: v.Unit, Sampling: string(v.Sampling),
		Neighbouring: string(v.Neighbouring), Conversion: string(v.Conversion), HoldsAgainst: v.HoldsAgainst,
		AccountantProved: string(v.AccountantProved), Control: string(v.Control),
	}
	if h := v.Headline(v.atLeast); h.Convention != nil {
		r.Underestimates = &h.Underestimates
	}
	r.Epsilon, r.EpsilonProved = extended.Finite(v.Epsilon), extended.Finite(v.EpsilonProved)
	if v.AccountantProved != "" { // not in results from before there was a choice
		r.EpsilonRenyi = extended.Finite(v.EpsilonRenyi)
	}
	return r
}

type row struct {
	NoiseMultiplier  *float64 `parquet:"noise_multiplier"`
	Delta            *float64 `parquet:"delta"`
	Epsilon          *float64 `parquet:"epsilon"` // null where infinite
	EpsilonProved    *float64 `parquet:"epsilon_proved"`
	EpsilonRenyi     *float64 `parquet:"epsilon_renyi"`
	AccountantProved string   `parquet:"accountant_proved"`
	Infinite         *bool    `parquet:"epsilon_infinite"`
	Unit             string   `parquet:"privacy_unit"`
	Sampling         string   `parquet:"sampling"`
	Neighbouring     string   `parquet:"neighbouring"`
	Conversion       string   `parquet:"conversion"`
	HoldsAgainst     string   `parquet:"holds_against"`
	Control          string   `parquet:"control"`
	Underestimates   *bool    `parquet:"epsilon_underestimates"` // null where Epsilon is proved
}

// Limits of audit.fail_if.
type Limits struct {
	// Epsilon limits the proved epsilon (epsilon_proved in the results).
	Epsilon *float64 `json:"epsilon,omitempty" range:"[0,1e9]"`
}

// Check implements audits.LimitChecker.
func (l *Limits) Check(s *audits.Setting, fail audits.Fail) {
	if l.Epsilon != nil && s.Training.NoiseMultiplier == 0 {
		fail([]string{"audit.fail_if.epsilon", "training.privacy"},
			"limits epsilon, which is infinite without noise; set training.privacy.noise_multiplier, or remove the limit")
	}
}

// Breaches implements audits.Limits. A training without clipping has no proved epsilon,
// which no limit allows.
func (l *Limits) Breaches(c *audits.Cell) []string {
	switch {
	case l.Epsilon == nil:
		return nil
	case c.Privacy == nil:
		return []string{fmt.Sprintf("epsilon is infinite, above the limit of %.4g: the training has no privacy", *l.Epsilon)}
	case float64(c.Privacy.EpsilonProved) > *l.Epsilon:
		return []string{fmt.Sprintf("epsilon_proved is %s (%s, at delta %g), above the limit of %.4g", c.Privacy.EpsilonProved, c.Privacy.Neighbouring, c.Privacy.Delta, *l.Epsilon)}
	}
	return nil
}
