package search

import (
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/datasets"
)

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
	return canaries.Summarize(b, round, Summary, "search", SummaryParams{len(parts)}, parts, tasks.Input{Name: datasets.PartsInput, Key: b.Parts()})
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
