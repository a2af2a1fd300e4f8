package samples

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/text"
)

// Unknown counts words out of vocabulary.
type Unknown struct {
	// Positions has the share at each position, among the samples with a word there.
	Positions []audits.Share `json:"positions" doc:"of the share of unknown words by position"`
	// All is the share among all words.
	All audits.Share `json:"all" doc:"of the share of unknown words"`
	// FirstProbability is the probability of an unknown first word, by the model itself at temperature 1.
	FirstProbability float64 `json:"first_probability" doc:"probability of an unknown first word at temperature 1"`
	// First compares the first word with the others.
	First Contrast `json:"first" doc:"of the first word against the others"`
}

// Contrast is McNemar's exact test of whether the first word of a sample is more often unknown than the
// others. From each sample of at least two words, one of the others is drawn. Under the hypothesis a pair
// with one unknown word is FirstOnly or OtherOnly with equal probability.
type Contrast struct {
	FirstOnly int `json:"first_only" doc:"number of samples whose first word is unknown and whose other, randomly drawn word is known"`
	OtherOnly int `json:"other_only" doc:"number of samples whose first word is known and whose other, randomly drawn word is unknown"`
	// P is the probability of at least this many FirstOnly.
	P float64 `json:"p" doc:"probability of at least first_only such samples if both kinds are equally likely"`
	// StandsOut reports whether P is less than the significance.
	StandsOut bool `json:"stands_out"`
}

func (p *SummaryParams) countUnknown(samples []Drawn) *Unknown {
	u := &Unknown{First: p.contrast(samples)}
	var all audits.Ratio
	var count, total []int
	for i := range samples {
		words, _ := samples[i].words()
		unknown := 0
		for position, word := range words {
			if position == len(total) {
				count, total = append(count, 0), append(total, 0)
			}
			total[position]++
			if word == text.Unknown {
				count[position]++
				unknown++
			}
		}
		if len(words) > 0 {
			all.Add(unknown, len(words))
		}
	}
	for position := range total {
		u.Positions = append(u.Positions, audits.NewShare(count[position], total[position]))
	}
	u.All = all.Share()
	return u
}

func (p *SummaryParams) contrast(samples []Drawn) Contrast {
	var c Contrast
	stream := seeds.Stream(p.Seed, seeds.SamplePositions)
	for i := range samples {
		words, _ := samples[i].words()
		if len(words) < 2 {
			continue
		}
		first, other := words[0] == text.Unknown, words[1+stream.IntN(len(words)-1)] == text.Unknown
		switch {
		case first && !other:
			c.FirstOnly++
		case other && !first:
			c.OtherOnly++
		}
	}
	c.P = audits.NewShare(c.FirstOnly, c.FirstOnly+c.OtherOnly).AtLeast(0.5)
	c.StandsOut = c.P < p.Significance
	return c
}

// firstUnknown returns the probability that the first token is unknown, given that it is not the end.
func firstUnknown(scorer *models.Scorer) (float64, error) {
	state, err := audits.PrefixState(scorer, nil)
	if err != nil {
		return 0, err
	}
	row := make([]float32, scorer.Model().Config().Vocabulary)
	if err := scorer.LogProbRows(state, row); err != nil {
		return 0, err
	}
	p := math.Exp(float64(row[text.Unknown])) / -math.Expm1(float64(row[text.End]))
	if !numbers.IsFinite(p) {
		return 0, &models.DivergedError{Name: "log probability", Value: float64(row[text.Unknown])}
	}
	return p, nil
}

// Spaces counts words with a space from a model of bytes.
type Spaces struct {
	// Samples is the share among the samples that ended.
	Samples audits.Share `json:"samples" doc:"of the share of ended samples with a space"`
	// Top is the number of such words among Of listed words, the most probable of the search or otherwise of
	// the samples.
	Top int `json:"top" doc:"number of listed words with a space"`
	Of  int `json:"of" doc:"number of listed words"`
}

const space = text.FirstWord + ' '

func countSpaces(samples []Drawn) audits.Share {
	whole := lists.Filter(samples, func(d Drawn) bool { _, ended := d.words(); return ended })
	return audits.NewShare(lists.Count(whole, func(d Drawn) bool { return slices.Contains(d.Tokens, space) }), len(whole))
}

// Text is a readable sequence.
type Text struct {
	Text string `json:"text"`
	// LogProbability is the natural logarithm of the joint probability under the model, including the end
	// unless it was cut.
	LogProbability float64 `json:"log_probability" doc:"natural logarithm of the joint probability, with the end unless cut"`
	Probability    float64 `json:"probability" doc:"joint probability, with the end unless cut"`
	// Drawn is the number of samples equal to this sequence, if counted.
	Drawn int `json:"drawn,omitempty" doc:"number of equal samples"`
	// Cut reports whether the sequence did not end within the length.
	Cut bool `json:"cut,omitempty"`

	spaced bool
}

// Reader converts tokens to readable text.
type Reader struct {
	vocabulary *text.Vocabulary
	bytes      bool
}

func NewReader(v *text.Vocabulary) Reader {
	return Reader{v, v.Level() == text.ByteLevel}
}

// Text joins words by spaces and subwords without. It converts bytes to text or, if they are not printable
// UTF-8, joins their names.
func (r Reader) Text(d *Drawn) (Text, error) {
	words, ended := d.words()
	text, err := r.join(words)
	return Text{
		Text: text, LogProbability: d.LogProbability, Probability: math.Exp(d.LogProbability),
		Cut: !ended, spaced: r.bytes && slices.Contains(words, space),
	}, err
}

func (r Reader) join(tokens []int32) (string, error) {
	words, err := audits.Words(r.vocabulary, tokens)
	special := func(token int32) bool { return token < text.FirstWord }
	if err == nil && r.vocabulary.Level() == text.SubwordLevel && !slices.ContainsFunc(tokens, special) {
		return strings.ToValidUTF8(r.vocabulary.Text(tokens), "\uFFFD"), nil
	}
	if err != nil || !r.bytes {
		return strings.Join(words, " "), err
	}
	content := make([]byte, len(tokens))
	for i, token := range tokens {
		if token < text.FirstWord {
			return strings.Join(words, ""), nil
		}
		content[i] = byte(token - text.FirstWord)
	}
	if !utf8.Valid(content) || strings.ContainsFunc(string(content), unicode.IsControl) {
		return strings.Join(words, ""), nil
	}
	return string(content), nil
}

// counted is a sequence with its number of samples.
type counted struct {
	*Drawn
	drawn int
}

// whole reports whether a sample has ended and is one of the sequences of the search: not empty, and only of
// words.
func (d *Drawn) whole() bool {
	words, ended := d.words()
	return ended && len(words) > 0 && !slices.Contains(words, text.Padding) && !slices.Contains(words, text.Begin)
}

// distinct returns the different whole samples, the most probable first, equal ones by their tokens.
func distinct(samples []Drawn) []counted {
	var all []counted
	for i := range samples {
		if samples[i].whole() {
			all = append(all, counted{&samples[i], 1})
		}
	}
	slices.SortFunc(all, compareCounted)
	var out []counted
	for _, c := range all {
		if n := len(out); n > 0 && compareCounted(out[n-1], c) == 0 {
			out[n-1].drawn++
		} else {
			out = append(out, c)
		}
	}
	return out
}

func compareCounted(a, b counted) int {
	return cmp.Or(cmp.Compare(b.LogProbability, a.LogProbability), slices.Compare(a.Tokens, b.Tokens))
}
