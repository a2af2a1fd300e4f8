package randomsampling

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/datasets/population"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:      "random_sampling",
	Limits:    []audits.Limit{memorized.Limit()},
	Power:     memorized.Power,
	Kinds:     []tasks.Kind{Kind, Summary, Scored},
	ByScores:  true,
	ByProgram: true,
	Pairs:     audits.EverySecret,
	Among: func(v audits.Outcome, c audits.CanaryOutcome) (int, bool) {
		outcome, measured := v.(*Outcome)
		canary, of := c.(*CanaryOutcome)
		if !measured || !of || canary.Rank == nil {
			return 0, false
		}
		return outcome.References, true
	},
	Measures: measures,
	Canary: audits.Members[CanaryOutcome](
		audits.Measure{Name: "exposure", Paired: true, Place: 1, Drawn: "mean exposure of canaries, bits", Scale: audits.Plain},
		audits.Measure{Name: "memorized", Paired: true, Drawn: "canaries memorized by random sampling, %", Scale: audits.Percent},
	),
})

var measures = slices.Concat(memorized.Measures(), audits.Columns[Outcome]("", "references"),
	audits.Lowest("random_sampling", audits.Measure{Header: "RS rarest (p_u, p_e)", Leading: true, Doc: "rarest configuration memorized by random sampling"}, func(v *Outcome) *audits.Configuration { return v.Lowest }))

type Fields struct {
	// Rank of each canary among random sequences.
	RandomSampling *Block `json:"random_sampling,omitempty" source:"Thakkar et al. 2020, section 4.1"`
}

type Block struct {
	// Random sequences to rank a canary against. The default, 1000 for an external model, is lowered to
	// the number of sequences that may follow the prefix.
	References int `json:"references" default:"2000000" range:"[1,1000000000]" unit:"sequences" also:"num_references samples"`
	audits.PrefixField
	// Computes large ranks exactly, not by an estimate with its standard error. "Memorized" is always
	// exact.
	Exact bool `json:"exact" default:"false"`
}

const path = "audit.random_sampling"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.RandomSampling.CompletePrefix(s, path, given)
	if given(path + ".references") {
		return
	}
	if s.External != nil || s.Program != nil {
		f.RandomSampling.References = scoredReferences
	}
	f.RandomSampling.FitReferences(s, &f.RandomSampling.References, 1)
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
		kind, groups, label, inputs = Scored, s.Canaries.Groups, "by scores", []tasks.Input{{Name: population.PartsInput, Key: b.Parts()}}
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

var memorized = audits.CountOf[Outcome]{
	Measure: audits.Measure{
		Name: "random_sampling_memorized", Doc: "inserted canaries memorized by random sampling: likelier than each of the references", Header: "RS memorized", Leading: true,
		Among: "random_sampling_of", Canary: "memorized", Curve: canaries.Memorized("random sampling"),
	},
	Counted: func(v *Outcome) (count, total int) { return v.Memorized, v.Of },
	References: func(s *audits.Setting) audits.Size {
		f, _ := audits.FieldsOf[*Fields](s)
		return audits.FieldSize(path+".references", "reference", f.RandomSampling.References)
	},
	ByChance: func(_ *audits.Setting, k, n, references int) float64 { return firstByChance(k+1, n, references) },
}

// Outcome counts the canaries of rank 1.
type Outcome struct {
	Memorized  int                   `json:"memorized"`
	Of         int                   `json:"of"`
	References int                   `json:"references" doc:"random sequences that random sampling ranks each canary among"`
	Lowest     *audits.Configuration `json:"lowest"`
}

// MaxExposure implements exposure.Bounded.
func (v *Outcome) MaxExposure() float64 { return math.Log2(float64(v.References)) }

// CanaryOutcome is the rank of a canary. All fields are null without the audit.
type CanaryOutcome struct {
	Rank             *int64   `json:"rank" doc:"rank of the canary among the references, 1 for the likeliest"`
	RankExact        *bool    `json:"rank_exact" doc:"whether the rank was counted, not estimated"`
	LogPerplexity    *float64 `json:"log_perplexity" doc:"log-perplexity of the canary after the prefix of random sampling, in nats, sum over its words"`
	Exposure         *float64 `json:"exposure" doc:"exposure of the canary by its rank among the references, in bits (Carlini et al. 2019, section 4)"`
	ExposureSE       *float64 `json:"exposure_se" doc:"standard error of exposure if the rank was estimated, in bits"`
	ExposureCensored *bool    `json:"exposure_censored" doc:"whether exposure is a lower bound, because the rank is 1"`
	Memorized        *bool    `json:"memorized" doc:"whether random sampling finds the canary memorized: its rank is 1"`
}

func (r Rank) CanaryOutcome(references int) CanaryOutcome {
	exposure, memorized := r.Exposure(references), r.Rank == 1
	o := CanaryOutcome{
		Rank: &r.Rank, RankExact: &r.Exact, LogPerplexity: &r.LogPerplexity,
		Exposure: &exposure, ExposureCensored: &memorized, Memorized: &memorized,
	}
	if !r.Exact {
		o.ExposureSE = &r.ExposureError
	}
	return o
}

// Exposed implements exposure.Exposed. The number of references at or below the canary is about Poisson, so
// that a counted rank has an error too.
func (o *CanaryOutcome) Exposed() *exposure.Exposure {
	if o.Exposure == nil {
		return nil
	}
	e := &exposure.Exposure{Basis: exposure.Sampled, Bits: *o.Exposure, Memorized: o.Memorized != nil && *o.Memorized}
	atLeast := ""
	if o.ExposureCensored != nil && *o.ExposureCensored {
		atLeast = "at least "
	}
	e.Text = fmt.Sprintf("exposure %s%.1f bits", atLeast, e.Bits)
	if o.Rank != nil {
		e.Support = *o.Rank - 1
		e.Text += fmt.Sprintf(", rank %d", *o.Rank)
	}
	e.Error = 1 / (math.Ln2 * math.Sqrt(float64(e.Support)))
	if o.ExposureSE != nil {
		e.Error = *o.ExposureSE
		e.Text += fmt.Sprintf(" (estimated, standard error %.2f bits)", e.Error)
	}
	return e
}
