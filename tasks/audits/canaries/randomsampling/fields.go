package randomsampling

import (
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/datasets"
)

type Fields struct {
	// Rank of each canary among random sequences.
	RandomSampling *Block `json:"random_sampling,omitempty" source:"Thakkar et al. 2020, section 4.1"`
}

type Block struct {
	// Random sequences to rank a canary against, of an external model by default 1000.
	References int `json:"references" default:"2000000" range:"[1,1000000000]" unit:"sequences" also:"num_references samples"`
	audits.PrefixField
	// Computes large ranks exactly, not by an estimate with its standard error. "Memorized" is always
	// exact.
	Exact bool `json:"exact" default:"false"`
}

const path = "audit.random_sampling"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.RandomSampling.CompletePrefix(s, path, given)
	if (s.External != nil || s.Program != nil) && !given(path+".references") {
		f.RandomSampling.References = scoredReferences
	}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	f.RandomSampling.CheckPrefix(s, path, fail)
	f.RandomSampling.CheckReferences(s, path, f.RandomSampling.References, fail)
}

func (f *Fields) Exposures(*audits.Setting) exposure.Range {
	return exposure.OfReferences(f.RandomSampling.References, path+".references")
}

// CanariesATask is the number of canaries per task: one may take seconds. It affects keys, not results.
const CanariesATask = 2

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	s := b.Setting()
	kind, groups, label, inputs := Kind, shares(s.Canaries), fmt.Sprintf("after %d", round), audits.ByProgram(b)
	if s.External != nil {
		kind, groups, label, inputs = Scored, s.Canaries.Groups, "by scores", []tasks.Input{{Name: datasets.PartsInput, Key: b.Parts()}}
	}
	parts := canaries.Tasks(b, round, kind, groups, func(g audits.Group) (string, any) {
		p := Params{
			Seed: s.Seed, References: f.RandomSampling.References, Space: g.Space, Prefix: g.Prefix(f.RandomSampling.Prefix),
			Exact: f.RandomSampling.Exact, First: g.First, Count: g.Count,
		}
		label := fmt.Sprintf("random sampling from canary %d %s", g.First, label)
		if s.External != nil {
			return label, ScoredParams{Params: p, Model: *s.External}
		}
		p.Program = s.Program
		return label, p
	}, inputs...)
	return canaries.Summarize(b, round, Summary, "random sampling", SummaryParams{len(parts), f.RandomSampling.References}, parts)
}

// shares returns the canaries of each task. A group whose references are scored in one pass has one task.
func shares(c *audits.Canaries) []audits.Group {
	return slices.Concat(lists.Map(c.Groups, func(g audits.Group) []audits.Group {
		if g.Echoes() {
			return []audits.Group{g}
		}
		return g.Split(CanariesATask)
	})...)
}

func (f *Fields) States(s *audits.Setting) float64 {
	b := f.RandomSampling
	return s.Canaries.Sum(func(g audits.Group) float64 {
		switch {
		case s.External != nil || s.Program != nil: // which scores whole texts, references once
			return float64((b.References + g.Count) * g.Words)
		case g.Echoes():
			return float64(b.References * (g.Words - g.SourceWords()))
		}
		return float64(g.Count) * expectedStates(b.References, g.Words-g.Prefix(b.Prefix), b.Exact)
	})
}

// firstByChance bounds the probability that at least m of n unmemorized canaries have rank 1 among the
// same r references. Canaries and references are drawn alike, so that m given canaries are the first
// of themselves and the references with m! r! / (r+m)!; the bound sums that over the sets of m
// canaries. It exceeds the tail of a binomial distribution, because unlikely references let several
// canaries win.
func firstByChance(m, n, r int) float64 {
	p := 1.0
	for i := range m {
		p *= float64(n-i) / float64(r+1+i)
	}
	return max(0, min(1, p))
}
