package search

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/datasets/population"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:     "search",
	Limits:   []audits.Limit{extracted.Limit()},
	Power:    extracted.Power,
	Kinds:    []tasks.Kind{Kind, Summary},
	Pairs:    audits.TargetSecrets,
	Measures: measures,
	Canary: slices.Insert(audits.Members[CanaryOutcome](audits.Measure{Name: "search_extracted", Paired: true}), 3,
		audits.Measure{Name: "search_best", Doc: "words of the likeliest sequence that the search found", Of: audits.Of((*CanaryOutcome).best)},
		audits.Measure{Name: "search_log_perplexity", Doc: "log-perplexity of search_best, in nats", Of: audits.Of((*CanaryOutcome).logPerplexity)},
	),
})

var measures = slices.Concat(extracted.Measures(),
	audits.Lowest("search", audits.Measure{Header: "search rarest", Doc: "rarest configuration extracted by the search"}, func(v *Outcome) *audits.Configuration { return v.Lowest }),
	audits.Columns[Outcome]("search_", "searches", "expanded", "cut_by_expansions", "cut_by_memory"))

type Fields struct {
	// Most likely sequences after each canary's prefix, by shortest-path search.
	Search *Block `json:"search,omitempty" source:"Carlini et al. 2019, section 8"`
}

type Block struct {
	audits.PrefixField
	// Nodes expanded at once: 1 expands the fewest, more take less time a node.
	Batch int `json:"batch" default:"64" range:"[1,100000]" unit:"nodes"`
	// Most likely sequences to return.
	Results int `json:"results" default:"10" range:"[1,1000]" unit:"sequences" source:"Carlini et al. 2019, table 1"`
	// Sequences that must be certain. 0: ends as in the paper, after twice the iterations of the first
	// sequence.
	Prove int `json:"prove" default:"1" range:"[0,1000]" unit:"sequences"`
	// Nodes after which a search is cut and reported.
	Expansions int `json:"expansions" default:"100000" range:"[1,1000000000]" unit:"nodes"`
	// Memory of a search. A full one drops the costliest nodes; a search that needs one is cut.
	Memory int `json:"memory" default:"256" range:"[1,1000000]" unit:"MiB"`
}

const path = "audit.search"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.Search.CompletePrefix(s, path, given)
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	f.Search.CheckPrefix(s, path, fail)
	audits.CheckSteps(s, path, fail)
	fail.If(f.Search.Prove > f.Search.Results, []string{path + ".prove", path + ".results"}, "is %d; expected at most %s.results, %d: no more sequences are returned", f.Search.Prove, path, f.Search.Results)
}

// expansionsATask is the number of nodes per task, about a quarter of a minute. A longer search is several
// tasks. It affects keys, not results.
const expansionsATask = 100_000

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	var parts []tasks.Input
	for _, g := range b.Setting().Canaries.Groups {
		for _, one := range f.searches(g) {
			parts = append(parts, tasks.Input{Name: tasks.PartInput(len(parts)), Key: f.compileSearch(b, round, g, one.Span)})
		}
	}
	return canaries.Summarize(b, round, Summary, "search", SummaryParams{len(parts)}, parts, tasks.Input{Name: population.PartsInput, Key: b.Parts()})
}

func (f *Fields) searches(g audits.Group) []audits.Group {
	return g.SplitByPrefix(g.Prefix(f.Search.Prefix), 1)
}

// compileSearch adds the tasks of one search, and returns the last.
func (f *Fields) compileSearch(b audits.Builder, round int, g audits.Group, span audits.Span) storage.Key {
	var part storage.Key
	spans := audits.Split(f.Search.Expansions, expansionsATask)
	for i, expansions := range spans {
		inputs := []tasks.Input{{Name: audits.ModelInput, Key: b.Model(round)}, {Name: audits.CanariesInput, Key: b.Canaries()}}
		if i > 0 {
			inputs = append(inputs, tasks.Input{Name: tasks.PreviousInput, Key: part})
		}
		part = b.Node(Kind, fmt.Sprintf("search for canary %d after %d, part %d", span.First, round, i), Params{
			Space: g.Space, Prefix: g.Prefix(f.Search.Prefix), First: span.First, Count: span.Count, GroupFirst: g.First,
			Settings: f.Search.settings(), Part: i, Expansions: expansions.First + expansions.Count, Last: i+1 == len(spans),
		}, inputs...)
	}
	return part
}

func (b *Block) settings() Settings {
	return Settings{Batch: b.Batch, Results: b.Results, Prove: b.Prove, Memory: int64(b.Memory) << 20}
}

// States implements audits.Scorer: an upper bound, which the search for an unmemorized canary may reach.
func (f *Fields) States(s *audits.Setting) float64 {
	return s.Canaries.Sum(func(g audits.Group) float64 {
		return min(float64(f.Search.Expansions), g.Sequences(s.Ordinary, g.Prefix(f.Search.Prefix))) * float64(len(f.searches(g)))
	})
}

var extracted = audits.CountOf[Outcome]{
	Measure: audits.Measure{
		Name: "search_extracted", Doc: "inserted canaries that a shortest-path search finds likeliest of all sequences after their prefix (Carlini et al. 2019, section 8)", Header: "search extracted",
		Among: "search_of", Canary: "search_extracted", Curve: canaries.Memorized("search"),
	},
	Counted:  func(v *Outcome) (count, total int) { return v.Extracted, v.Of },
	ByChance: audits.LikeliestByChance(func(f *Fields) int { return f.Search.Prefix }),
}

// Outcome counts the canaries that are the most likely sequence after their prefix.
type Outcome struct {
	Extracted       int                   `json:"extracted"`
	Of              int                   `json:"of"`
	Lowest          *audits.Configuration `json:"lowest"`
	Searches        int                   `json:"searches" doc:"searches of the audit, one for each distinct prefix"`
	Expanded        int                   `json:"expanded" doc:"nodes expanded by all searches"`
	CutByExpansions int                   `json:"cut_by_expansions" doc:"searches cut at the limit of audit.search.expansions, whose likeliest sequence is uncertain"`
	CutByMemory     int                   `json:"cut_by_memory" doc:"searches cut at the limit of audit.search.memory, whose likeliest sequence is uncertain"`
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
	Extracted *bool  `json:"search_extracted" doc:"whether the canary is the likeliest sequence that the search found"`
	Rank      *int64 `json:"search_rank" doc:"rank of the canary among the results of the search; empty if it is not among them"`
	RankExact *bool  `json:"search_rank_exact" doc:"whether search_rank is certainly the rank among all sequences"`
	// Results are the most likely sequences after the prefix that were found, the most likely first.
	// The first Certain of them are certainly the most likely of all.
	Results             []Result `json:"search_results"`
	Certain             *int64   `json:"search_certain" doc:"results of the search that are certainly the likeliest of all"`
	CanaryLogPerplexity *float64 `json:"search_canary_log_perplexity" doc:"log-perplexity of the canary after the prefix of the search, in nats"`
	Expanded            *int64   `json:"search_expanded" doc:"nodes that the search of the canary expanded"`
	Iterations          *int64   `json:"search_iterations" doc:"iterations of the search of the canary"`
	Sequences           *float64 `json:"search_sequences" doc:"sequences that are possible after the prefix of the search"`
	Ratio               *float64 `json:"search_ratio" doc:"search_sequences over search_expanded: the work that the search saves"`
	// Complete reports whether no limit cut the search.
	Stop     *Stop `json:"search_stop" doc:"cause of the end of the search: proved, iterations, expansions or memory"`
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
