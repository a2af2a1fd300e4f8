package beamsearch

import (
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/text"
)

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
		tasks.Input{Name: datasets.PartsInput, Key: b.Parts()})
}

func (f *Fields) States(s *audits.Setting) float64 {
	return s.Canaries.Sum(func(g audits.Group) float64 {
		return float64(g.Count * f.BeamSearch.Width * (g.Words - g.Prefix(f.BeamSearch.Prefix)))
	})
}
