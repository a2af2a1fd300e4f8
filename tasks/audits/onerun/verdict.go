package onerun

import (
	"fmt"
	"math"

	"coalmine/privacy"
	"coalmine/privacy/onerun"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is the one-run audit.
var Audit = audits.Description{
	Name: "one_run",
	Legend: "One-run epsilon: the audit of coins and guesses is certain of so much at the confidence stated below; in brackets, the most that " +
		"it could have found. By trade-off curve: what is proved of the least noise that the guesses refute, and that noise multiplier. " +
		"Refutes epsilon: whether the first bound is above epsilon_proved; refutes z: whether the second refutes the noise multiplier that is claimed.",
	New:         func() audits.Fields { return new(Fields) },
	Limits:      func() audits.Limits { return new(Limits) },
	Kinds:       []tasks.Kind{Coins, Bound, Scored},
	ByScores:    true,
	ByProgram:   true,
	OfPrivacy:   true,
	AtEnd:       true,
	VerdictBlob: VerdictBlob,
	Verdict:     func() audits.Verdict { return new(Verdict) },
	Outcome:     func() audits.Outcome { return new(Unit) },
	Columns: []audits.Column{
		{Header: "one-run epsilon >= (of)", Measure: audits.OldMeasure{Name: "epsilon_lower", Digits: 3}},
		{Header: "by trade-off curve (z <)", Optional: true, Measure: audits.OldMeasure{Name: "one_run_trade_off_epsilon_lower", Digits: 3}},
		{Header: "refutes epsilon", Optional: true, Measure: audits.OldMeasure{Name: "one_run_epsilon_refuted", Percent: true}},
		{Header: "refutes z", Optional: true, Measure: audits.OldMeasure{Name: "one_run_refuted", Percent: true}},
	},
}

// Verdict is a lower bound on epsilon, and all that it rests on.
type Verdict struct {
	// Canaries is the number of coins, m in the paper; Included of them came up
	// heads.
	Canaries int `json:"canaries"`
	Included int `json:"included"`
	// KPlus guesses of "in" and KMinus of "out" were made, Correct of all right.
	KPlus   int `json:"k_plus"`
	KMinus  int `json:"k_minus"`
	Correct int `json:"correct"`
	// EpsilonLower holds at Delta with Confidence.
	EpsilonLower float64 `json:"epsilon_lower"`
	Delta        float64 `json:"delta"`
	Confidence   float64 `json:"confidence"`
	// EpsilonLargest is the bound had all these guesses been right;
	// EpsilonLargestCanaries that had all coins been guessed, and rightly. The
	// audit cannot tell larger epsilons apart.
	EpsilonLargest         float64 `json:"epsilon_largest"`
	EpsilonLargestCanaries float64 `json:"epsilon_largest_canaries"`

	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
	Score        string               `json:"score"`
	// Choices are how many numbers of guesses were tried, of which KPlus and KMinus show most;
	// 0 for one. Each had its share of 1 - Confidence.
	Choices int `json:"choices,omitempty"`
	// TradeOff is what the guesses say by the trade-off curve of the training, where asked for.
	TradeOff *TradeOff `json:"trade_off,omitempty"`
	// Units are the canaries, each with its score, its coin and the guess about it.
	Units []Unit `json:"units,omitempty"`
}

// Unit is a canary of the audit.
type Unit struct {
	Words []string `json:"words"`
	// Score is higher where the training has made the canary more likely.
	Score float64 `json:"score"`
	// Included is the coin: whether the canary was in the training data.
	Included bool `json:"included"`
	// Guess is "in", "out" or "abstained".
	Guess onerun.Answer `json:"guess"`
}

// Row implements audits.Outcome.
func (u *Unit) Row() any {
	return unitRow{&u.Score, &u.Included, new(string(u.Guess))}
}

type unitRow struct {
	Score    *float64 `parquet:"one_run_score"`
	Included *bool    `parquet:"one_run_included"`
	Guess    *string  `parquet:"one_run_guess"`
}

// Own implements audits.Lister.
func (v *Verdict) Own() []audits.Own {
	var own []audits.Own
	for i := range v.Units {
		own = append(own, audits.Own{Words: v.Units[i].Words, Outcome: &v.Units[i]})
	}
	return own
}

// Texts implements audits.Verdict. The bound has beside it the most that its audit
// could have found.
func (v *Verdict) Texts() []string {
	bound := fmt.Sprintf("%s (%s)", privacy.Epsilon(v.EpsilonLower), privacy.Epsilon(v.EpsilonLargest))
	t := v.TradeOff
	if t == nil || !t.Claimed {
		return []string{bound, t.text(), "", ""}
	}
	return []string{bound, t.text(), yesOrNo(t.EpsilonRefuted), yesOrNo(t.Refuted)}
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// text is empty for what was not asked for.
func (t *TradeOff) text() string {
	switch {
	case t == nil:
		return ""
	case t.NoiseMultiplier == nil:
		return "0"
	}
	return fmt.Sprintf("%s (%.3g)", t.EpsilonLower, *t.NoiseMultiplier)
}

// Note implements audits.Noter. An epsilon is never bare.
func (v *Verdict) Note(c *audits.Cell) string {
	return fmt.Sprintf("one-run audit: epsilon at least %s at delta %g with %g%% confidence (%s, unit %s, score %s): "+
		"%d of %d guesses about %d canaries are right; all of them would certify %s, as many as canaries %s%s%s",
		privacy.Epsilon(v.EpsilonLower), v.Delta, 100*v.Confidence, v.Neighbouring, v.Unit, v.Score,
		v.Correct, v.KPlus+v.KMinus, v.Canaries, privacy.Epsilon(v.EpsilonLargest), privacy.Epsilon(v.EpsilonLargestCanaries),
		v.contradiction(c.Privacy), v.TradeOff.note())
}

// note says what is refuted by the trade-off curve, if it was asked for.
func (t *TradeOff) note() string {
	if t == nil {
		return ""
	}
	text := "; by the trade-off curve of the training no noise is refuted"
	if t.NoiseMultiplier != nil {
		text = fmt.Sprintf("; by the trade-off curve of the training %d of %d guesses refute noise multipliers from %.3g on, of which epsilon %s is proved",
			t.Correct, t.KPlus+t.KMinus, *t.NoiseMultiplier, t.EpsilonLower)
	}
	if t.Refuted {
		text += fmt.Sprintf(", and with them the CLAIMED one (p %.2g): repeat it with other seeds, and if it stays so, the training is not as private as was proved", t.PValue)
	}
	return text
}

// contradiction says that the bounds cross, which one audit in twenty may show
// of a right training at 95% confidence, and every audit of a wrong one; or that
// they could not, so that nothing follows from it that they don't.
func (v *Verdict) contradiction(proved *privacy.Report) string {
	switch {
	case proved == nil || math.IsInf(float64(proved.EpsilonProved), 1):
		return ""
	case v.EpsilonLower > float64(proved.EpsilonProved):
		return fmt.Sprintf("; this is ABOVE epsilon_proved %s: repeat it with other seeds, and if it stays so, the training is not as private as was proved", proved.EpsilonProved)
	case v.EpsilonLargestCanaries < float64(proved.EpsilonProved):
		return fmt.Sprintf("; POWERLESS against epsilon_proved %s: this bound is below it however good the guesses are; use more canaries", proved.EpsilonProved)
	}
	return ""
}

// EpsilonAtLeast implements audits.LowerBounder.
func (v *Verdict) EpsilonAtLeast() privacy.Epsilon {
	if t := v.TradeOff; t != nil && t.NoiseMultiplier != nil {
		return max(privacy.Epsilon(v.EpsilonLower), t.EpsilonLower)
	}
	return privacy.Epsilon(v.EpsilonLower)
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{
		EpsilonLower: &v.EpsilonLower, Delta: &v.Delta, Confidence: &v.Confidence, Neighbouring: string(v.Neighbouring), Unit: v.Unit,
		Canaries: new(int64(v.Canaries)), KPlus: new(int64(v.KPlus)), KMinus: new(int64(v.KMinus)), Correct: new(int64(v.Correct)),
		EpsilonLargest: &v.EpsilonLargest,
	}
	if t := v.TradeOff; t != nil {
		r.NoiseRefuted = t.NoiseMultiplier
		if t.Claimed {
			r.PValue, r.Refuted, r.EpsilonRefuted = &t.PValue, &t.Refuted, &t.EpsilonRefuted
		}
		if !math.IsInf(float64(t.EpsilonLower), 1) {
			r.TradeOffEpsilon = new(float64(t.EpsilonLower))
		}
	}
	return r
}

type row struct {
	EpsilonLower   *float64 `parquet:"epsilon_lower"`
	Delta          *float64 `parquet:"one_run_delta"`
	Confidence     *float64 `parquet:"one_run_confidence"`
	Neighbouring   string   `parquet:"one_run_neighbouring"`
	Unit           string   `parquet:"one_run_unit"`
	Canaries       *int64   `parquet:"one_run_canaries"`
	KPlus          *int64   `parquet:"one_run_k_plus"`
	KMinus         *int64   `parquet:"one_run_k_minus"`
	Correct        *int64   `parquet:"one_run_correct"`
	EpsilonLargest *float64 `parquet:"one_run_epsilon_largest"`
	// By the trade-off curve.
	NoiseRefuted    *float64 `parquet:"one_run_noise_multiplier_refuted"`
	TradeOffEpsilon *float64 `parquet:"one_run_trade_off_epsilon_lower"`
	PValue          *float64 `parquet:"one_run_p_value"`
	Refuted         *bool    `parquet:"one_run_refuted"`
	EpsilonRefuted  *bool    `parquet:"one_run_epsilon_refuted"`
}

// Limits of audit.fail_if.
type Limits struct {
	// EpsilonLower limits the lower bound on epsilon of the one-run audit.
	EpsilonLower *float64 `json:"epsilon_lower,omitempty" range:"[0,1e9]"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok {
		return nil
	}
	return audits.Above(fmt.Sprintf("epsilon_lower (%s, at delta %g with %g%% confidence)", v.Neighbouring, v.Delta, 100*v.Confidence), v.EpsilonLower, l.EpsilonLower)
}

// FalseAlarms implements audits.FalseAlarmer. A bound that holds with its confidence is
// above a limit that holds with at most the rest of the probability.
func (l *Limits) FalseAlarms(s *audits.Setting) []audits.FalseAlarm {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok || l.EpsilonLower == nil {
		return nil
	}
	return []audits.FalseAlarm{{Limit: "epsilon_lower", Allowed: *l.EpsilonLower, Trials: 1, Unit: "audits", Probability: 1 - f.OneRun.Confidence.Float64()}}
}
