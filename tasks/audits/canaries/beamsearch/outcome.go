package beamsearch

import (
	"slices"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:   "beam_search",
	Legend: "BS, beam search: the model continues with the canary, given its beginning.",
	Limits: []audits.Limit{memorized.Limit()},
	Power:  memorized.Power,
	Kinds:  []tasks.Kind{Kind, Summary},
	Pairs:  audits.TargetSecrets,
	Measures: slices.Concat(memorized.Measures(), audits.Columns[Outcome]("beam_", "width"),
		audits.Lowest("beam_search", audits.Measure{Header: "BS rarest", Leading: true}, func(v *Outcome) *audits.Configuration { return v.Lowest })),
	Canary: audits.Members[CanaryOutcome](
		audits.Measure{Name: "beam_found", Paired: true, Drawn: "canaries found by beam search, %", Scale: audits.Percent},
		audits.Measure{Name: "beam_best", Of: audits.Of((*CanaryOutcome).best)},
	),
})

var memorized = audits.CountOf[Outcome]{
	Measure:  audits.Measure{Name: "beam_search_memorized", Header: "BS memorized", Leading: true, Among: "beam_search_of", Canary: "beam_found", Curve: canaries.Memorized("beam search")},
	Doc:      "Canaries that beam search finds.",
	Counted:  func(v *Outcome) (count, total int) { return v.Memorized, v.Of },
	ByChance: audits.LikeliestByChance(func(f *Fields) int { return f.BeamSearch.Prefix }),
}

// Outcome counts the canaries that were extracted.
type Outcome struct {
	Memorized int                   `json:"memorized"`
	Of        int                   `json:"of"`
	Width     int                   `json:"width"`
	Lowest    *audits.Configuration `json:"lowest"`
}

// CanaryOutcome is the outcome of beam search for a canary. All fields are null without the audit.
type CanaryOutcome struct {
	// Found reports whether Best, the most likely continuation found, is the canary.
	Found *bool    `json:"beam_found"`
	Best  []string `json:"beam_best"`
	// LogPerplexity is that of Best, CanaryLogPerplexity that of the canary after the same prefix, in nats.
	LogPerplexity       *float64 `json:"beam_log_perplexity"`
	CanaryLogPerplexity *float64 `json:"beam_canary_log_perplexity"`
}

func (o *CanaryOutcome) best() *string {
	if o.Found == nil {
		return nil
	}
	return new(strings.Join(o.Best, " "))
}
