package enumeration

import (
	"fmt"
	"math"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:   "enumeration",
	Legend: "All, enumeration: the canary is the most likely of all sequences that could stand in its place.",
	Limits: []audits.Limit{memorized.Limit()},
	Power:  memorized.Power,
	Kinds:  []tasks.Kind{Kind, Summary},
	Pairs:  audits.TargetSecrets,
	Measures: slices.Concat(memorized.Measures(), audits.Columns[Outcome]("enumeration_", "sequences"), []audits.Measure{
		{Of: audits.Of((*Outcome).MaxExposure), Curve: &audits.Curve{Figure: exposure.HighestFigure, Name: "enumeration", Metric: "enumeration_highest_exposure"}},
	}, audits.Lowest("enumeration", audits.Measure{Header: "rarest of all"}, func(v *Outcome) *audits.Configuration { return v.Lowest })),
	Canary: audits.Members[CanaryOutcome](audits.Measure{Name: "enumerated_exposure", Paired: true}),
})

var memorized = audits.CountOf[Outcome]{
	Measure:  audits.Measure{Name: "enumeration_memorized", Header: "memorized of all", Among: "enumeration_of", Curve: canaries.Memorized("enumeration")},
	Doc:      "Canaries that are the most likely of all sequences.",
	Counted:  func(v *Outcome) (count, total int) { return v.Memorized, v.Of },
	ByChance: audits.LikeliestByChance(func(f *Fields) int { return f.Enumeration.Prefix }),
}

// Outcome counts the canaries of rank 1 in the whole space.
type Outcome struct {
	Memorized int `json:"memorized"`
	Of        int `json:"of"`
	// Sequences is the number of sequences after the prefix.
	Sequences int64                 `json:"sequences"`
	Lowest    *audits.Configuration `json:"lowest"`
}

func (v *Outcome) Note(*audits.Cell) string {
	return fmt.Sprintf("enumerated: all %d sequences that can follow the prefix; exposure is exact, at most %.2f bits", v.Sequences, v.MaxExposure())
}

func (v *Outcome) MaxExposure() float64 { return math.Log2(float64(v.Sequences)) }

// CanaryOutcome is the exact rank of a canary. All fields are null without the audit.
type CanaryOutcome struct {
	// Rank is the rank among all sequences of the space. Ties count against the canary.
	Rank     *int64   `json:"enumerated_rank"`
	Exposure *float64 `json:"enumerated_exposure"`
	// LogPerplexity is the log-perplexity after the prefix, in nats.
	LogPerplexity *float64 `json:"enumerated_log_perplexity"`
}

func (t *Tally) CanaryOutcome(sequences int64) CanaryOutcome {
	exposure := Exposure(sequences, t.AtMost)
	return CanaryOutcome{Rank: &t.AtMost, Exposure: &exposure, LogPerplexity: &t.LogPerplexity}
}

func (o *CanaryOutcome) Exposed() *exposure.Exposure {
	if o.Exposure == nil {
		return nil
	}
	return &exposure.Exposure{
		Basis: exposure.Enumerated, Bits: *o.Exposure, Support: exposure.Enough, Memorized: *o.Rank == 1,
		Text: fmt.Sprintf("exact exposure %.1f bits, rank %d of all sequences", *o.Exposure, *o.Rank),
	}
}
