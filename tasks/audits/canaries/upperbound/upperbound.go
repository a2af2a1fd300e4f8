// Package upperbound shows the privacy cost of a training: the proved upper bound on epsilon, next to the
// lower bounds of audits. It has no tasks: the accountant (package privacy) reports the cost of a cell.
package upperbound

import (
	"fmt"

	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/tasks/audits"
)

// Audit derives its outcome from clipping.
var Audit = audits.Description{
	Name: "privacy",
	Legend: "Epsilon: the tightest proved epsilon; in brackets, for cohorts that replace a user, the papers' convention, which takes the noise relative " +
		"to the clip norm and may underestimate.",
	Limits:  limits,
	Outcome: func() audits.Outcome { return new(Outcome) },
	Derive: func(c *audits.Cell) audits.Outcome {
		if c.Privacy == nil {
			return nil
		}
		return &Outcome{Report: *c.Privacy, atLeast: c.EpsilonAtLeast()}
	},
	Measures: []audits.Measure{
		{Name: "noise_multiplier", Of: audits.Of(func(v *Outcome) float64 { return v.NoiseMultiplier })},
		{Name: "delta", Of: audits.Of(func(v *Outcome) *float64 { return audits.NonZero(v.Delta) })},
		{Name: "epsilon", Of: audits.Of(func(v *Outcome) *float64 { return numbers.Finite(v.Epsilon) }), Header: privacy.HeadlineOf, Text: audits.Of((*Outcome).text)},
		{Name: "epsilon_proved", Of: audits.Of(func(v *Outcome) *float64 { return numbers.Finite(v.EpsilonProved) })},
		{Name: "epsilon_renyi", Of: audits.Of(func(v *Outcome) *float64 {
			if v.AccountantProved == "" { // results from before the choice of the accountant
				return nil
			}
			return numbers.Finite(v.EpsilonRenyi)
		})},
		{Name: "accountant_proved", Of: audits.Of(func(v *Outcome) privacy.Accountant { return v.AccountantProved })},
		{Name: "epsilon_infinite", Of: audits.Of(func(v *Outcome) bool { return v.Infinite })},
		{Name: "privacy_unit", Of: audits.Of(func(v *Outcome) string { return v.Unit })},
		{Name: "sampling", Of: audits.Of(func(v *Outcome) privacy.Sampling { return v.Sampling })},
		{Name: "neighbouring", Of: audits.Of(func(v *Outcome) privacy.Neighbouring { return v.Neighbouring })},
		{Name: "conversion", Of: audits.Of(func(v *Outcome) privacy.Conversion { return v.Conversion })},
		{Name: "holds_against", Of: audits.Of(func(v *Outcome) string { return v.HoldsAgainst })},
		{Name: "control", Of: audits.Of(func(v *Outcome) privacy.Control { return v.Control })},
		{Name: "epsilon_underestimates", Of: audits.Of((*Outcome).underestimates)},
	},
}

// Outcome is the privacy cost of a training with clipped updates.
type Outcome struct {
	privacy.Report
	// atLeast is the highest lower bound by the audits of the cell, or 0.
	atLeast privacy.Epsilon
}

func (v *Outcome) text() string {
	text := v.Headline(v.atLeast).String()
	if v.Control != "" {
		text += " CONTROL: does not hold"
	}
	return text
}

func (v *Outcome) Note(*audits.Cell) string {
	if v.Headline(0).Convention == nil || v.Epsilon >= v.atLeast {
		return v.Summary()
	}
	return fmt.Sprintf("%s; the papers' convention underestimates: an audit has %s at least", v.Summary(), v.atLeast)
}

// underestimates is nil if the papers' convention is proved.
func (v *Outcome) underestimates() *bool {
	h := v.Headline(v.atLeast)
	return audits.When(h.Convention != nil, h.Underestimates)
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name: "epsilon", Doc: "Proved epsilon (epsilon_proved).", Range: "[0,1e9]",
	Check: func(s *audits.Setting, _ float64, fail audits.Fail) {
		fail.If(s.Training.NoiseMultiplier == 0, []string{"audit.fail_if.epsilon", "training.privacy"}, "limits epsilon, which is infinite without noise; set training.privacy.noise_multiplier, or remove the limit")
	},
	Breaches: breaches,
}.Limit()}

// breaches also fails a training without clipping, which has no proved epsilon.
func breaches(c *audits.Cell, limit float64) []string {
	switch {
	case c.Privacy == nil:
		return []string{fmt.Sprintf("epsilon is infinite, above the limit of %.4g: the training has no privacy", limit)}
	case float64(c.Privacy.EpsilonProved) > limit:
		return []string{fmt.Sprintf("epsilon_proved is %s (%s, at delta %g), above the limit of %.4g", c.Privacy.EpsilonProved, c.Privacy.Neighbouring, c.Privacy.Delta, limit)}
	}
	return nil
}
