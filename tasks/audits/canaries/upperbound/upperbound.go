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
	Name:    "privacy",
	Limits:  limits,
	Outcome: func() audits.Outcome { return new(Outcome) },
	Derive: func(c *audits.Cell) audits.Outcome {
		if c.Privacy == nil {
			return nil
		}
		return &Outcome{Report: *c.Privacy, atLeast: c.EpsilonAtLeast()}
	},
	Measures: []audits.Measure{
		{Name: "noise_multiplier", Of: audits.Of(func(v *Outcome) float64 { return v.NoiseMultiplier }), Doc: "noise of the training over its clip norm"},
		{Name: "delta", Of: audits.Of(func(v *Outcome) *float64 { return audits.NonZero(v.Delta) }), Doc: "delta at which epsilon, epsilon_proved and epsilon_renyi hold"},
		{Name: "epsilon", Of: audits.Of(func(v *Outcome) *float64 { return numbers.Finite(v.Epsilon) }), Header: privacy.HeadlineOf, Text: audits.Of((*Outcome).text), Doc: "epsilon by the papers' convention, the noise relative to the clip norm, which may underestimate; tables print epsilon_proved, and this one in brackets if the two differ"},
		{Name: "epsilon_proved", Of: audits.Of(func(v *Outcome) *float64 { return numbers.Finite(v.EpsilonProved) }), Doc: "least epsilon that an accountant proves under the neighbouring relation"},
		{Name: "epsilon_renyi", Of: audits.Of(func(v *Outcome) *float64 {
			if v.AccountantProved == "" { // results from before the choice of the accountant
				return nil
			}
			return numbers.Finite(v.EpsilonRenyi)
		}), Doc: "epsilon that Rényi divergences prove"},
		{Name: "accountant_proved", Of: audits.Of(func(v *Outcome) privacy.Accountant { return v.AccountantProved }), Doc: "accountant of epsilon_proved"},
		{Name: "epsilon_infinite", Of: audits.Of(func(v *Outcome) bool { return v.Infinite }), Doc: "whether epsilon is infinite: no accountant proves a bound"},
		{Name: "privacy_unit", Of: audits.Of(func(v *Outcome) string { return v.Unit }), Doc: "unit of the proved privacy, such as user"},
		{Name: "sampling", Of: audits.Of(func(v *Outcome) privacy.Sampling { return v.Sampling }), Doc: "sampling of cohorts that the accounting assumes"},
		{Name: "neighbouring", Of: audits.Of(func(v *Outcome) privacy.Neighbouring { return v.Neighbouring }), Doc: "neighbouring relation of epsilon_proved"},
		{Name: "conversion", Of: audits.Of(func(v *Outcome) privacy.Conversion { return v.Conversion }), Doc: "conversion of Rényi divergences to epsilon"},
		{Name: "holds_against", Of: audits.Of(func(v *Outcome) string { return v.HoldsAgainst }), Doc: "adversary against whom epsilon holds"},
		{Name: "control", Of: audits.Of(func(v *Outcome) privacy.Control { return v.Control }), Doc: "deliberate fault of the training (audit.control); with one, no epsilon holds"},
		{Name: "epsilon_underestimates", Of: audits.Of((*Outcome).underestimates), Doc: "whether the papers' convention underestimates epsilon; empty if it is proved"},
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

// underestimates returns whether the papers' convention underestimates epsilon; nil if it is proved.
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
