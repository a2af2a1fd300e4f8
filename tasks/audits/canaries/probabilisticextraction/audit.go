package probabilisticextraction

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries"
)

var Audit = canaries.Describe[Fields, Outcome, CanaryOutcome](audits.Description{
	Name:       "probabilistic_extraction",
	Limits:     []audits.Limit{extractable.Limit()},
	Power:      extractable.Power,
	Kinds:      []tasks.Kind{Kind},
	EveryRound: true,
	Panels:     audits.From((*Outcome).panels),
	Pairs:      audits.TargetSecrets,
	Measures:   measures,
	Canary:     audits.Members[CanaryOutcome](audits.Measure{Name: "probabilistic_extractable", Paired: true}, audits.Measure{Name: "greedy_extractable", Paired: true}),
})

var measures = slices.Concat(slices.Insert(extractable.Measures(), 1, audits.Measure{
	Name: "greedy_extractable", Doc: "inserted canaries that greedy decoding completes from their prefix", Of: audits.Of(func(v *Outcome) int { return v.Greedy }),
	Header: "greedy", Scale: audits.Plain, Better: audits.Lower, Among: "probabilistic_of", Canary: "greedy_extractable", Curve: canaries.Memorized("greedy"),
}), audits.Columns[Outcome]("probabilistic_", "queries", "chance"), audits.Qualified(" of probabilistic extraction", audits.Columns[Outcome]("probabilistic_", "temperature")...), []audits.Measure{
	{Name: "probabilistic_top_k", Doc: "likeliest tokens that probabilistic extraction samples from; empty: all", Of: audits.Of(func(v *Outcome) *int { return audits.NonZero(v.TopK) })},
}, audits.Lowest("probabilistic", audits.Measure{Doc: "rarest configuration in probabilistic_extractable"}, func(v *Outcome) *audits.Configuration { return v.Lowest }))

type Fields struct {
	// Probability that a sample of the model after a canary's prefix completes the canary.
	ProbabilisticExtraction *Block `json:"probabilistic_extraction,omitempty" source:"Hayes et al. 2024"`
}

type Block struct {
	audits.PrefixField
	// Further prefix lengths, for sampling and greedy decoding: one or a list.
	Prefixes []int `json:"prefixes,omitempty" range:"[1,999]" unit:"words (byte level: bytes)" source:"Carlini et al. 2022"`
	// Temperature that logits are divided by before the softmax.
	Temperature float64 `json:"temperature" default:"1" range:"(0,1000]"`
	// Most probable tokens that are drawn from. Absent: all.
	TopK *int `json:"top_k,omitempty" range:"[1,1000000]" unit:"tokens"`
	// Samples drawn to extract a canary, n.
	Queries int `json:"queries" default:"1000" range:"[1,1000000000000]" unit:"samples" also:"n"`
	// Probability p that n samples contain an extractable canary.
	Chance numbers.Probability `json:"chance" default:"50%" range:"(0,1)" also:"p"`
}

const path = "audit.probabilistic_extraction"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.ProbabilisticExtraction.CompletePrefix(s, path, given)
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	b := f.ProbabilisticExtraction
	b.CheckPrefix(s, path, fail)
	if s.Canaries == nil {
		return
	}
	shortest, source := math.MaxInt, 0
	for _, g := range s.Canaries.Groups {
		shortest = min(shortest, g.Words)
		if g.Target != "" {
			source = max(source, g.SourceWords())
		}
	}
	for i, prefix := range b.Prefixes {
		paths := []string{fmt.Sprintf("%s.prefixes[%d]", path, i), "canaries.words", "canaries.format"}
		switch {
		case prefix >= shortest:
			fail(paths, "is %d; expected less than the length of a canary, %d, so that a word is left to extract", prefix, shortest)
		case prefix < source:
			fail(paths, "is %d; expected at least %d, the length of the source and the separator, because only the target is predicted", prefix, source)
		}
	}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	return b.Node(Kind, fmt.Sprintf("probabilistic extraction after %d", round), f.ProbabilisticExtraction.params(b.Setting().Canaries.Groups),
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: audits.PlacementsInput, Key: b.Placements()})
}

func (b *Block) params(groups []audits.Group) Params {
	p := Params{Sampling: models.Sampling{Temperature: b.Temperature, TopK: *cmp.Or(b.TopK, new(int))}, Queries: b.Queries, Chance: b.Chance.Float64()}
	for _, g := range groups {
		prefixes := append([]int{g.Prefix(b.Prefix)}, b.Prefixes...)
		slices.Sort(prefixes)
		p.Groups = append(p.Groups, Group{First: g.First, Count: g.Count, Prefix: g.Prefix(b.Prefix), Prefixes: slices.Compact(prefixes)})
	}
	return p
}

func (f *Fields) States(s *audits.Setting) float64 {
	return s.Canaries.Sum(func(g audits.Group) float64 { return float64(g.Count * g.Words) })
}

// byChance bounds the probability that more than k of n unmemorized canaries are extractable.
func byChance(s *audits.Setting, k, n, _ int) float64 {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return 0
	}
	b := f.ProbabilisticExtraction
	return audits.BinomialTail(k, n, extractableByChance(b.Queries, b.Chance.Float64(), s.Canaries.MinSequences(s.Ordinary, b.Prefix)))
}

// extractableByChance bounds the probability that the samples contain an unmemorized canary with at least the
// chance. The probabilities of samples sum to at most 1, so at most 1/p sequences have a probability of p or
// more, and an unmemorized canary is any of the sequences.
func extractableByChance(queries int, chance, sequences float64) float64 {
	least := -math.Expm1(math.Log1p(-chance) / float64(queries))
	return min(1, 1/(least*sequences))
}

var extractable = audits.CountOf[Outcome]{
	Measure: audits.Measure{
		Name: "probabilistic_extractable", Doc: "inserted canaries that n samples of the model after their prefix contain with probability p or more (Hayes et al. 2024)",
		Header: "sampled (n, p)", Text: audits.Of((*Outcome).sampled),
		Among: "probabilistic_of", Canary: "probabilistic_extractable", Curve: canaries.Memorized("sampled"),
	},
	Counted:  func(v *Outcome) (count, total int) { return v.Extractable, v.Of },
	ByChance: byChance,
}

// Outcome counts the inserted canaries that sampling and greedy decoding extract.
type Outcome struct {
	Extractable int     `json:"extractable" doc:"number of inserted canaries that the allowed samples contain with the required probability"`
	Greedy      int     `json:"greedy" doc:"number of inserted canaries that greedy decoding continues from their prefix"`
	Of          int     `json:"of" doc:"number of inserted canaries"`
	Queries     int     `json:"queries" doc:"n, the samples that probabilistic extraction allows"`
	Chance      float64 `json:"chance" doc:"p, the probability with which n samples must contain a canary"`
	models.Sampling
	Lowest *audits.Configuration `json:"lowest"`
	Curves []Curve               `json:"curves"`
}

// Curve is the share of the canaries of one configuration that n samples extract with the chance p,
// for several n and p.
type Curve struct {
	// Configuration is nil for held-back canaries.
	Configuration *audits.Configuration `json:"configuration" doc:"of the canaries"`
	Canaries      int                   `json:"canaries" doc:"number of canaries"`
	Points        []Point               `json:"points"`
}

// Point holds n, and the share at each of Chances.
type Point struct {
	Queries float64   `json:"queries" doc:"number of samples"`
	Shares  []float64 `json:"shares" doc:"share of canaries that the samples contain, by required probability"`
}

// Chances are the p of a curve, and 10^curvePowers its largest n.
var Chances = []float64{0.1, 0.5, 0.9, 0.99, 0.999}

const curvePowers = 12

func (v *Outcome) panels() []*audits.Figure {
	var figures []*audits.Figure
	for _, c := range v.Curves {
		f := &audits.Figure{
			Name: "Extractable by n samples", Title: "share of canaries in % that are extractable by n samples, " + c.of(), Of: c.of(),
			About: "The x axis is n, the number of samples of the model after a canary's beginning; the y axis is the share in % of the canaries of one configuration " +
				"that they contain with probability p or more. The curve of controls shows what n samples give without memorization.",
			X: audits.Axis{Title: "samples drawn", Max: math.Pow(10, curvePowers), Logarithmic: true}, Y: audits.Axis{Title: "canaries extractable (%)", Max: 100},
		}
		for k, chance := range Chances {
			line := audits.Line{Name: fmt.Sprintf("p %v", chance)}
			for _, p := range c.Points {
				line.Points = append(line.Points, audits.Point{X: p.Queries, Y: 100 * p.Shares[k]})
			}
			f.Lines = append(f.Lines, line)
		}
		figures = append(figures, f)
	}
	return figures
}

func (c *Curve) of() string {
	if c.Configuration == nil {
		return fmt.Sprintf("canaries held back (%d)", c.Canaries)
	}
	return fmt.Sprintf("canaries inserted %s (%d)", c.Configuration, c.Canaries)
}

func (v *Outcome) sampled() string {
	return fmt.Sprintf("%d/%d (%d, %v)", v.Extractable, v.Of, v.Queries, v.Chance)
}

// CanaryOutcome is the outcome for a canary. All fields are null without the audit.
type CanaryOutcome struct {
	LogProbability *float64 `json:"probabilistic_log_probability" doc:"natural logarithm of the probability that a sample after the prefix completes the canary; empty for probability 0"`
	Queries        *float64 `json:"probabilistic_queries" doc:"samples of the model that contain the canary with the chance; empty above 1.8e308"`
	Extractable    *bool    `json:"probabilistic_extractable" doc:"whether the samples of the audit contain the canary with the chance"`
	Greedy         *bool    `json:"greedy_extractable" doc:"whether greedy decoding after the prefix completes the canary"`
	// Prefixes are the outcomes for each length of the prefix.
	Prefixes []After `json:"probabilistic_prefixes"`
}

// After is the outcome after a prefix of some length in words.
type After struct {
	Prefix         int      `json:"prefix"`
	LogProbability *float64 `json:"log_probability"`
	Queries        *float64 `json:"queries"`
	Greedy         bool     `json:"greedy"`
}
