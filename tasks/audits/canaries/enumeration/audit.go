package enumeration

import (
	"fmt"
	"math"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
	"coalmine/tasks/audits/canaries/exposure"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:     "enumeration",
	Limits:   []audits.Limit{memorized.Limit()},
	Power:    memorized.Power,
	Kinds:    []tasks.Kind{Kind, Summary},
	Pairs:    audits.TargetSecrets,
	Measures: measures,
	Canary:   audits.Members[CanaryOutcome](audits.Measure{Name: "enumerated_exposure", Paired: true}),
})

var measures = slices.Concat(memorized.Measures(), audits.Columns[Outcome]("enumeration_", "sequences"), []audits.Measure{{
	Of:    audits.Of(func(v *Outcome) *float64 { return v.highest }),
	Curve: &audits.Curve{Figure: exposure.HighestFigure, Name: "enumeration", Metric: "enumeration_highest_exposure", AxisEnd: audits.From((*Outcome).MaxExposure)},
}}, audits.Lowest("enumeration", audits.Measure{Header: "rarest of all", Doc: "rarest configuration memorized by enumeration"}, func(v *Outcome) *audits.Configuration { return v.Lowest }))

type Fields struct {
	// Exact rank of each canary among all sequences of its space.
	Enumeration *Block `json:"enumeration,omitempty" source:"Carlini et al. 2019, section 4.2"`
}

type Block struct {
	audits.PrefixField
	// Maximum number of sequences after the prefix; a larger space is refused.
	Limit int `json:"limit" default:"10000000" range:"[1,1000000000000]" unit:"sequences"`
}

const path = "audit.enumeration"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.Enumeration.CompletePrefix(s, path, given)
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	b := f.Enumeration
	b.CheckPrefix(s, path, fail)
	audits.CheckSteps(s, path, fail)
	if s.Canaries == nil {
		return
	}
	for _, g := range s.Canaries.Groups {
		if room := g.Sequences(s.Ordinary, g.Prefix(b.Prefix)); room > float64(b.Limit) {
			fail([]string{path + ".limit", path + ".prefix", "canaries.words", "canaries.format", "canaries.formats", "canaries.alphabet", "data.vocabulary.size"},
				"is %d, and %.0f sequences can follow the prefix; raise it to enumerate them, give a longer prefix, or estimate the exposure by audit.random_sampling or audit.skew_normal",
				b.Limit, room)
		}
	}
}

func (b *Block) sequences(s *audits.Setting, g audits.Group) int {
	return int(g.Sequences(s.Ordinary, g.Prefix(b.Prefix)))
}

// Exposures implements exposure.Measurer: the range of the group with the most sequences.
func (f *Fields) Exposures(s *audits.Setting) exposure.Range {
	n := 0
	if s.Canaries != nil {
		for _, g := range s.Canaries.Groups {
			n = max(n, f.Enumeration.sequences(s, g))
		}
	}
	if n <= 1 { // Check returns an error
		return exposure.Range{Basis: exposure.Enumerated, Max: math.Inf(1), Path: path, How: "a space that is not known"}
	}
	return exposure.Range{Basis: exposure.Enumerated, Max: math.Log2(float64(n)), Path: path + ".prefix", How: fmt.Sprintf("log2(%d sequences)", n)}
}

// sequencesATask is the number of sequences per task, a few seconds of work. It affects keys, not results.
const sequencesATask = 2_500_000

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	s := b.Setting()
	var params SummaryParams
	var parts []tasks.Input
	for _, g := range s.Canaries.Groups {
		sequences := f.Enumeration.sequences(s, g)
		spans := audits.Split(sequences, sequencesATask)
		for _, span := range spans {
			part := b.Node(Kind, fmt.Sprintf("enumeration from sequence %d for canary %d after %d", span.First, g.First, round), Params{
				Space: g.Space, Prefix: g.Prefix(f.Enumeration.Prefix), First: span.First, Count: span.Count, Canaries: only(s.Canaries, g),
			}, tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: audits.CanariesInput, Key: b.Canaries()})
			parts = append(parts, tasks.Input{Name: tasks.PartInput(len(parts)), Key: part})
		}
		params.Sequences = max(params.Sequences, int64(sequences))
		params.Groups = append(params.Groups, RankedGroup{g.Count, len(spans), int64(sequences)})
	}
	params.Parts = len(parts)
	if len(params.Groups) == 1 {
		params.Groups = nil
	}
	return canaries.Summarize(b, round, Summary, "enumeration", params, parts)
}

func only(c *audits.Canaries, g audits.Group) audits.Span {
	if len(c.Groups) == 1 {
		return audits.Span{}
	}
	return g.Span
}

// States implements audits.Scorer, without pruning.
func (f *Fields) States(s *audits.Setting) float64 {
	return s.Canaries.Sum(func(g audits.Group) float64 {
		prefix := g.Prefix(f.Enumeration.Prefix)
		sequences, nodes := g.Sequences(s.Ordinary, prefix), 0.0
		for given := prefix + 1; given < g.Words; given++ {
			nodes += sequences / g.Sequences(s.Ordinary, given)
		}
		prefixes := min(g.Sequences(s.Ordinary, 0)/sequences, float64(g.Count))
		return prefixes * max(1, nodes)
	})
}

var memorized = audits.CountOf[Outcome]{
	Measure: audits.Measure{
		Name: "enumeration_memorized", Doc: "inserted canaries that are the likeliest of all sequences after their prefix, by enumeration", Header: "memorized of all",
		Among: "enumeration_of", Curve: canaries.Memorized("enumeration"),
	},
	Counted:  func(v *Outcome) (count, total int) { return v.Memorized, v.Of },
	ByChance: audits.LikeliestByChance(func(f *Fields) int { return f.Enumeration.Prefix }),
}

// Outcome counts the canaries of rank 1 in the whole space.
type Outcome struct {
	Memorized int                   `json:"memorized"`
	Of        int                   `json:"of"`
	Sequences int64                 `json:"sequences" doc:"sequences after the prefix, all of which enumeration ranks"`
	Lowest    *audits.Configuration `json:"lowest"`

	highest *float64 // exposure of an inserted canary, in bits; nil if there is none, and in results
}

func (v *Outcome) Note(*audits.Cell) string {
	return fmt.Sprintf("enumerated: all %d sequences that can follow the prefix; exposure is exact, at most %.2f bits", v.Sequences, v.MaxExposure())
}

// MaxExposure implements exposure.Bounded.
func (v *Outcome) MaxExposure() float64 { return math.Log2(float64(v.Sequences)) }

// CanaryOutcome is the exact rank of a canary. All fields are null without the audit.
type CanaryOutcome struct {
	Rank          *int64   `json:"enumerated_rank" doc:"rank of the canary among all sequences of its space, 1 for the likeliest; ties count against it"`
	Exposure      *float64 `json:"enumerated_exposure" doc:"exact exposure of the canary by enumeration, in bits (Carlini et al. 2019, section 4.2)"`
	LogPerplexity *float64 `json:"enumerated_log_perplexity" doc:"log-perplexity of the canary after the prefix of enumeration, in nats"`
}

func (t *Tally) CanaryOutcome(sequences int64) CanaryOutcome {
	return CanaryOutcome{Rank: &t.AtMost, Exposure: new(exposure.Of(sequences, t.AtMost)), LogPerplexity: &t.LogPerplexity}
}

func (o *CanaryOutcome) Exposed() *exposure.Exposure {
	if o.Exposure == nil {
		return nil
	}
	return &exposure.Exposure{
		Basis: exposure.Enumerated, Bits: *o.Exposure, Support: exposure.Enough, Memorized: *o.Rank == 1,
		Text: fmt.Sprintf("exact exposure %.1f bits, rank %d of all sequences", *o.Exposure, *o.Rank),
	}
}
