package beamsearch

import (
	"fmt"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Audit is beam search.
var Audit = audits.Description{
	Name:         "beam_search",
	Legend:       "BS, beam search: the model continues with the canary, given its beginning.",
	New:          func() audits.Fields { return new(Fields) },
	Limits:       func() audits.Limits { return new(Limits) },
	Kinds:        []tasks.Kind{Kind, Summary},
	Pairs:        audits.TargetSecrets,
	VerdictBlob:  audits.VerdictBlob,
	OutcomesBlob: audits.OutcomesBlob,
	Verdict:      func() audits.Verdict { return new(Verdict) },
	Outcome:      func() audits.Outcome { return new(Outcome) },
	Paired:       []string{"beam_found"},
	Drawn:        []audits.Drawn{{Column: "beam_found", Name: "canaries found by beam search, %", Unit: 100}},
	Columns: []audits.Column{
		{Header: "BS memorized", Leading: true, Measure: audits.Measure{Name: "beam_search_memorized", Of: "beam_search_of", Canary: "beam_found"}},
		{Header: "BS lowest", Leading: true},
	},
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

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string {
	return []string{fmt.Sprintf("%d/%d", v.Memorized, v.Of), v.Lowest.String()}
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{Memorized: new(int64(v.Memorized)), Of: new(int64(v.Of)), Width: new(int64(v.Width))}
	r.LowestUserProbability, r.LowestExampleProbability, r.LowestInsertedTimes = v.Lowest.Columns()
	return r
}

type row struct {
	Memorized                *int64   `parquet:"beam_search_memorized"`
	Of                       *int64   `parquet:"beam_search_of"`
	Width                    *int64   `parquet:"beam_width"`
	LowestUserProbability    *float64 `parquet:"beam_search_lowest_user_probability"`
	LowestExampleProbability *float64 `parquet:"beam_search_lowest_example_probability"`
	LowestInsertedTimes      *int64   `parquet:"beam_search_lowest_inserted_times"`
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

// Row implements audits.Outcome.
func (o *Outcome) Row() any {
	r := outcomeRow{Found: o.Found, LogPerplexity: o.LogPerplexity, CanaryLogPerplexity: o.CanaryLogPerplexity}
	if o.Found != nil {
		r.Best = new(strings.Join(o.Best, " "))
	}
	return r
}

type outcomeRow struct {
	Found               *bool    `parquet:"beam_found"`
	Best                *string  `parquet:"beam_best"`
	LogPerplexity       *float64 `parquet:"beam_log_perplexity"`
	CanaryLogPerplexity *float64 `parquet:"beam_canary_log_perplexity"`
}
