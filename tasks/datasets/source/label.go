package source

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/internal/lists"
	"coalmine/internal/registry"
	"coalmine/models"
	"coalmine/tasks/datasets/text"
)

// Label names the attribute of a whole text that a model predicts. The zero value means no label.
type Label string

// Labels of texts.
const (
	// ScoreLabel is the "score" of a line, a number from 1 to 5, rounded to the nearest half; ties
	// round up.
	ScoreLabel Label = "score"
	// TagsLabel is the "tags" (or "labels") of a line that are in a list.
	TagsLabel Label = "tags"
)

// labelScheme describes an attribute of texts to the reader of a source.
type labelScheme struct {
	label   Label
	wanted  string // describes a line in messages
	symbols func(tags []string) []string
	most    func(tags []string) int
	// of returns the numbers of a line's labels, in ascending order.
	of func(f *labelFields, tags []string) ([]byte, error)
}

var labels = registry.New("label", func(s labelScheme) Label { return s.label },
	labelScheme{
		label:   ScoreLabel,
		wanted:  `"score", a number from 1 to 5`,
		symbols: scoreSymbols,
		most:    func([]string) int { return 1 },
		of:      scoreOf,
	},
	labelScheme{
		label:   TagsLabel,
		wanted:  `"tags" (or "labels"), a list of words`,
		symbols: tagSymbols,
		most:    func(tags []string) int { return len(tags) },
		of:      tagsOf,
	},
)

// Choices lists the labels for an experiment file.
func (Label) Choices() []string { return labels.Words() }

// Prefixes of labels in dictionaries and vocabularies. The tokenizer separates brackets, so no word
// of a text begins with a prefix.
const (
	scoreMark = "<score "
	tagMark   = "<tag "
)

// IsLabel reports whether a word of a dictionary is a label.
func IsLabel(word string) bool {
	return strings.HasPrefix(word, scoreMark) || strings.HasPrefix(word, tagMark)
}

func scoreSymbols([]string) []string {
	return lists.Make(models.Scores, func(i int) string {
		score := models.LowestScore + models.ScoreStep*float64(i)
		return scoreMark + strconv.FormatFloat(score, 'g', -1, 64) + ">"
	})
}

func tagSymbols(tags []string) []string {
	return lists.Map(tags, func(tag string) string { return tagMark + tag + ">" })
}

// Tags joins a list for Reading.Tags; TagList is the inverse.
func Tags(list []string) string { return strings.Join(list, "\n") }

// TagList returns the tags of a reading in order.
func (r Reading) TagList() []string {
	if r.Tags == "" {
		return nil
	}
	return strings.Split(r.Tags, "\n")
}

// LabelWords returns the texts of the labels: number i is token FirstWord + i, before all words. It
// is empty without predicted labels of texts, and for images, which have a number for each tag.
func (r Reading) LabelWords() []string {
	scheme, err := labels.Find(r.Label)
	if err != nil || r.Level.Scheme().Images {
		return nil
	}
	return scheme.symbols(r.TagList())
}

// labelRoom returns the number of tokens of an example in addition to its words: the labels, and
// End, which every text then has.
func (r Reading) labelRoom() int {
	scheme, err := labels.Find(r.Label)
	if err != nil || r.Level.Scheme().Images {
		return 0
	}
	return scheme.most(r.TagList()) + 1
}

func (r Reading) checkLabel() error {
	if r.Label == "" {
		if r.Tags != "" {
			return fmt.Errorf("tags without the label %s", TagsLabel)
		}
		return nil
	}
	if _, err := labels.Find(r.Label); err != nil {
		return err
	}
	if r.Level.Scheme().Images && (r.Label != TagsLabel || r.Unlabelled) {
		return fmt.Errorf("the label %s of images, unlabelled ones: %t; expected %s of all of them", r.Label, r.Unlabelled, TagsLabel)
	}
	if !r.Level.Scheme().Images && (!r.Level.IsZero() || r.Pairs) {
		return fmt.Errorf("the label %s at the %s level or of pairs; expected single texts at the %s level, or images", r.Label, r.Level, text.WordLevel)
	}
	if r.Label != TagsLabel {
		return nil
	}
	return CheckTags(r.TagList())
}

// CheckTags returns an error for an invalid list of tags.
func CheckTags(tags []string) error {
	if len(tags) == 0 || len(tags) > models.MaxLabels {
		return fmt.Errorf("%d tags; expected a list of 1 to %d", len(tags), models.MaxLabels)
	}
	for i, tag := range tags {
		switch {
		case strings.TrimSpace(tag) != tag || tag == "" || strings.ContainsFunc(tag, func(r rune) bool { return r < ' ' }):
			return fmt.Errorf("the tag %q; expected a word without spaces at its ends", tag)
		case slices.Contains(tags[:i], tag):
			return fmt.Errorf("the tag %q twice; expected each once", tag)
		}
	}
	return nil
}

// labelFields holds the fields of a line with labels.
type labelFields struct {
	Score  *float64  `json:"score"`
	Tags   *[]string `json:"tags"`
	Labels *[]string `json:"labels"`
}

// labelLines returns the lineForm of a source of texts with labels.
func (r Reading) labelLines(scheme labelScheme) lineForm {
	tags, rules := r.TagList(), r.recordRules()
	return lineForm{
		wanted:  fmt.Sprintf(`expected {"user": "…", "text": "…"} on every line with %s (data.label: %s)`, scheme.wanted, scheme.label),
		convert: "export its users, texts and labels as such lines",
		parse:   func(line []byte) (Record, error) { return rules.parseLabelled(line, scheme, tags) },
	}
}

// parseLabelled reads the fields of a line: the text of the record is a byte for each of its
// labels, the byte 0xFF, and the text.
func (u recordRules) parseLabelled(line []byte, scheme labelScheme, tags []string) (Record, error) {
	rec, err := u.parseText(line)
	if err != nil {
		return Record{}, err
	}
	var fields labelFields
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return Record{}, err
	}
	numbers, err := scheme.of(&fields, tags)
	if err != nil {
		return Record{}, err
	}
	rec.Text = string(numbers) + PairMark + rec.Text
	return rec, nil
}

func scoreOf(f *labelFields, _ []string) ([]byte, error) {
	const highest = models.LowestScore + models.ScoreStep*(models.Scores-1)
	switch {
	case f.Score == nil:
		return nil, unexpected(`"score" is missing`)
	case !(*f.Score >= models.LowestScore && *f.Score <= highest): // also rejects NaN
		return nil, badLine(`"score" is %g; expected a number from %d to %g`, *f.Score, models.LowestScore, highest)
	}
	return []byte{byte(math.Round((*f.Score - models.LowestScore) / models.ScoreStep))}, nil
}

func tagsOf(f *labelFields, tags []string) ([]byte, error) {
	given := f.Tags
	if given == nil {
		given = f.Labels
	}
	if given == nil {
		return nil, unexpected(`"tags" are missing`)
	}
	numbers := []byte{}
	for i, tag := range tags {
		if slices.Contains(*given, tag) {
			numbers = append(numbers, byte(i))
		}
	}
	return numbers, nil
}

// PairMark separates the two texts of a Record that is a pair. UTF-8 never contains it.
const PairMark = "\xff"

// pairLines returns the lineForm of a source of pairs.
func pairLines(rules recordRules) lineForm {
	return lineForm{
		wanted:  `expected {"user": "…", "text": "…", "target": "…"} on every line`,
		convert: "export its users, texts and their translations as such lines",
		parse:   rules.parsePair,
	}
}

// parsePair reads the fields of a line with a text and its target.
func (u recordRules) parsePair(line []byte) (Record, error) {
	rec, err := u.parseText(line)
	if err != nil {
		return Record{}, err
	}
	var fields struct {
		Target *string `json:"target"`
	}
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return Record{}, err
	}
	switch {
	case fields.Target == nil:
		return Record{}, unexpected(`"target" is missing`)
	case !u.hasWord(*fields.Target):
		return Record{}, badLine(`"target" %.40q holds no words; leave the line out or give it a text`, *fields.Target)
	}
	rec.Text += PairMark + *fields.Target
	return rec, nil
}
