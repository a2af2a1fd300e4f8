package beamsearch

import (
	"slices"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
)

// Audit is beam search.
var Audit = canaries.Describe[Outcome, CanaryOutcome](audits.Description{
	Name:   "beam_search",
	Legend: "BS, beam search: the model continues with the canary, given its beginning.",
	New:    func() audits.Fields { return new(Fields) },
	Limits: []audits.Limit{audits.CountLimit("beam_search_memorized", "limits the canaries that beam search finds.",
		func(v *Outcome) int { return v.Memorized }, audits.LikeliestByChance(func(f *Fields) int { return f.BeamSearch.Prefix }))},
	Kinds: []tasks.Kind{Kind, Summary},
	Pairs: audits.TargetSecrets,
	Measures: slices.Concat([]audits.Measure{
		{
			Name: "beam_search_memorized", Of: audits.Of(func(v *Outcome) int { return v.Memorized }),
			Header: "BS memorized", Leading: true, Scale: audits.Plain, Among: "beam_search_of", Canary: "beam_found",
			Curve: canaries.Memorized("beam search"),
		},
		{Name: "beam_search_of", Of: audits.Of(func(v *Outcome) int { return v.Of })},
		{Name: "beam_width", Of: audits.Of(func(v *Outcome) int { return v.Width })},
	}, audits.Lowest("beam_search", audits.Measure{Header: "BS lowest", Leading: true}, func(v *Outcome) *audits.Configuration { return v.Lowest })),
	Canary: audits.Members[CanaryOutcome](
		audits.Measure{Name: "beam_found", Paired: true, Drawn: "canaries found by beam search, %", Scale: audits.Percent},
		audits.Measure{Name: "beam_best", Of: audits.Of((*CanaryOutcome).best)},
	),
})

// Outcome counts the canaries that were extracted.
type Outcome struct {
	Memorized int                   `json:"memorized"`
	Of        int                   `json:"of"`
	Width     int                   `json:"width"`
	Lowest    *audits.Configuration `json:"lowest"`
}

// CanaryOutcome is what beam search says of a canary; all is null where it was not asked for.
type CanaryOutcome struct {
	// Found says that Best, the most likely continuation of the prefix that the search
	// has found, is the canary.
	Found *bool    `json:"beam_found"`
	Best  []string `json:"beam_best"`
	// LogPerplexity of Best in nats, and CanaryLogPerplexity of the canary after the same
	// prefix.
	LogPerplexity       *float64 `json:"beam_log_perplexity"`
	CanaryLogPerplexity *float64 `json:"beam_canary_log_perplexity"`
}

// best is Best as a text; nil where beam search was not asked for.
func (o *CanaryOutcome) best() *string {
	if o.Found == nil {
		return nil
	}
	return new(strings.Join(o.Best, " "))
}
