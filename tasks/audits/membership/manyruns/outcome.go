package manyruns

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name: "many_runs",
	Legend: "Many-run epsilon: many trainings, half of which chose the rule, are certain of so much at the confidence stated below; in brackets, the " +
		"most that they could have found. By trade-off curve: what is proved of the least noise that they refute, and that noise multiplier.",
	Limits:      limits,
	Power:       power,
	Kinds:       []tasks.Kind{Bound},
	OfPrivacy:   true,
	AtEnd:       true,
	OutcomeBlob: OutcomeBlob,
	References:  func(f audits.Fields) int { return f.(*Fields).ManyRuns.Runs },

	Own:           audits.From((*Outcome).own),
	CanaryOutcome: func() audits.CanaryOutcome { return new(Training) },
	Measures: slices.Concat([]audits.Measure{
		{
			Name: "many_runs_epsilon_lower", Of: audits.Of(func(v *Outcome) float64 { return v.EpsilonLower }),
			Header: "many-run epsilon >= (of)", Text: audits.Of((*Outcome).text), Scale: audits.Plain, Digits: 3,
		},
		{Name: "many_runs_delta", Of: audits.Of(func(v *Outcome) float64 { return v.Delta })},
		{Name: "many_runs_confidence", Of: audits.Of(func(v *Outcome) float64 { return v.Confidence })},
		{Name: "many_runs_neighbouring", Of: audits.Of(func(v *Outcome) privacy.Neighbouring { return v.Neighbouring })},
		{Name: "many_runs_unit", Of: audits.Of(func(v *Outcome) string { return v.Unit })},
		{Name: "many_runs_trainings", Of: audits.Of(func(v *Outcome) int { return v.Runs })},
		{Name: "many_runs_right", Of: audits.Of(func(v *Outcome) int { return v.Rates.Right })},
		{Name: "many_runs_of", Of: audits.Of(func(v *Outcome) int { return v.Rates.Of })},
		{Name: "many_runs_wrong", Of: audits.Of(func(v *Outcome) int { return v.Rates.Wrong })},
		{Name: "many_runs_others", Of: audits.Of(func(v *Outcome) int { return v.Rates.Others })},
		{Name: "many_runs_epsilon_largest", Of: audits.Of(func(v *Outcome) float64 { return v.EpsilonLargest })},
	}, audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
		audits.Measure{Name: "many_runs_noise_multiplier_refuted", Of: audits.Of(func(t *TradeOff) *float64 { return t.NoiseMultiplier })},
		audits.Measure{
			Name: "many_runs_trade_off_epsilon_lower", Of: audits.Of(func(t *TradeOff) *float64 { return numbers.Finite(t.EpsilonLower) }),
			Header: "many-run by trade-off curve (z <)", Text: audits.Of((*TradeOff).text), Optional: true, Scale: audits.Plain, Digits: 3,
		},
		audits.Measure{Name: "many_runs_p_value", Of: audits.Of((*TradeOff).pValue)},
	)),
	Canary: []audits.Measure{
		{Name: "many_runs_score", Of: audits.Of(func(t *Training) float64 { return t.Score })},
		{Name: "many_runs_included", Of: audits.Of(func(t *Training) bool { return t.Included })},
		{Name: "many_runs_chooses", Of: audits.Of(func(t *Training) bool { return t.Chooses })},
	},
})

// Outcome is a lower bound on epsilon and its evidence.
type Outcome struct {
	// Runs is the number of trainings, Included the number of those with the canary.
	Runs     int `json:"runs"`
	Included int `json:"included"`
	// Rule was chosen by the trainings with Chooses, Rates are the rates of the other trainings.
	Rule  empirical.Rule  `json:"rule"`
	Rates empirical.Rates `json:"rates"`
	// EpsilonLower holds at Delta with Confidence. EpsilonLargest is the bound if the rule had found all coins.
	EpsilonLower   float64 `json:"epsilon_lower"`
	EpsilonLargest float64 `json:"epsilon_largest"`
	Delta          float64 `json:"delta"`
	Confidence     float64 `json:"confidence"`

	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	Score        string               `json:"score"`
	TradeOff     *TradeOff            `json:"trade_off,omitempty"`
	Trainings    []Training           `json:"trainings,omitempty"`
}

// TradeOff is the result by the trade-off curve of the training, with a separate rule.
type TradeOff struct {
	Rule  empirical.Rule  `json:"rule"`
	Rates empirical.Rates `json:"rates"`
	// NoiseMultiplier is the smallest refuted one: the training had less noise. It is nil if there is none.
	NoiseMultiplier *float64 `json:"noise_multiplier_refuted"`
	// EpsilonLower is the proved epsilon of that noise, or 0.
	EpsilonLower privacy.Epsilon `json:"epsilon_lower"`
	// PValue bounds the chance of such rates under the claimed noise; 1 without a claim. Refuted: it is at
	// most 1 - confidence.
	PValue  float64 `json:"p_value"`
	Claimed bool    `json:"claimed"`
	Refuted bool    `json:"refuted"`
}

// Training is one of the trainings.
type Training struct {
	// Score is higher if the training seems to have learned the canary.
	Score    float64 `json:"score"`
	Included bool    `json:"included"`
	// Chooses reports whether the training is used to choose the rules, not for the proof.
	Chooses bool `json:"chooses,omitempty"`
}

// own returns each training's canary, with the training's own words.
func (v *Outcome) own() []audits.Own {
	var own []audits.Own
	for i := range v.Trainings {
		own = append(own, audits.Own{CanaryOutcome: &v.Trainings[i]})
	}
	return own
}

func (v *Outcome) text() string {
	return fmt.Sprintf("%s (%s)", privacy.Epsilon(v.EpsilonLower), privacy.Epsilon(v.EpsilonLargest))
}

func (t *TradeOff) text() string {
	if t.NoiseMultiplier == nil {
		return "0"
	}
	return fmt.Sprintf("%s (%.3g)", t.EpsilonLower, *t.NoiseMultiplier)
}

// pValue is nil without a claim.
func (t *TradeOff) pValue() *float64 {
	if !t.Claimed {
		return nil
	}
	return &t.PValue
}

// Note implements audits.Noter. It qualifies every epsilon.
func (v *Outcome) Note(c *audits.Cell) string {
	kind := "with"
	if v.Rule.Below {
		kind = "without"
	}
	note := fmt.Sprintf("many-run audit: epsilon at least %s at delta %g with %g%% confidence (%s, unit %s, score %s): of %d trainings that prove, %d of %d %s the canary "+
		"are recognized, and %d of %d others; perfect recognition would certify %s", privacy.Epsilon(v.EpsilonLower), v.Delta, 100*v.Confidence,
		v.Neighbouring, v.Unit, v.Score, v.Rates.Of+v.Rates.Others, v.Rates.Right, v.Rates.Of, kind, v.Rates.Wrong, v.Rates.Others, privacy.Epsilon(v.EpsilonLargest))
	switch proved := c.Privacy; {
	case proved == nil || math.IsInf(float64(proved.EpsilonProved), 1):
	case v.EpsilonLower > float64(proved.EpsilonProved):
		note += fmt.Sprintf("; this is ABOVE epsilon_proved %s: repeat it with other seeds, and if it stays so, the training is not as private as was proved", proved.EpsilonProved)
	}
	return note + v.TradeOff.note()
}

func (t *TradeOff) note() string {
	switch {
	case t == nil:
		return ""
	case t.NoiseMultiplier == nil:
		return "; by the trade-off curve of the training no noise is refuted"
	}
	text := fmt.Sprintf("; by the trade-off curve of the training %d of %d and %d of %d refute noise multipliers from %.3g on, of which epsilon %s is proved",
		t.Rates.Right, t.Rates.Of, t.Rates.Wrong, t.Rates.Others, *t.NoiseMultiplier, t.EpsilonLower)
	if t.Claimed && t.Refuted {
		text += fmt.Sprintf(", and with them the CLAIMED one (p %.2g)", t.PValue)
	}
	return text
}

// EpsilonAtLeast implements audits.LowerBounder.
func (v *Outcome) EpsilonAtLeast() privacy.Epsilon {
	if v.TradeOff != nil {
		return max(privacy.Epsilon(v.EpsilonLower), v.TradeOff.EpsilonLower)
	}
	return privacy.Epsilon(v.EpsilonLower)
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name: "many_runs_epsilon_lower", Doc: "Lower bound on epsilon of the many-run audit, without the trade-off curve.", Range: "[0,1e9]",
	Breaches: audits.Judged("many_runs_epsilon_lower", func(v *Outcome, limit float64) []string {
		if v.Runs == 0 {
			return audits.NoValue("many_runs_epsilon_lower", "the audit has no trainings")
		}
		return audits.Above(fmt.Sprintf("many_runs_epsilon_lower (%s, at delta %g with %g%% confidence)", v.Neighbouring, v.Delta, 100*v.Confidence), v.EpsilonLower, limit)
	}),
	FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
		f, ok := audits.FieldsOf[*Fields](s)
		if !ok {
			return nil
		}
		return []audits.FalseAlarm{{Limit: "many_runs_epsilon_lower", Allowed: limit, Trials: 1, Unit: "audits", Probability: 1 - f.ManyRuns.Confidence.Float64()}}
	},
}.Limit()}
