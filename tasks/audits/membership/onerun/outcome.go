package onerun

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
	Name: "one_run",
	Legend: "One-run epsilon: the audit of coins and guesses is certain of so much at the confidence stated below; in brackets, the most that " +
		"it could have found. By trade-off curve: what is proved of the least noise that the guesses refute, and that noise multiplier. " +
		"Refutes epsilon: whether the first bound is above epsilon_proved; refutes z: whether the second refutes the noise multiplier that is claimed. " +
		"Estimate: epsilon, with its standard error, if the scores are normal; no bound.",
	Limits:        limits,
	Power:         power,
	Kinds:         []tasks.Kind{Coins, Bound, Scored},
	ByScores:      true,
	ByProgram:     true,
	OfPrivacy:     true,
	AtEnd:         true,
	OutcomeBlob:   OutcomeBlob,
	Own:           audits.From((*Outcome).own),
	CanaryOutcome: func() audits.CanaryOutcome { return new(Unit) },
	Measures: slices.Concat([]audits.Measure{
		{
			Name: "epsilon_lower", Of: audits.Of(func(v *Outcome) float64 { return v.EpsilonLower }),
			Header: "one-run epsilon >= (of)", Text: audits.Of((*Outcome).text), Scale: audits.Plain, Digits: 3,
		},
		{Name: "one_run_delta", Of: audits.Of(func(v *Outcome) float64 { return v.Delta })},
		{Name: "one_run_confidence", Of: audits.Of(func(v *Outcome) float64 { return v.Confidence })},
		{Name: "one_run_neighbouring", Of: audits.Of(func(v *Outcome) privacy.Neighbouring { return v.Neighbouring })},
		{Name: "one_run_unit", Of: audits.Of(func(v *Outcome) string { return v.Unit })},
		{Name: "one_run_canaries", Of: audits.Of(func(v *Outcome) int { return v.Canaries })},
		{Name: "one_run_k_plus", Of: audits.Of(func(v *Outcome) int { return v.KPlus })},
		{Name: "one_run_k_minus", Of: audits.Of(func(v *Outcome) int { return v.KMinus })},
		{Name: "one_run_correct", Of: audits.Of(func(v *Outcome) int { return v.Correct })},
		{Name: "one_run_epsilon_largest", Of: audits.Of(func(v *Outcome) float64 { return v.EpsilonLargest })},
	}, audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
		audits.Measure{Name: "one_run_noise_multiplier_refuted", Of: audits.Of(func(t *TradeOff) *float64 { return t.NoiseMultiplier })},
		audits.Measure{
			Name: "one_run_trade_off_epsilon_lower", Of: audits.Of(func(t *TradeOff) *float64 { return numbers.Finite(t.EpsilonLower) }),
			Header: "by trade-off curve (z <)", Text: audits.Of((*TradeOff).text), Optional: true, Scale: audits.Plain, Digits: 3,
		},
	), audits.Within((*Outcome).claim,
		audits.Measure{Name: "one_run_p_value", Of: audits.Of(func(t *TradeOff) float64 { return t.PValue })},
		audits.Measure{Name: "one_run_refuted", Of: audits.Of(func(t *TradeOff) bool { return t.Refuted }), Header: "refutes z", Optional: true, Place: 2, Scale: audits.Percent},
		audits.Measure{Name: "one_run_epsilon_refuted", Of: audits.Of(func(t *TradeOff) bool { return t.EpsilonRefuted }), Header: "refutes epsilon", Optional: true, Place: 1, Scale: audits.Percent},
	), audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
		audits.Measure{Name: "one_run_trade_off_epsilon_largest", Of: audits.Of((*TradeOff).largest)},
		audits.Measure{Name: "one_run_independent", Of: audits.Of(func(t *TradeOff) bool { return t.Independent })},
	), audits.Within(func(v *Outcome) *empirical.GaussianEstimate { return v.Estimate },
		audits.Measure{
			Name: "one_run_estimate", Of: audits.Of(func(e *empirical.GaussianEstimate) float64 { return e.Epsilon }),
			Header: "estimate", Text: audits.Of(estimateText), Optional: true, Scale: audits.Plain, Digits: 3,
		},
		audits.Measure{Name: "one_run_estimate_se", Of: audits.Of(func(e *empirical.GaussianEstimate) float64 { return e.StandardError })},
	), audits.Within((*Outcome).weakest,
		audits.Measure{Name: "one_run_ceiling", Of: audits.Of(func(c *Ceiling) float64 { return c.EpsilonLower })},
		audits.Measure{Name: "one_run_trade_off_ceiling", Of: audits.Of((*Ceiling).tradeOff)},
	)),
	Canary: []audits.Measure{
		{Name: "one_run_score", Of: audits.Of(func(u *Unit) float64 { return u.Score })},
		{Name: "one_run_included", Of: audits.Of(func(u *Unit) bool { return u.Included })},
		{Name: "one_run_guess", Of: audits.Of(func(u *Unit) *empirical.Answer { return &u.Guess })},
	},
})

// Outcome is a lower bound on epsilon and its evidence.
type Outcome struct {
	// Canaries is the number of coins, m in the paper, Included the number of heads.
	Canaries int `json:"canaries"`
	Included int `json:"included"`
	// Correct is the number of right guesses among KPlus "in" and KMinus "out".
	KPlus   int `json:"k_plus"`
	KMinus  int `json:"k_minus"`
	Correct int `json:"correct"`
	// EpsilonLower holds at Delta with Confidence.
	EpsilonLower float64 `json:"epsilon_lower"`
	Delta        float64 `json:"delta"`
	Confidence   float64 `json:"confidence"`
	// EpsilonLargest is the bound if all these guesses were right, EpsilonLargestCanaries if all coins were
	// guessed correctly: the audit cannot distinguish larger epsilons.
	EpsilonLargest         float64 `json:"epsilon_largest"`
	EpsilonLargestCanaries float64 `json:"epsilon_largest_canaries"`

	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	Score        string               `json:"score"`
	// Choices is the number of tried pairs of KPlus and KMinus, each with its share of 1 - Confidence; 0 for
	// one pair.
	Choices  int       `json:"choices,omitempty"`
	TradeOff *TradeOff `json:"trade_off,omitempty"`
	// Ceilings are approximately the most that the audit can prove about a training that is as private as it
	// claims, from the strongest attacker to the weakest; only with TradeOff and a claim.
	Ceilings []Ceiling `json:"ceilings,omitempty"`
	// Estimate is not a bound. Only canaries scored by ScoreLikelihood have one.
	Estimate *empirical.GaussianEstimate `json:"estimate,omitempty"`
	Units    []Unit                      `json:"units,omitempty"`
}

// Unit is a canary of the audit.
type Unit struct {
	Words []string `json:"words"`
	// Score is higher if the training made the canary more likely.
	Score float64 `json:"score"`
	// Included reports whether the canary was in the training data: the coin.
	Included bool `json:"included"`
	// Guess is "in", "out" or "abstained".
	Guess empirical.Answer `json:"guess"`
}

func (v *Outcome) own() []audits.Own {
	var own []audits.Own
	for i := range v.Units {
		own = append(own, audits.Own{Words: v.Units[i].Words, CanaryOutcome: &v.Units[i]})
	}
	return own
}

// text is the bound, and the largest bound that the audit could have found.
func (v *Outcome) text() string {
	return fmt.Sprintf("%s (%s)", privacy.Epsilon(v.EpsilonLower), privacy.Epsilon(v.EpsilonLargest))
}

// claim is TradeOff if the training claims its privacy, otherwise nil.
func (v *Outcome) claim() *TradeOff {
	if v.TradeOff == nil || !v.TradeOff.Claimed {
		return nil
	}
	return v.TradeOff
}

// largest is the bound if all guesses were right; nil if it is not computed.
func (t *TradeOff) largest() *float64 {
	if !t.Independent {
		return nil
	}
	return numbers.Finite(t.EpsilonLargest)
}

// text is the proved epsilon of the smallest refuted noise multiplier, and that multiplier.
func (t *TradeOff) text() string {
	if t.NoiseMultiplier == nil {
		return "0"
	}
	return fmt.Sprintf("%s (%.3g)", t.EpsilonLower, *t.NoiseMultiplier)
}

// Note implements audits.Noter. It qualifies every epsilon.
func (v *Outcome) Note(c *audits.Cell) string {
	return fmt.Sprintf("one-run audit: epsilon at least %s at delta %g with %g%% confidence (%s, unit %s, score %s): "+
		"%d of %d guesses about %d canaries are right; all of them would certify %s, as many as canaries %s%s%s",
		privacy.Epsilon(v.EpsilonLower), v.Delta, 100*v.Confidence, v.Neighbouring, v.Unit, v.Score,
		v.Correct, v.KPlus+v.KMinus, v.Canaries, privacy.Epsilon(v.EpsilonLargest), privacy.Epsilon(v.EpsilonLargestCanaries),
		v.contradiction(c.Privacy), v.TradeOff.note()+v.beside())
}

func (t *TradeOff) note() string {
	if t == nil {
		return ""
	}
	text := "; by the trade-off curve of the training no noise is refuted"
	if t.NoiseMultiplier != nil {
		text = fmt.Sprintf("; by the trade-off curve of the training %d of %d guesses refute noise multipliers from %.3g on, of which epsilon %s is proved",
			t.Correct, t.KPlus+t.KMinus, *t.NoiseMultiplier, t.EpsilonLower)
	}
	if t.Independent {
		text += fmt.Sprintf(" (canaries do not hide each other; all of them would refute %s)", t.EpsilonLargest)
	}
	if t.Refuted {
		text += fmt.Sprintf(", and with them the CLAIMED one (p %.2g): repeat it with other seeds, and if it stays so, the training is not as private as was proved", t.PValue)
	}
	return text
}

// contradiction warns of bounds that cross, as for one correct training in twenty at 95% confidence, and
// every wrong one; or of bounds that cannot cross, which prove nothing.
func (v *Outcome) contradiction(proved *privacy.Report) string {
	switch {
	case proved == nil || math.IsInf(float64(proved.EpsilonProved), 1):
		return ""
	case v.EpsilonLower > float64(proved.EpsilonProved):
		return fmt.Sprintf("; this is ABOVE epsilon_proved %s: repeat it with other seeds, and if it stays so, the training is not as private as was proved", proved.EpsilonProved)
	case v.EpsilonLargestCanaries < float64(proved.EpsilonProved) && (v.TradeOff == nil || v.TradeOff.EpsilonLargest < proved.EpsilonProved):
		return fmt.Sprintf("; POWERLESS against epsilon_proved %s: this bound is below it however good the guesses are; use more canaries", proved.EpsilonProved)
	}
	return ""
}

// EpsilonAtLeast implements audits.LowerBounder.
func (v *Outcome) EpsilonAtLeast() privacy.Epsilon {
	if t := v.TradeOff; t != nil && t.NoiseMultiplier != nil {
		return max(privacy.Epsilon(v.EpsilonLower), t.EpsilonLower)
	}
	return privacy.Epsilon(v.EpsilonLower)
}

var limits = []audits.Limit{audits.LimitOf[float64]{
	Name: "epsilon_lower", Doc: "Lower bound on epsilon of the one-run audit.", Range: "[0,1e9]",
	Breaches: audits.Judged("epsilon_lower", func(v *Outcome, limit float64) []string {
		if v.Canaries == 0 {
			return audits.NoValue("epsilon_lower", "the audit has no canaries")
		}
		return audits.Above(fmt.Sprintf("epsilon_lower (%s, at delta %g with %g%% confidence)", v.Neighbouring, v.Delta, 100*v.Confidence), v.EpsilonLower, limit)
	}),
	FalseAlarms: falseAlarms("epsilon_lower"),
}.Limit(), audits.LimitOf[float64]{
	Name: "trade_off_epsilon_lower", Doc: "Lower bound on epsilon by the trade-off curve (`one_run.trade_off`).", Range: "[0,1e9]",
	Breaches: audits.Judged("trade_off_epsilon_lower", func(v *Outcome, limit float64) []string {
		if v.TradeOff == nil {
			return audits.NoValue("trade_off_epsilon_lower", "the audit has no trade_off")
		}
		return audits.Above(fmt.Sprintf("trade_off_epsilon_lower (at delta %g with %g%% confidence)", v.Delta, 100*v.Confidence), float64(v.TradeOff.EpsilonLower), limit)
	}),
	Check: func(s *audits.Setting, _ float64, fail audits.Fail) {
		if f, ok := audits.FieldsOf[*Fields](s); ok && !f.OneRun.TradeOff {
			fail([]string{"audit.fail_if.trade_off_epsilon_lower", path + ".trade_off"}, "limits a bound that is not computed; set %s.trade_off", path)
		}
	},
	FalseAlarms: falseAlarms("trade_off_epsilon_lower"),
}.Limit()}

// falseAlarms returns the false alarms of a bound that fails with probability at most 1 - confidence.
func falseAlarms(name string) func(s *audits.Setting, limit float64) []audits.FalseAlarm {
	return func(s *audits.Setting, limit float64) []audits.FalseAlarm {
		f, ok := audits.FieldsOf[*Fields](s)
		if !ok {
			return nil
		}
		return []audits.FalseAlarm{{Limit: name, Allowed: limit, Trials: 1, Unit: "audits", Probability: 1 - f.OneRun.Confidence.Float64()}}
	}
}
