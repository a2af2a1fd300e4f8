// Package faults plants faults of a data pipeline in the records of a source, to test whether an
// experiment finds them (Augenstein et al. 2020, sections 5 and 6).
package faults

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/internal/registry"
	"coalmine/internal/seeds"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
)

// Name is the name of a fault.
type Name string

// Faults that can be planted.
const (
	JoinWords Name = "join-words"
	KeepCase  Name = "keep-case"
	Latin1    Name = "latin-1"
	Truncate  Name = "truncate"

	Invert      Name = "invert"
	Blank       Name = "blank"
	ShiftLabels Name = "shift-labels"
)

// Scheme describes a fault to the rest of the project. One of the functions below applies it;
// an example counts as faulty even if the function leaves it unchanged.
type Scheme struct {
	Fault Name
	// Summary describes the fault in one line.
	Summary string
	// Levels are the levels that support the fault.
	Levels []text.Level

	// text returns the replacement of a text that has a word; the replacement has a word too. first
	// reports that texts are read by FirstRules.
	text func(p *Planted, text string, first bool) string
	// keepsCase stops the tokenizer from lower-casing.
	keepsCase bool
	// words returns the replacement of the words of a text, at least one. It may use their memory.
	words func(words []string) (faulty []string, changed bool)
	// image changes an image of the shape: its label, a byte, and the pixels after it.
	image func(shape images.Shape, example []byte)
}

var schemes = registry.New("fault", func(s Scheme) Name { return s.Fault },
	Scheme{
		Fault:   JoinWords,
		Summary: "the first two words of a sentence become one with a space in it",
		Levels:  []text.Level{text.WordLevel},
		words:   joinWords,
	},
	Scheme{
		Fault:     KeepCase,
		Summary:   "the tokenizer leaves capital letters as they are",
		Levels:    []text.Level{text.WordLevel},
		keepsCase: true,
	},
	Scheme{
		Fault:   Latin1,
		Summary: "the bytes of the text's UTF-8 are taken for characters of Latin-1",
		Levels:  []text.Level{text.WordLevel, text.ByteLevel},
		text:    func(_ *Planted, text string, _ bool) string { return asLatin1(text) },
	},
	Scheme{
		Fault:   Truncate,
		Summary: "a longer text is cut after `length` characters, counted from its first visible one, also within a word",
		Levels:  []text.Level{text.WordLevel, text.ByteLevel},
		text:    func(p *Planted, text string, first bool) string { return truncate(text, p.Length, first) },
	},
	Scheme{
		Fault:   Invert,
		Summary: "every pixel p is 255 - p: black is white, and white black",
		Levels:  []text.Level{text.ImageLevel},
		image:   func(_ images.Shape, example []byte) { invert(example[1:]) },
	},
	Scheme{
		Fault:   Blank,
		Summary: "every pixel is 0",
		Levels:  []text.Level{text.ImageLevel},
		image:   func(_ images.Shape, example []byte) { clear(example[1:]) },
	},
	Scheme{
		Fault:   ShiftLabels,
		Summary: "a label is the next one, and the last the first",
		Levels:  []text.Level{text.ImageLevel},
		image:   func(shape images.Shape, example []byte) { example[0] = byte((int(example[0]) + 1) % shape.Classes) },
	},
)

func invert(pixels []byte) {
	for i, p := range pixels {
		pixels[i] = math.MaxUint8 - p
	}
}

// All lists all faults.
func All() []Scheme { return schemes.Entries() }

// Choices lists the faults for an experiment file.
func (Name) Choices() []string { return schemes.Words() }

// joinWords joins the first two words (Augenstein et al. 2020, section 5).
func joinWords(words []string) (faulty []string, changed bool) {
	if len(words) < 2 {
		return words, false
	}
	words[1] = words[0] + " " + words[1]
	return words[1:], true
}

// asLatin1 reads the bytes of a text as Latin-1. The result has a word if the text has one: the
// first byte of every character beyond ASCII becomes a visible character.
func asLatin1(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return text
	}
	return string(lists.Map([]byte(text), func(b byte) rune { return rune(b) }))
}

// truncate keeps the given number of characters of a longer text, beginning with the
// first that starts a word.
func truncate(content string, length int, first bool) string {
	if utf8.RuneCountInString(content) <= length {
		return content
	}
	content = text.TrimLeft(content, first)
	for at := range content {
		if length--; length < 0 {
			return content[:at]
		}
	}
	return content
}

// Planted is a fault planted in a part of a source. At least one of the shares is given; with both,
// the fault hits the share of examples of the share of users.
type Planted struct {
	Fault Name `json:"fault"`
	// Users is the share of the users with the fault, above 0 and at most 1, each by its own coin;
	// 0 means every user. Without a share of examples, all examples of these users are hit.
	Users float64 `json:"users,omitempty"`
	// Examples is the share of the examples with the fault, likewise.
	Examples float64 `json:"examples,omitempty"`
	// Length is the length to which Truncate cuts, in characters; 0 with other faults.
	Length int `json:"length,omitempty"`
}

func (p *Planted) check(level text.Level) error {
	scheme, err := schemes.Find(p.Fault)
	if err != nil {
		return err
	}
	errs := []error{checkFaultShare(p.Fault, "users", p.Users), checkFaultShare(p.Fault, "examples", p.Examples)}
	if level = cmp.Or(level, text.WordLevel); !slices.Contains(scheme.Levels, level) {
		errs = append(errs, fmt.Errorf("fault %s at the %s level; expected one of the levels %v", p.Fault, level, scheme.Levels))
	}
	if p.Users == 0 && p.Examples == 0 {
		errs = append(errs, fmt.Errorf("fault %s has no share; expected one of the users or of the examples", p.Fault))
	}
	if truncates := p.Fault == Truncate; truncates != (p.Length > 0) || p.Length < 0 {
		errs = append(errs, fmt.Errorf("fault %s with a length of %d; expected at least 1 with %s and 0 with others", p.Fault, p.Length, Truncate))
	}
	return errors.Join(errs...)
}

func checkFaultShare(fault Name, unit string, share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("fault %s hits a share %v of the %s; expected above 0 and at most 1, or 0 where it is not given", fault, share, unit)
	}
	return nil
}

// Count counts the occurrences of a planted fault.
type Count struct {
	Fault Name `json:"fault"`
	// Users and Examples count the users and examples of the source with the fault, in all parts
	// together.
	Users    int `json:"users"`
	Examples int `json:"examples"`
	// Changed counts the examples that the fault has changed: a sentence of one word has no two
	// words to join. Several faults apply in order, each to the result of earlier faults.
	Changed int `json:"changed"`
}

func (f Count) String() string {
	return fmt.Sprintf("fault %s was planted in %s of %s and changed %d of them", f.Fault, readable.Count(f.Examples, "example"), readable.Count(f.Users, "user"), f.Changed)
}

// Params lists the faults to plant in a source.
type Params struct {
	// Faults are in the order of application: to the text, then in the tokenizer, then to the words.
	Faults []Planted `json:"faults,omitempty"`
	// FaultSeed draws the users and examples, 0 without faults.
	FaultSeed uint64 `json:"fault_seed,omitempty"`
}

func (p Params) Check(level text.Level) error {
	return errors.Join(lists.Map(p.Faults, func(f Planted) error { return f.check(level) })...)
}

func (p Params) Equal(o Params) bool {
	return p.FaultSeed == o.FaultSeed && slices.Equal(p.Faults, o.Faults)
}

// Planter draws the faults of the examples of a source, one after another.
type Planter struct {
	plants []plant
	hits   []*plant // faults of the current example, in order
	First  bool     // read texts by FirstRules
}

// plant is the state of one fault.
type plant struct {
	Planted
	scheme       Scheme
	users, coins *rand.Rand
	faulty       []bool // by user: drawn
	reached      []bool // by user: an example was hit
	found        Count
}

// NewPlanter returns the planter of valid faults.
func NewPlanter(p Params) *Planter {
	plants := make([]plant, len(p.Faults))
	for i, f := range p.Faults {
		scheme, _ := schemes.Find(f.Fault)
		plants[i] = plant{
			Planted: f, scheme: scheme, found: Count{Fault: f.Fault},
			users: seeds.Stream(p.FaultSeed, seeds.FaultyUsers, uint64(i)),
			coins: seeds.Stream(p.FaultSeed, seeds.FaultyExamples, uint64(i)),
		}
	}
	return &Planter{plants: plants}
}

// Next draws the faults of the next example of the source. Users are numbered in order of first
// appearance.
func (p *Planter) Next(user int) {
	p.hits = p.hits[:0]
	for i := range p.plants {
		if f := &p.plants[i]; f.hit(user) {
			p.hits = append(p.hits, f)
		}
	}
}

// Hitting reports whether a fault hits the current example; false for a nil planter.
func (p *Planter) Hitting() bool { return p != nil && len(p.hits) > 0 }

// hit draws one number for each user and each example regardless of the outcome, so
// that a larger share hits every example that a smaller one hits.
func (f *plant) hit(user int) bool {
	if user == len(f.faulty) {
		f.faulty, f.reached = append(f.faulty, f.Users == 0 || f.users.Float64() < f.Users), append(f.reached, false)
	}
	drawn := f.Examples == 0 || f.coins.Float64() < f.Examples
	if !f.faulty[user] || !drawn {
		return false
	}
	if !f.reached[user] {
		f.reached[user] = true
		f.found.Users++
	}
	f.found.Examples++
	return true
}

// Text applies the faults that hit the example to its text.
func (p *Planter) Text(text string) string {
	for _, f := range p.hits {
		if f.scheme.text == nil {
			continue
		}
		faulty := f.scheme.text(&f.Planted, text, p.First)
		f.count(faulty != text)
		text = faulty
	}
	return text
}

// Image applies the faults that hit the example to an image: to its label, if it has one, and to
// its pixels.
func (p *Planter) Image(shape images.Shape, unlabelled bool, text string) string {
	for _, f := range p.hits {
		if f.scheme.image == nil {
			continue
		}
		example := []byte(text)
		f.scheme.image(shape, example)
		if unlabelled {
			example[0] = text[0]
		}
		f.count(string(example) != text)
		text = string(example)
	}
	return text
}

// KeepsCase reports whether the tokenizer keeps the capital letters of a text.
func (p *Planter) KeepsCase(text string) bool {
	keeps := false
	for _, f := range p.hits {
		if f.scheme.keepsCase {
			keeps = true
			f.count(strings.IndexFunc(text, func(r rune) bool { return unicode.ToLower(r) != r }) >= 0)
		}
	}
	return keeps
}

// Words applies the faults that hit the example to its words.
func (p *Planter) Words(words []string) []string {
	for _, f := range p.hits {
		if f.scheme.words == nil {
			continue
		}
		var changed bool
		words, changed = f.scheme.words(words)
		f.count(changed)
	}
	return words
}

func (f *plant) count(changed bool) {
	if changed {
		f.found.Changed++
	}
}

// Found returns the counts of planted faults; nil without faults.
func (p *Planter) Found() []Count {
	var found []Count
	for i := range p.plants {
		found = append(found, p.plants[i].found)
	}
	return found
}
