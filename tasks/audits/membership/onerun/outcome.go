package onerun

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name: "one_run",
	Legend: "One-run epsilon: the audit of coins and guesses is certain of so much at the confidence stated below; in brackets, the most that " +
		"it could have found. By trade-off curve: what is proved of the least noise that the guesses refute, and that noise multiplier. " +
		"Refutes epsilon: whether the first bound is above epsilon_proved; refutes z: whether the second refutes the noise multiplier that is claimed. " +
		"Estimate: epsilon, with its standard error, if the scores are normal; no bound.",
	Limits:        limits,
	Power:         audits.Powered(power),
	Kinds:         []tasks.Kind{Learned, Coins, Bound, Scored},
	ByScores:      true,
	ByProgram:     true,
	OfPrivacy:     true,
	AtEnd:         true,
	OutcomeBlob:   OutcomeBlob,
	Own:           audits.From((*Outcome).own),
	CanaryOutcome: func() audits.CanaryOutcome { return new(Unit) },
	Measures: slices.Concat([]audits.Measure{{
		Name: "epsilon_lower", Of: audits.Of(func(v *Outcome) float64 { return v.EpsilonLower }),
		Header: "one-run epsilon >= (of)", Text: audits.Of((*Outcome).text), Scale: audits.Plain, Digits: 3,
	}}, audits.Columns[Outcome]("one_run_", "delta", "confidence", "neighbouring", "unit", "canaries", "k_plus", "k_minus", "correct", "epsilon_largest"), audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
		audits.Measure{Name: "one_run_noise_multiplier_refuted", Of: audits.Of(func(t *TradeOff) *float64 { return t.NoiseMultiplier })},
		audits.Measure{
			Name: "one_run_trade_off_epsilon_lower", Of: audits.Of(func(t *TradeOff) *float64 { return numbers.Finite(t.EpsilonLower) }),
			Header: "by trade-off curve (z <)", Text: audits.Of((*TradeOff).Text), Optional: true, Scale: audits.Plain, Digits: 3,
		},
	), audits.Within(func(v *Outcome) *TradeOff {
		if v.TradeOff == nil || !v.TradeOff.Claimed {
			return nil
		}
		return v.TradeOff
	},
		audits.Measure{Name: "one_run_p_value", Of: audits.Of(func(t *TradeOff) float64 { return t.PValue })},
		audits.Measure{Name: "one_run_refuted", Of: audits.Of(func(t *TradeOff) bool { return t.Refuted }), Header: "refutes z", Optional: true, Place: 2, Scale: audits.Percent},
		audits.Measure{Name: "one_run_epsilon_refuted", Of: audits.Of(func(t *TradeOff) bool { return t.EpsilonRefuted }), Header: "refutes epsilon", Optional: true, Place: 1, Scale: audits.Percent},
	), audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
		audits.Measure{Name: "one_run_trade_off_epsilon_largest", Of: audits.Of(func(t *TradeOff) *float64 {
			if !t.Independent { // not computed
				return nil
			}
			return numbers.Finite(t.EpsilonLargest)
		})},
		audits.Measure{Name: "one_run_independent", Of: audits.Of(func(t *TradeOff) bool { return t.Independent })},
	), audits.Within(func(v *Outcome) *empirical.GaussianEstimate { return v.Estimate },
		audits.Measure{
			Name: "one_run_estimate", Of: audits.Of(func(e *empirical.GaussianEstimate) float64 { return e.Epsilon }),
			Header: "estimate", Text: audits.Of(func(e *empirical.GaussianEstimate) string { return EstimateText(e.Epsilon, e.StandardError) }), Optional: true, Scale: audits.Plain, Digits: 3,
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

func (v *Outcome) own() []audits.OwnCanary {
	return lists.Make(len(v.Units), func(i int) audits.OwnCanary {
		return audits.OwnCanary{Words: v.Units[i].Words, CanaryOutcome: &v.Units[i]}
	})
}

// text is the bound, and the largest bound that the audit could have found.
func (v *Outcome) text() string {
	return fmt.Sprintf("%s (%s)", privacy.Epsilon(v.EpsilonLower), privacy.Epsilon(v.EpsilonLargest))
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
		return AboveProved(proved)
	case v.EpsilonLargestCanaries < float64(proved.EpsilonProved) && (v.TradeOff == nil || v.TradeOff.EpsilonLargest < proved.EpsilonProved):
		return fmt.Sprintf("; POWERLESS against epsilon_proved %s: this bound is below it however good the guesses are; use more canaries", proved.EpsilonProved)
	}
	return ""
}

// AboveProved is the warning of a lower bound above the proved epsilon.
func AboveProved(proved *privacy.Report) string {
	return fmt.Sprintf("; this is ABOVE epsilon_proved %s: repeat it with other seeds, and if it stays so, the training is not as private as was proved", proved.EpsilonProved)
}

// EpsilonAtLeast implements audits.LowerBounder.
func (v *Outcome) EpsilonAtLeast() privacy.Epsilon {
	if t := v.TradeOff; t != nil && t.NoiseMultiplier != nil {
		return max(privacy.Epsilon(v.EpsilonLower), t.EpsilonLower)
	}
	return privacy.Epsilon(v.EpsilonLower)
}

var limits = []audits.Limit{
	LowerBound("epsilon_lower", "Lower bound on epsilon of the one-run audit.", func(v *Outcome) (value float64, holds, missing string) {
		if v.Canaries == 0 {
			return 0, "", "the audit has no canaries"
		}
		return v.EpsilonLower, Holds(v.Neighbouring, v.Delta, v.Confidence), ""
	}, confidence, nil),
	LowerBound("trade_off_epsilon_lower", "Lower bound on epsilon by the trade-off curve (`one_run.trade_off`).", func(v *Outcome) (value float64, holds, missing string) {
		if v.TradeOff == nil {
			return 0, "", "the audit has no trade_off"
		}
		return float64(v.TradeOff.EpsilonLower), fmt.Sprintf("at delta %g with %g%% confidence", v.Delta, 100*v.Confidence), ""
	}, confidence, func(s *audits.Setting, _ float64, fail audits.Fail) {
		f, asked := audits.FieldsOf[*Fields](s)
		fail.If(asked && !f.OneRun.TradeOff, []string{"audit.fail_if.trade_off_epsilon_lower", path + ".trade_off"}, "limits a bound that is not computed; set %s.trade_off", path)
	}),
}

func confidence(f *Fields) numbers.Probability { return f.OneRun.Confidence }

// Holds describes the conditions of a bound.
func Holds(n privacy.Neighbouring, delta, confidence float64) string {
	return fmt.Sprintf("%s, at delta %g with %g%% confidence", n, delta, 100*confidence)
}

// LowerBound returns the limit on a lower bound of epsilon, which fails with probability at most 1 - confidence. find
// returns the bound with its conditions, or the reason why there is none. check may be nil.
func LowerBound[V any, F audits.Fields](name, doc string, find func(V) (value float64, holds, missing string), confidence func(F) numbers.Probability, check func(*audits.Setting, float64, audits.Fail)) audits.Limit {
	return audits.LimitOf[float64]{
		Name: name, Doc: doc, Range: "[0,1e9]", Check: check,
		Breaches: audits.Judged(name, func(v V, limit float64) []string {
			value, holds, missing := find(v)
			if missing != "" {
				return audits.NoValue(name, missing)
			}
			return audits.AboveLimit(fmt.Sprintf("%s (%s)", name, holds), value, limit)
		}),
		FalseAlarms: audits.Alarms(func(f F, _ *audits.Setting, limit float64) []audits.FalseAlarm {
			return []audits.FalseAlarm{{Limit: name, Allowed: limit, Trials: 1, Unit: "audits", Probability: 1 - confidence(f).Float64()}}
		}),
	}.Limit()
}

// power returns the power of the bounds if each canary's score is standard normal, and heads adds the shift
// of the Gaussian mechanism with the true epsilon. Guesses grow in proportion to the canaries.
func power(f *Fields, s *audits.Setting, _ *Outcome) []audits.Statement {
	o := f.OneRun
	level := 1 - each(o.Confidence.Float64(), len(o.Guesses.choices()))
	bound := o.statement("the lower bound is above 0", "epsilon_lower", func(limit float64) func(empirical.Outcome) bool {
		return func(of empirical.Outcome) bool { return empirical.PValue(of, limit, o.Delta) <= level }
	})
	bound.Nothing = audits.From(func(v *Outcome) bool { return v.EpsilonAtLeast() == 0 })
	if !o.TradeOff {
		return []audits.Statement{bound}
	}
	byCurve := o.statement("the lower bound by the trade-off curve is above 0", "trade_off_epsilon_lower", func(limit float64) func(empirical.Outcome) bool {
		curve := o.curve(s, limit)
		return func(of empirical.Outcome) bool { return curve != nil && o.refutes(s, of, curve, level) }
	})
	byCurve.Name = "trade_off"
	byCurve.Nothing = audits.From(func(v *Outcome) bool { return v.TradeOff != nil && v.TradeOff.EpsilonLower == 0 })
	return []audits.Statement{bound, byCurve}
}

// statement is about the guesses of an audit; refutes judges the guesses of one number by a limit.
func (o *Block) statement(finds, limit string, refutes func(limit float64) func(empirical.Outcome) bool) audits.Statement {
	delta := cmp.Or(o.Delta, audits.DefaultDelta)
	return audits.Statement{
		Finds: finds, Limit: limit,
		Leak:  audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Max: 100},
		Sizes: []audits.Size{audits.FieldSize(path+".canaries", "canary", o.Canaries)},
		Power: audits.Simulated(audits.Trials, 0, func(sizes []int, leak float64) func(*rand.Rand) []empirical.Outcome {
			choices, shift := o.scaled(sizes[0]), empirical.GaussianShift(leak, delta)
			return func(rng *rand.Rand) []empirical.Outcome { return guessed(choices, sizes[0], shift, rng) }
		}, func(_ []int, limit float64) func([]empirical.Outcome) bool { return above(refutes(limit)) }),
	}
}

// curve returns the trade-off curve of the training with the noise whose epsilon is the limit. For 0 it is
// the curve of equal distributions. It is nil if the population is unknown.
func (o *Block) curve(s *audits.Setting, limit float64) empirical.Curve {
	if limit == 0 {
		return empirical.GaussianCurve(0)
	}
	if s.Data == nil {
		return nil
	}
	recipe := NewNull(&s.Training).Recipe(o.Delta, s.Training.Unit, population.PartitionMetrics{Counts: population.Counts{Users: s.Data.Users, Examples: s.Data.Examples}})
	noise, err := privacy.CalibrateNoise(recipe, privacy.Budget{Epsilon: limit, Delta: o.Delta})
	if err != nil { // no noise in the searched range has an epsilon this small
		return empirical.GaussianCurve(0)
	}
	recipe.NoiseMultiplier = noise
	t, err := privacy.NewTradeOff([]privacy.Recipe{recipe})
	if err != nil {
		return nil
	}
	return func(power float64) float64 { return t.At(1 - power) }
}

// refutes reports whether guesses refute a curve at a level, as the audit's own bound does.
func (o *Block) refutes(s *audits.Setting, of empirical.Outcome, curve empirical.Curve, level float64) bool {
	if o.independent(s) {
		return empirical.IndependentPValue(of, curve) <= level
	}
	return empirical.Refutes(of, curve, level)
}

// scaled returns the numbers of guesses about n canaries.
func (o *Block) scaled(n int) []Guesses {
	g := o.Guesses
	of := func(k int) int { return (k*n + o.Canaries - 1) / o.Canaries }
	g.KPlus = min(of(g.KPlus), n)
	g.KMinus = min(of(g.KMinus), n-g.KPlus)
	return g.choices()
}

// guessed returns the right guesses about the coins of a simulated audit, by the numbers of guesses.
func guessed(choices []Guesses, n int, shift float64, rng *rand.Rand) []empirical.Outcome {
	included, scores := make([]bool, n), make([]float64, n)
	for i := range scores {
		scores[i] = rng.NormFloat64()
		if included[i] = rng.IntN(2) == 1; included[i] {
			scores[i] += shift
		}
	}
	outcomes := make([]empirical.Outcome, len(choices))
	for i, k := range choices {
		outcomes[i], _ = empirical.Guess(included, scores, k.KPlus, k.KMinus) // cannot fail; see scaled
	}
	return outcomes
}

// above reports whether the guesses of some number refute a limit. More right guesses of the same number
// refute it, too.
func above(refutes func(empirical.Outcome) bool) func([]empirical.Outcome) bool {
	fewest := map[empirical.Outcome]int{} // fewest right guesses that refute, by the numbers of units and guesses
	return func(outcomes []empirical.Outcome) bool {
		for _, o := range outcomes {
			correct := o.Correct
			o.Correct = 0
			if _, known := fewest[o]; !known {
				fewest[o] = sort.Search(o.Guesses+1, func(k int) bool {
					right := o
					right.Correct = k
					return right.Guesses > 0 && refutes(right)
				})
			}
			if o.Guesses > 0 && correct >= fewest[o] {
				return true
			}
		}
		return false
	}
}
