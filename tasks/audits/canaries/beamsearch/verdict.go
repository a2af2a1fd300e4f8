package beamsearch

import (
	"slices"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is beam search.
var Audit = audits.Description{
	Name:   "beam_search",
	Legend: "BS, beam search: the model continues with the canary, given its beginning.",
	New:    func() audits.Fields { return new(Fields) },
	Limits: []audits.Limit{audits.CountLimit("beam_search_memorized", "limits the canaries that beam search finds.",
		func(v *Verdict) int { return v.Memorized }, audits.LikeliestByChance(func(f *Fields) int { return f.BeamSearch.Prefix }))},
	Kinds:        []tasks.Kind{Kind, Summary},
	Pairs:        audits.TargetSecrets,
	VerdictBlob:  audits.VerdictBlob,
	OutcomesBlob: audits.OutcomesBlob,
	Verdict:      func() audits.Verdict { return new(Verdict) },
	Outcome:      func() audits.Outcome { return new(Outcome) },
	Measures: slices.Concat([]audits.Measure{
		{
			Name: "beam_search_memorized", Of: audits.Of(func(v *Verdict) int { return v.Memorized }),
			Header: "BS memorized", Leading: true, Scale: audits.Plain, Among: "beam_search_of", Canary: "beam_found",
		},
		{Name: "beam_search_of", Of: audits.Of(func(v *Verdict) int { return v.Of })},
		{Name: "beam_width", Of: audits.Of(func(v *Verdict) int { return v.Width })},
	}, audits.Lowest("beam_search", audits.Measure{Header: "BS lowest", Leading: true}, func(v *Verdict) *audits.Configuration { return v.Lowest })),
	Canary: audits.Members[Outcome](
		audits.Measure{Name: "beam_found", Paired: true, Drawn: "canaries found by beam search, %", Scale: audits.Percent},
		audits.Measure{Name: "beam_best", Of: audits.Of((*Outcome).best)},
	),
	Curves: []audits.Curve{{
		Figure: audits.MemorizedFigure, Name: "beam search", Metric: "beam_search_memorized",
		Most: func(v audits.Verdict) float64 { return float64(v.(*Verdict).Of) },
	}},
}

// Verdict counts the canaries that were extracted.
type Verdict struct {
	Memorized int                   `json:"memorized"`
	Of        int                   `json:"of"`
	Width     int                   `json:"width"`
	Lowest    *audits.Configuration `json:"lowest"`
}

// Outcome is what beam search says of a canary; all is null where it was not asked for.
type Outcome struct {
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
func (o *Outcome) best() *string {
	if o.Found == nil {
		return nil
	}
	return new(strings.Join(o.Best, " "))
}
