package search

import (
	"fmt"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// Audit is extraction by shortest-path search.
var Audit = audits.Description{
	Name:         "search",
	Legend:       "Search: of all sequences that a canary could be after its beginning, the canary is the most likely; a shortest-path search found it.",
	New:          func() audits.Fields { return new(Fields) },
	Limits:       func() audits.Limits { return new(Limits) },
	Kinds:        []tasks.Kind{Kind, Summary},
	Pairs:        audits.TargetSecrets,
	VerdictBlob:  audits.VerdictBlob,
	OutcomesBlob: audits.OutcomesBlob,
	Verdict:      func() audits.Verdict { return new(Verdict) },
	Outcome:      func() audits.Outcome { return new(Outcome) },
	Paired:       []string{"search_extracted"},
	Columns: []audits.Column{
		{Header: "search extracted", Measure: audits.OldMeasure{Name: "search_extracted", Of: "search_of", Canary: "search_extracted"}},
		{Header: "search lowest"},
	},
	Curves: []audits.Curve{{
		Figure: audits.MemorizedFigure, Name: "search", Metric: "search_extracted",
		Most: func(v audits.Verdict) float64 { return float64(v.(*Verdict).Of) },
	}},
}

// Verdict counts the canaries that are the most likely sequence after their prefix.
type Verdict struct {
	Extracted int                   `json:"extracted"`
	Of        int                   `json:"of"`
	Lowest    *audits.Configuration `json:"lowest"`
	// Searches were done, one for each distinct prefix, and have expanded so many nodes
	// together. Some were cut by the limit of expansions, others by that of memory.
	Searches        int `json:"searches"`
	Expanded        int `json:"expanded"`
	CutByExpansions int `json:"cut_by_expansions"`
	CutByMemory     int `json:"cut_by_memory"`
}

// count adds a search, unless it is that of an earlier canary.
func (v *Verdict) count(s search) {
	if s.shared {
		return
	}
	v.Searches++
	v.Expanded += s.of.Expanded
	switch s.of.Stop {
	case Expansions:
		v.CutByExpansions++
	case Memory:
		v.CutByMemory++
	case Proved, Iterations:
	}
}

// judge counts the canaries by what is said of each.
func (v *Verdict) judge(placed []datasets.Placement, outcomes []Outcome) error {
	found, err := audits.Count(placed, func(canary int) bool { return *outcomes[canary].Extracted })
	v.Extracted, v.Of, v.Lowest = found.Memorized, found.Of, found.Lowest
	return err
}

// Texts implements audits.Verdict.
func (v *Verdict) Texts() []string {
	return []string{fmt.Sprintf("%d/%d", v.Extracted, v.Of), v.Lowest.String()}
}

// Note implements audits.Noter. A search that was cut has not proved anything.
func (v *Verdict) Note(c *audits.Cell) string {
	if v.CutByExpansions+v.CutByMemory == 0 {
		return ""
	}
	var cuts []string
	for _, cut := range []struct {
		by    string
		times int
	}{{"expansions", v.CutByExpansions}, {"memory", v.CutByMemory}} {
		if cut.times > 0 {
			cuts = append(cuts, fmt.Sprintf("%d at the limit of audit.search.%s", cut.times, cut.by))
		}
	}
	return fmt.Sprintf("Search in %s: of %d searches %s ended before the most likely sequence was certain; what they had found is kept. A canary that they have not found may still be the most likely. Raise the limit to go on.",
		c.Name, v.Searches, strings.Join(cuts, " and "))
}

// Row implements audits.Verdict.
func (v *Verdict) Row() any {
	r := row{
		Extracted: new(int64(v.Extracted)), Of: new(int64(v.Of)), Searches: new(int64(v.Searches)), Expanded: new(int64(v.Expanded)),
		CutByExpansions: new(int64(v.CutByExpansions)), CutByMemory: new(int64(v.CutByMemory)),
	}
	r.LowestUserProbability, r.LowestExampleProbability, r.LowestInsertedTimes = v.Lowest.Columns()
	return r
}

type row struct {
	Extracted                *int64   `parquet:"search_extracted"`
	Of                       *int64   `parquet:"search_of"`
	LowestUserProbability    *float64 `parquet:"search_lowest_user_probability"`
	LowestExampleProbability *float64 `parquet:"search_lowest_example_probability"`
	LowestInsertedTimes      *int64   `parquet:"search_lowest_inserted_times"`
	Searches                 *int64   `parquet:"search_searches"`
	Expanded                 *int64   `parquet:"search_expanded"`
	CutByExpansions          *int64   `parquet:"search_cut_by_expansions"`
	CutByMemory              *int64   `parquet:"search_cut_by_memory"`
}

// Outcome is what the search says of a canary; all is null where it was not asked for.
type Outcome struct {
	// Extracted says that the canary is the first of the results.
	Extracted *bool `json:"search_extracted"`
	// Rank is its place among the results, null if it is not one of them; RankExact says
	// that it is certain to be its place among all sequences.
	Rank      *int64 `json:"search_rank"`
	RankExact *bool  `json:"search_rank_exact"`
	// Results are the most likely sequences after the prefix that were found, the most
	// likely first; the first Certain of them are certain to be the most likely of all.
	Results []Result `json:"search_results"`
	Certain *int64   `json:"search_certain"`
	// CanaryLogPerplexity of the canary after the same prefix, in nats.
	CanaryLogPerplexity *float64 `json:"search_canary_log_perplexity"`
	// Expanded nodes of the tree, in so many iterations; Sequences may follow the prefix,
	// Ratio times as many as nodes were expanded.
	Expanded   *int64   `json:"search_expanded"`
	Iterations *int64   `json:"search_iterations"`
	Sequences  *float64 `json:"search_sequences"`
	Ratio      *float64 `json:"search_ratio"`
	// Stop is why the search ended, Complete that no limit has cut it.
	Stop     *Stop `json:"search_stop"`
	Complete *bool `json:"search_complete"`
}

// Result is a sequence after the prefix, and its log-perplexity there in nats.
type Result struct {
	Words         []string `json:"words"`
	LogPerplexity float64  `json:"log_perplexity"`
}

// Row implements audits.Outcome.
func (o *Outcome) Row() any {
	r := outcomeRow{
		Extracted: o.Extracted, Rank: o.Rank, RankExact: o.RankExact, Certain: o.Certain, CanaryLogPerplexity: o.CanaryLogPerplexity,
		Expanded: o.Expanded, Iterations: o.Iterations, Sequences: o.Sequences, Ratio: o.Ratio, Stop: o.Stop,
	}
	if len(o.Results) > 0 {
		r.Best, r.LogPerplexity = new(strings.Join(o.Results[0].Words, " ")), &o.Results[0].LogPerplexity
	}
	return r
}

type outcomeRow struct {
	Extracted           *bool    `parquet:"search_extracted"`
	Rank                *int64   `parquet:"search_rank"`
	RankExact           *bool    `parquet:"search_rank_exact"`
	Best                *string  `parquet:"search_best"`
	LogPerplexity       *float64 `parquet:"search_log_perplexity"`
	Certain             *int64   `parquet:"search_certain"`
	CanaryLogPerplexity *float64 `parquet:"search_canary_log_perplexity"`
	Expanded            *int64   `parquet:"search_expanded"`
	Iterations          *int64   `parquet:"search_iterations"`
	Sequences           *float64 `parquet:"search_sequences"`
	Ratio               *float64 `parquet:"search_ratio"`
	Stop                *Stop    `parquet:"search_stop"`
}
