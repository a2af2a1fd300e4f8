package beamsearch

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:     "beam_search",
	Limits:   []audits.Limit{memorized.Limit()},
	Power:    memorized.Power,
	Kinds:    []tasks.Kind{Kind, Summary},
	Pairs:    audits.TargetSecrets,
	Measures: measures,
	Canary: audits.Members[CanaryOutcome](
		audits.Measure{Name: "beam_found", Paired: true, Drawn: "canaries found by beam search, %", Scale: audits.Percent},
		audits.Measure{Name: "beam_best", Of: audits.Of((*CanaryOutcome).best), Doc: "words of the best continuation by beam search"},
	),
})

var measures = slices.Concat(memorized.Measures(), audits.Columns[Outcome]("beam_", "width"),
	audits.Lowest("beam_search", audits.Measure{Header: "BS rarest", Leading: true, Doc: "rarest configuration memorized by beam search"}, func(v *Outcome) *audits.Configuration { return v.Lowest }))

type Fields struct {
	// Beam search for each canary after its prefix.
	BeamSearch *Block `json:"beam_search,omitempty" source:"Thakkar et al. 2020, section 4.1"`
}

type Block struct {
	// Sequences kept.
	Width int `json:"width" default:"5" range:"[1,10000]" unit:"sequences" also:"beam_width"`
	audits.PrefixField
}

const path = "audit.beam_search"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.BeamSearch.CompletePrefix(s, path, given)
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	f.BeamSearch.CheckPrefix(s, path, fail)
	audits.CheckSteps(s, path, fail)
	most := "data.vocabulary.size"
	if s.Reading.Level == text.ByteLevel {
		most = "the bytes of data.level: byte"
	}
	fail.If(f.BeamSearch.Width > s.Ordinary, []string{path + ".width", "data.vocabulary.size"}, "is %d; expected at most %s, %d", f.BeamSearch.Width, most, s.Ordinary)
}

// canariesATask is the number of canaries per task. It affects keys, not results.
const canariesATask = 32

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	parts := canaries.Tasks(b, round, Kind, b.Setting().Canaries.Split(canariesATask), func(g audits.Group) (string, any) {
		return fmt.Sprintf("beam search from canary %d after %d", g.First, round), Params{
			Width: f.BeamSearch.Width, Space: g.Space, Prefix: g.Prefix(f.BeamSearch.Prefix), First: g.First, Count: g.Count,
		}
	})
	return canaries.Summarize(b, round, Summary, "beam search", SummaryParams{len(parts), f.BeamSearch.Width}, parts,
		tasks.Input{Name: population.PartsInput, Key: b.Parts()})
}

func (f *Fields) States(s *audits.Setting) float64 {
	return s.Canaries.Sum(func(g audits.Group) float64 {
		return float64(g.Count * f.BeamSearch.Width * (g.Words - g.Prefix(f.BeamSearch.Prefix)))
	})
}

var memorized = audits.CountOf[Outcome]{
	Measure: audits.Measure{
		Name: "beam_search_memorized", Doc: "inserted canaries that beam search completes from their prefix (Thakkar et al. 2020, section 4.1)", Header: "BS memorized", Leading: true,
		Among: "beam_search_of", Canary: "beam_found", Curve: canaries.Memorized("beam search"),
	},
	Counted:  func(v *Outcome) (count, total int) { return v.Memorized, v.Of },
	ByChance: audits.LikeliestByChance(func(f *Fields) int { return f.BeamSearch.Prefix }),
}

// Outcome counts the canaries that were extracted.
type Outcome struct {
	Memorized int                   `json:"memorized"`
	Of        int                   `json:"of"`
	Width     int                   `json:"width" doc:"sequences that beam search keeps"`
	Lowest    *audits.Configuration `json:"lowest"`
}

// CanaryOutcome is the outcome of beam search for a canary. All fields are null without the audit.
type CanaryOutcome struct {
	Found               *bool    `json:"beam_found" doc:"whether the best continuation by beam search is the canary"`
	Best                []string `json:"beam_best"`
	LogPerplexity       *float64 `json:"beam_log_perplexity" doc:"log-perplexity of the best continuation by beam search, in nats"`
	CanaryLogPerplexity *float64 `json:"beam_canary_log_perplexity" doc:"log-perplexity of the canary after the prefix of beam search, in nats"`
}

func (o *CanaryOutcome) best() *string {
	if o.Found == nil {
		return nil
	}
	return new(strings.Join(o.Best, " "))
}
