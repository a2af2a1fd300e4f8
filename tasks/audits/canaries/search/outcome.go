package search

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:   "search",
	Legend: "Search: of all sequences that a canary could be after its beginning, the canary is the most likely; a shortest-path search found it.",
	Limits: []audits.Limit{extracted.Limit()},
	Power:  extracted.Power,
	Kinds:  []tasks.Kind{Kind, Summary},
	Pairs:  audits.TargetSecrets,
	Measures: slices.Concat(extracted.Measures(),
		audits.Lowest("search", audits.Measure{Header: "search rarest"}, func(v *Outcome) *audits.Configuration { return v.Lowest }),
		audits.Columns[Outcome]("search_", "searches", "expanded", "cut_by_expansions", "cut_by_memory")),
	Canary: slices.Insert(audits.Members[CanaryOutcome](audits.Measure{Name: "search_extracted", Paired: true}), 3,
		audits.Measure{Name: "search_best", Of: audits.Of((*CanaryOutcome).best)},
		audits.Measure{Name: "search_log_perplexity", Of: audits.Of((*CanaryOutcome).logPerplexity)},
	),
})

var extracted = audits.CountOf[Outcome]{
	Measure:  audits.Measure{Name: "search_extracted", Header: "search extracted", Among: "search_of", Canary: "search_extracted", Curve: canaries.Memorized("search")},
	Doc:      "Canaries that are the most likely sequence after their prefix (audit.search).",
	Counted:  func(v *Outcome) (count, total int) { return v.Extracted, v.Of },
	ByChance: audits.LikeliestByChance(func(f *Fields) int { return f.Search.Prefix }),
}

// Outcome counts the canaries that are the most likely sequence after their prefix.
type Outcome struct {
	Extracted int                   `json:"extracted"`
	Of        int                   `json:"of"`
	Lowest    *audits.Configuration `json:"lowest"`
	// Searches is the number of distinct prefixes, Expanded the number of their expanded nodes.
	Searches        int `json:"searches"`
	Expanded        int `json:"expanded"`
	CutByExpansions int `json:"cut_by_expansions"`
	CutByMemory     int `json:"cut_by_memory"`
}

// count adds a search, unless an earlier canary shares it.
func (v *Outcome) count(s search) {
	if s.shared {
		return
	}
	v.Searches++
	v.Expanded += s.found.Expanded
	switch s.found.Stop {
	case Expansions:
		v.CutByExpansions++
	case Memory:
		v.CutByMemory++
	case Proved, Iterations:
	}
}

// Note implements audits.Noter. A search that was cut proves nothing.
func (v *Outcome) Note(c *audits.Cell) string {
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

// CanaryOutcome is the outcome of a canary's search. All fields are null without the audit.
type CanaryOutcome struct {
	// Extracted reports whether the canary is the first of the results.
	Extracted *bool `json:"search_extracted"`
	// Rank is the rank among the results, or null. RankExact reports whether it is certainly the rank among
	// all sequences.
	Rank      *int64 `json:"search_rank"`
	RankExact *bool  `json:"search_rank_exact"`
	// Results are the most likely sequences after the prefix that were found, the most likely first.
	// The first Certain of them are certainly the most likely of all.
	Results []Result `json:"search_results"`
	Certain *int64   `json:"search_certain"`
	// CanaryLogPerplexity is the log-perplexity after the same prefix, in nats.
	CanaryLogPerplexity *float64 `json:"search_canary_log_perplexity"`
	// Sequences is the number of sequences after the prefix, Ratio their number divided by Expanded.
	Expanded   *int64   `json:"search_expanded"`
	Iterations *int64   `json:"search_iterations"`
	Sequences  *float64 `json:"search_sequences"`
	Ratio      *float64 `json:"search_ratio"`
	// Complete reports that no limit cut the search.
	Stop     *Stop `json:"search_stop"`
	Complete *bool `json:"search_complete" column:"-"`
}

// Result is a sequence after the prefix, and its log-perplexity there in nats.
type Result struct {
	Words         []string `json:"words"`
	LogPerplexity float64  `json:"log_perplexity"`
}

func (o *CanaryOutcome) best() *string {
	if len(o.Results) == 0 {
		return nil
	}
	return new(strings.Join(o.Results[0].Words, " "))
}

func (o *CanaryOutcome) logPerplexity() *float64 {
	if len(o.Results) == 0 {
		return nil
	}
	return &o.Results[0].LogPerplexity
}
