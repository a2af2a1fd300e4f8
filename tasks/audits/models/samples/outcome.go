package samples

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name: "samples",
	Legend: "First OOV, all OOV: the share of words out of vocabulary among the first words, and among all words, of samples of the model; a star marks a " +
		"significantly larger share among first words. With space: the number of the most probable words of a model of bytes that contain a space.",
	Limits:      limits,
	Kinds:       []tasks.Kind{Kind, Search, Summary},
	OutcomeBlob: audits.OutcomeBlob,
	Changes:     func(before, after audits.Outcome) []audits.Change { return before.(*Outcome).changes(after.(*Outcome)) },
	Measures: slices.Concat(audits.Columns[Outcome]("", "samples"), audits.Columns[Outcome]("samples_", "temperature"), []audits.Measure{
		{Name: "samples_top_k", Of: audits.Of(func(v *Outcome) *int { return audits.NonZero(v.TopK) })},
	}, audits.Within(func(v *Outcome) *Unknown { return v.Unknown },
		audits.Measure{
			Name: "samples_first_unknown", Of: audits.Of(func(u *Unknown) *audits.Interval { return new(u.first()).Interval() }),
			Header: "first OOV %", Text: audits.Of((*Unknown).firstText), Scale: audits.Percent, Digits: 2,
			Curve: share("first words out of vocabulary", "samples_first_unknown_percent"),
		},
		audits.Measure{Name: "samples_first_unknown_probability", Of: audits.Of(func(u *Unknown) float64 { return u.FirstProbability })},
		audits.Measure{Name: "samples_first_unknown_p", Of: audits.Of(func(u *Unknown) float64 { return u.First.P })},
		audits.Measure{
			Name: "samples_unknown", Of: audits.Of(func(u *Unknown) *audits.Interval { return u.All.Interval() }), Header: "all OOV %", Scale: audits.Percent, Digits: 2,
			Curve: share("all out of vocabulary", "samples_unknown_percent"),
		},
	), audits.Within(func(v *Outcome) *Spaces { return v.Spaces },
		audits.Measure{
			Name: "samples_with_space", Of: audits.Of(func(s *Spaces) *audits.Interval { return s.Samples.Interval() }),
			Curve: share("samples with a space", "samples_with_space_percent"),
		},
		audits.Measure{
			Name: "samples_top_with_space", Of: audits.Of(func(s *Spaces) int { return s.Top }),
			Header: "with space", Text: audits.Of(func(s *Spaces) string { return fmt.Sprintf("%d/%d", s.Top, s.Of) }), Scale: audits.Plain,
		},
		audits.Measure{Name: "samples_top", Of: audits.Of(func(s *Spaces) int { return s.Of })},
	), audits.Within(func(v *Outcome) *Searched { return v.Search },
		audits.Measure{Name: "samples_top_certain", Of: audits.Of(func(s *Searched) int { return s.Certain })},
	)),
})

func share(name, metric string) *audits.Curve {
	return &audits.Curve{Figure: "Share of samples, %", Name: name, Metric: metric, AxisEnd: audits.PercentAxisEnd}
}

// Outcome describes the samples of a model.
type Outcome struct {
	// Samples is the number of samples, Cut the number that did not end within Length. Distinct is the number
	// of different ones among those that ended and consist of at least one word and only of words.
	Samples  int `json:"samples"`
	Cut      int `json:"cut"`
	Distinct int `json:"distinct"`
	Length   int `json:"length"`
	models.Sampling
	Significance float64 `json:"significance"`
	// Unknown is set for a model of words, Spaces for a model of bytes.
	Unknown *Unknown `json:"unknown,omitempty"`
	Spaces  *Spaces  `json:"spaces,omitempty"`
	// MostProbable are the most probable samples that ended, by exact probability.
	MostProbable []Text `json:"most_probable"`
	// Search has the most probable sequences of all, if a search was run.
	Search *Searched `json:"search,omitempty"`
	// Shown are the first samples.
	Shown []Text `json:"shown"`
}

// Searched are the most probable sequences that end within the length.
type Searched struct {
	Words []Text `json:"words"`
	// Certain is the number of those that are proved to be the most probable.
	Certain int `json:"certain"`
	// Probability is the total probability of the listed sequences.
	Probability float64     `json:"probability"`
	Expanded    int         `json:"expanded"`
	Stop        search.Stop `json:"stop"`
}

// top returns the most probable known sequences.
func (v *Outcome) top() []Text {
	if v.Search != nil {
		return v.Search.Words
	}
	return v.MostProbable
}

// first is the share at the first position.
func (u *Unknown) first() audits.Share {
	if len(u.Positions) == 0 {
		return audits.NewShare(0, 0)
	}
	return u.Positions[0]
}

// firstText has a star if first words stand out.
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

// Figure is Figure 4 of the paper.
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
