package samples

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:        "samples",
	Limits:      limits,
	Kinds:       []tasks.Kind{Kind, Search, Summary},
	OutcomeBlob: audits.OutcomeBlob,
	Changes:     func(before, after audits.Outcome) []audits.Change { return before.(*Outcome).changes(after.(*Outcome)) },
	Measures:    measures,
})

var measures = slices.Concat(audits.Columns[Outcome]("", "samples"), audits.Qualified(" of audit.samples", audits.Columns[Outcome]("samples_", "temperature")...), []audits.Measure{
	{Name: "samples_top_k", Doc: "likeliest tokens that audit.samples draws from; empty: all", Of: audits.Of(func(v *Outcome) *int { return audits.NonZero(v.TopK) })},
}, audits.Within(func(v *Outcome) *Unknown { return v.Unknown },
	audits.Measure{
		Name: "samples_first_unknown", Of: audits.Of(func(u *Unknown) *audits.Interval { return new(u.first()).Interval() }),
		Header: "first OOV %", Text: audits.Of((*Unknown).firstText), Scale: audits.Percent, Digits: 2,
		Doc: "share of words out of vocabulary among first words of samples; a star marks a significantly larger share than among other words",
	},
	audits.Measure{Of: audits.Of((*Unknown).atFirst), Scale: audits.Percent, Curve: share("first words out of vocabulary", "samples_first_unknown_percent")},
	audits.Measure{Name: "samples_first_unknown_probability", Of: audits.Of(func(u *Unknown) float64 { return u.FirstProbability }), Doc: "probability of a first word out of vocabulary, by the model at temperature 1"},
	audits.Measure{Name: "samples_first_unknown_p", Of: audits.Of(func(u *Unknown) float64 { return u.First.P }), Doc: "p-value of McNemar's test that first words are more often out of vocabulary than others"},
	audits.Measure{
		Name: "samples_unknown", Of: audits.Of(func(u *Unknown) *audits.Interval { return u.All.Interval() }), Header: "all OOV %", Scale: audits.Percent, Digits: 2,
		Curve: share("all out of vocabulary", "samples_unknown_percent"),
		Doc:   "share of words out of vocabulary among all words of samples",
	},
), audits.Within(func(v *Outcome) *Spaces { return v.Spaces },
	audits.Measure{
		Name: "samples_with_space", Doc: "share of samples of a model of bytes that contain a space", Of: audits.Of(func(s *Spaces) *audits.Interval { return s.Samples.Interval() }), Scale: audits.Percent,
		Curve: share("samples with a space", "samples_with_space_percent"),
	},
	audits.Measure{
		Name: "samples_top_with_space", Of: audits.Of(func(s *Spaces) int { return s.Top }),
		Header: "with space", Text: audits.Of(func(s *Spaces) string { return fmt.Sprintf("%d/%d", s.Top, s.Of) }), Scale: audits.Plain,
		Doc: "most probable words of a model of bytes that contain a space",
	},
	audits.Measure{Name: "samples_top", Of: audits.Of(func(s *Spaces) int { return s.Of }), Doc: "most probable words that samples_top_with_space counts among"},
), audits.Within(func(v *Outcome) *Searched { return v.Search },
	audits.Measure{Name: "samples_top_certain", Of: audits.Of(func(s *Searched) int { return s.Certain }), Doc: "listed words that are proved to be the most probable"},
))

type Fields struct {
	// Samples: words out of vocabulary by position; at the byte level the most probable words, and words
	// with a space.
	Samples *Block `json:"samples,omitempty"`
}

type Block struct {
	// Samples to draw.
	Count int `json:"count" default:"10000" range:"[1,1000000]" unit:"samples" source:"Augenstein et al. 2020, figure 4"`
	// Length at which a sample is cut, its end included, by default 10, at the byte level 32.
	Length int `json:"length" range:"[2,1001]" unit:"words (byte level: bytes)" source:"Augenstein et al. 2020, table 7"`
	// Temperature that logits are divided by before the softmax.
	Temperature float64 `json:"temperature" default:"1" range:"(0,1000]" source:"Augenstein et al. 2020, equation 1"`
	// Most probable tokens that are drawn from. Absent: all.
	TopK *int `json:"top_k,omitempty" range:"[1,1000000]" unit:"tokens"`
	// Samples and most probable sequences in the results.
	Shown int `json:"shown" default:"20" range:"[0,1000]" unit:"samples" source:"Augenstein et al. 2020, table 8"`
	// Probability of a false alarm of a test of the samples.
	Significance numbers.Probability `json:"significance" default:"0.1%" range:"(0,1)"`
	// Nodes of a search for the most probable sequences, by default 0 (none), at the byte level 100000.
	Expansions int `json:"expansions" range:"[0,10000000]" unit:"nodes"`
	// Memory of that search.
	Memory int `json:"memory" default:"256" range:"[1,1000000]" unit:"MiB"`
}

const path = "audit.samples"

// Defaults by level.
const (
	sentenceLength = 10
	wordLength     = 32
	byteExpansions = 100_000
)

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	length, expansions := sentenceLength, 0
	if s.Reading.Level == text.ByteLevel {
		length, expansions = wordLength, byteExpansions
	}
	if !given(path + ".length") {
		f.Samples.Length = length
	}
	if !given(path + ".expansions") {
		f.Samples.Expansions = expansions
	}
}

func (f *Fields) Check(_ *audits.Setting, fail audits.Fail) {
	b := f.Samples
	fail.If(b.Expansions > 0 && b.Shown == 0, []string{path + ".expansions", path + ".shown"}, "is %d, but with %s.shown 0 there is nothing to search for; set it to 0, or list some", b.Expansions, path)
}

// samplesATask is the number of samples per task: a few seconds' work with the paper's model of words. It
// affects keys, not results.
const samplesATask = 5000

// searchBatch is the number of nodes that are expanded together.
const searchBatch = 64

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	p, seed := f.Samples, b.Setting().Seed
	model := tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}
	inputs := []tasks.Input{model, {Name: population.PartsInput, Key: b.Parts()}}
	spans := audits.Split(p.Count, samplesATask)
	for i, span := range spans {
		part := b.Node(Kind, fmt.Sprintf("samples from %d on after %d", span.First, round),
			Params{Seed: seed, First: span.First, Count: span.Count, Length: p.Length, Sampling: p.sampling()}, model)
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(i), Key: part})
	}
	if p.Expansions > 0 {
		found := b.Node(Search, fmt.Sprintf("most probable sequences after %d", round), p.search(), model)
		inputs = append(inputs, tasks.Input{Name: SearchInput, Key: found})
	}
	return b.Node(Summary, fmt.Sprintf("what samples are like after %d", round), SummaryParams{
		Seed: seed, Parts: len(spans), Count: p.Count, Length: p.Length, Sampling: p.sampling(), Shown: p.Shown,
		Significance: p.Significance.Float64(), Searched: p.Expansions > 0,
	}, inputs...)
}

func (b *Block) sampling() models.Sampling {
	return models.Sampling{Temperature: b.Temperature, TopK: *cmp.Or(b.TopK, new(int))}
}

func (b *Block) search() SearchParams {
	return SearchParams{
		Length: b.Length, Expansions: b.Expansions,
		Settings: search.Settings{Batch: searchBatch, Results: b.Shown, Prove: b.Shown, Memory: int64(b.Memory) << 20},
	}
}

// States returns an upper bound: samples with a common beginning share states.
func (f *Fields) States(*audits.Setting) float64 {
	b := f.Samples
	return float64(b.Count)*float64(b.Length) + float64(b.Expansions)
}

var limits = []audits.Limit{
	audits.LimitOf[numbers.Probability]{
		Name: "samples_out_of_vocabulary", Range: "(0,1)",
		Doc: "Share of words out of vocabulary at each position, by an exact binomial test at audit.samples.significance over all positions.",
		Breaches: audits.Judged("samples_out_of_vocabulary", func(v *Outcome, limit numbers.Probability) (breaches []string) {
			if v.Unknown == nil || v.Unknown.first().Of == 0 {
				return audits.NoValue("samples_out_of_vocabulary", "no sample has words")
			}
			for i, share := range v.Unknown.Positions {
				if share.Of == 0 {
					continue // no sample is so long
				}
				breaches = append(breaches, audits.AboveSignificantly("samples_out_of_vocabulary", fmt.Sprintf(" at position %d", i+1), share, limit, v.Significance/float64(len(v.Unknown.Positions)))...)
			}
			return breaches
		}),
		Check: func(s *audits.Setting, _ numbers.Probability, fail audits.Fail) {
			fail.If(s.Reading.Level == text.ByteLevel, []string{"audit.fail_if.samples_out_of_vocabulary", "data.level"}, "limits words out of vocabulary, and at the byte level nothing is; remove it, or set data.level: word")
		},
		FalseAlarms: falseAlarms("samples_out_of_vocabulary"),
	}.Limit(),
	audits.LimitOf[numbers.Probability]{
		Name: "samples_with_space", Range: "(0,1)",
		Doc: "Share of samples with a space, by an exact binomial test at audit.samples.significance. Byte level only.",
		Breaches: audits.Judged("samples_with_space", func(v *Outcome, limit numbers.Probability) []string {
			if v.Spaces == nil {
				return audits.NoValue("samples_with_space", "no sample is of bytes")
			}
			return audits.AboveSignificantly("samples_with_space", "", v.Spaces.Samples, limit, v.Significance)
		}),
		Check: func(s *audits.Setting, _ numbers.Probability, fail audits.Fail) {
			fail.If(s.Reading.Level != text.ByteLevel, []string{"audit.fail_if.samples_with_space", "data.level"}, "limits spaces in samples, which the %s level has none of; remove it, or set data.level: byte", s.Reading.Level)
		},
		FalseAlarms: falseAlarms("samples_with_space"),
	}.Limit(),
}

func falseAlarms(name string) func(*audits.Setting, numbers.Probability) []audits.FalseAlarm {
	return audits.Alarms(func(f *Fields, _ *audits.Setting, limit numbers.Probability) []audits.FalseAlarm {
		return audits.SignificanceAlarms(name, limit, f.Samples.Count, "samples", f.Samples.Significance)
	})
}

func share(name, metric string) *audits.Curve {
	return &audits.Curve{Figure: "Share of samples, %", Name: name, Metric: metric}
}

// Outcome describes the samples of a model.
type Outcome struct {
	// Samples is the number of samples, Cut the number that did not end within Length. Distinct is the number
	// of different ones among those that ended and consist of at least one word and only of words.
	Samples  int `json:"samples" doc:"samples drawn from the model"`
	Cut      int `json:"cut" doc:"number of samples that did not end within the length"`
	Distinct int `json:"distinct" doc:"number of different samples that ended and consist only of words"`
	Length   int `json:"length" doc:"number of tokens, with the end, at which a sample is cut"`
	models.Sampling
	Significance float64 `json:"significance" doc:"probability of a false alarm of a test of the samples"`
	// Unknown is set for a model of words, Spaces for a model of bytes.
	Unknown *Unknown `json:"unknown,omitempty"`
	Spaces  *Spaces  `json:"spaces,omitempty"`
	// MostProbable are the most probable samples that ended, by exact probability.
	MostProbable []Text `json:"most_probable" doc:"of a most probable sample"`
	// Search has the most probable sequences of all, if a search was run.
	Search *Searched `json:"search,omitempty" doc:"of the search"`
	// Shown are the first samples.
	Shown []Text `json:"shown" doc:"of a shown sample"`
}

// Searched are the most probable sequences that end within the length.
type Searched struct {
	Words []Text `json:"words" doc:"of a sequence"`
	// Certain is the number of those that are proved to be the most probable.
	Certain int `json:"certain" doc:"number of listed sequences that are proved to be the most probable"`
	// Probability is the total probability of the listed sequences.
	Probability float64     `json:"probability" doc:"total probability of the listed sequences"`
	Expanded    int         `json:"expanded" doc:"number of expanded nodes"`
	Stop        search.Stop `json:"stop"`
}

// top returns the most probable known sequences.
func (v *Outcome) top() []Text {
	if v.Search != nil {
		return v.Search.Words
	}
	return v.MostProbable
}

// atFirst returns the share at the first position; nil if no sample has a word.
func (u *Unknown) atFirst() *float64 {
	return audits.When(len(u.Positions) > 0, u.first().Share)
}

// first returns the share at the first position.
func (u *Unknown) first() audits.Share {
	if len(u.Positions) == 0 {
		return audits.NewShare(0, 0)
	}
	return u.Positions[0]
}

// firstText returns the share at the first position, with a star if first words stand out.
func (u *Unknown) firstText() string {
	text := numbers.Decimal(100*u.first().Share, 2)
	if u.First.StandsOut {
		text += "*"
	}
	return text
}

func (v *Outcome) Note(*audits.Cell) string {
	note := fmt.Sprintf("samples: %d of at most %d", v.Samples, v.Length)
	if u := v.Unknown; u != nil {
		note += fmt.Sprintf("; out of vocabulary are %s of the first words (exactly %.2f%% by the model) and %s of all; first words against the others of their sentence: %s",
			u.first().Percent(), 100*u.FirstProbability, u.All.Percent(), audits.PText(u.First.P))
	}
	if s := v.Spaces; s != nil {
		note += fmt.Sprintf("; %s of those that ended hold a space", s.Samples.Percent())
	}
	return note + v.listed()
}

// notedWords is the number of words in a note.
const notedWords = 5

func (v *Outcome) listed() string {
	top := v.top()
	if len(top) == 0 {
		return ""
	}
	words := lists.Map(top[:min(notedWords, len(top))], func(text Text) string { return fmt.Sprintf("%q %.3g", text.Text, text.Probability) })
	sort := "among the samples"
	if s := v.Search; s != nil {
		sort = fmt.Sprintf("of all, of which %d are proved to be", s.Certain)
	}
	return fmt.Sprintf("; most probable %s: %s", sort, strings.Join(words, ", "))
}

// changes compares two models, at the positions that both have.
func (v *Outcome) changes(other *Outcome) []audits.Change {
	var changes []audits.Change
	if a, b := v.Unknown, other.Unknown; a != nil && b != nil {
		changes = append(changes, audits.Change{Label: "probability that the first word is out of vocabulary", Before: a.FirstProbability, After: b.FirstProbability})
		for i := range min(len(a.Positions), len(b.Positions)) {
			changes = append(changes, change(fmt.Sprintf("share out of vocabulary at position %d", i+1), a.Positions[i], b.Positions[i]))
		}
	}
	if a, b := v.Spaces, other.Spaces; a != nil && b != nil {
		if a.Of > 0 && b.Of > 0 {
			changes = append(changes, audits.Change{Label: "share of the most probable words with a space", Before: float64(a.Top) / float64(a.Of), After: float64(b.Top) / float64(b.Of)})
		}
		changes = append(changes, change("share of samples with a space", a.Samples, b.Samples))
	}
	return changes
}

func change(name string, a, b audits.Share) audits.Change {
	return audits.Change{Label: name, Before: a.Share, After: b.Share, P: new(audits.Differ(a, b))}
}

// Figure returns Figure 4 of the paper.
func (v *Outcome) Figure(*audits.Cell) *audits.Figure {
	if v.Unknown == nil {
		return nil
	}
	f := &audits.Figure{
		Name: "Words out of vocabulary, %, by position in the samples", Title: "words out of vocabulary by position in the samples",
		About: "Bars are the share of samples, in percent, of which the word at a position is out of vocabulary, among those that have a word there; lines are their intervals. " +
			"The dot is the probability of the first word by the model itself.",
		X: audits.Axis{Title: "position of the word", Max: float64(v.Length) + 1}, Y: audits.Axis{Title: "words out of vocabulary (%)", Max: 1}, Filled: "by the model itself",
		Dots: []audits.Dot{{X: 1, Y: 100 * v.Unknown.FirstProbability, Filled: true, About: "by the model itself"}},
	}
	for i, s := range v.Unknown.Positions {
		x := float64(i + 1)
		f.Bars = append(f.Bars, audits.Bar{From: x - 0.4, To: x + 0.4, Y: 100 * s.Share})
		f.Ranges = append(f.Ranges, audits.Range{X: x, Low: 100 * s.Low, High: 100 * s.High})
		f.Y.Max = max(f.Y.Max, 100*s.High)
	}
	return f
}
