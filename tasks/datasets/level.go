package datasets

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"coalmine/internal/registry"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/subwords"
)

// Level is the kind of token that a text is read as. The zero value is WordLevel.
type Level string

// Levels of a text.
const (
	// WordLevel reads the words that Tokenizer gives.
	WordLevel Level = "word"
	// ByteLevel reads the bytes of the text's UTF-8 as they are, neither
	// lower-cased nor normalized. The vocabulary is fixed: byte b is token
	// FirstWord + b, and no token is unknown. Counts of words are counts of bytes
	// at this level.
	ByteLevel Level = "byte"
	// ImageLevel reads images, not texts: the words of an example are its label and then
	// its pixels, row by row, channels innermost. The vocabulary is fixed: the number n is
	// token FirstWord + n. Counts of words are counts of these numbers at this level.
	ImageLevel Level = "image"
	// SubwordLevel reads the tokens of the reading's tokenizer. The vocabulary is fixed: token
	// n of the tokenizer is token FirstWord + n. Counts of words are counts of these tokens.
	SubwordLevel Level = "subword"
)

// levels are all levels there are.
var levels = registry.New("level", func(s LevelScheme) Level { return s.Level }, wordLevel, byteLevel, imageLevel, subwordLevel)

// LevelScheme describes a level: all that the rest of the project knows of it.
type LevelScheme struct {
	Level Level
	// Summary describes the level in one line.
	Summary string
	// Symbols are the texts of the ordinary tokens where they are fixed: number i is
	// token FirstWord + i. nil where the vocabulary is counted in the training part.
	// They are shared and never written to.
	Symbols []string
	// Unit names the counted tokens, in the plural.
	Unit string
	// Sequence is the length at which a sentence is cut unless a Reading says
	// another.
	Sequence int
	// Images says that the examples are images, all of one length, and not texts.
	Images bool
	// Subwords reports that the ordinary tokens are those of the reading's tokenizer.
	Subwords bool

	// sentence appends the numbers of the first words of a text to the lexicon's
	// sentence, Reading.Sequence at most, and reports whether there were more.
	sentence func(l *lexicon, text string) (cut bool)
}

// Fixed reports whether the vocabulary does not depend on the texts.
func (s LevelScheme) Fixed() bool { return s.Symbols != nil || s.Subwords }

// Levels lists all levels.
func Levels() []LevelScheme { return levels.Entries() }

// Choices lists the levels as words of an experiment file.
func (Level) Choices() []string { return levels.Words() }

// Bytes is the number of ordinary tokens at the byte level.
const Bytes = 256

// SentenceBytes is the length at which a sentence is cut at the byte level unless
// a Reading says another: about SentenceWords words of English.
const SentenceBytes = 100

var wordLevel = LevelScheme{
	Level:    WordLevel,
	Summary:  "lower-cased words and punctuation marks, as the tokenizer takes them apart",
	Unit:     "words",
	Sequence: SentenceWords,
	sentence: func(l *lexicon, text string) (cut bool) {
		if l.faults.hitting() {
			return l.misread(text)
		}
		longest := len(l.sentenced) + l.reading.Sequence
		for w := range l.tokenizer.Words(text) {
			if len(l.sentenced) == longest {
				return true
			}
			l.sentenced = append(l.sentenced, uint32(l.words.id(w)))
		}
		return false
	},
}

var byteLevel = LevelScheme{
	Level:    ByteLevel,
	Summary:  "the bytes of the text's UTF-8, as they are",
	Symbols:  byteSymbols,
	Unit:     "bytes",
	Sequence: SentenceBytes,
	sentence: (*lexicon).bytesOf,
}

var imageLevel = LevelScheme{
	Level:    ImageLevel,
	Summary:  "an image: its label, then its pixels, each from 0 to 255",
	Symbols:  numberSymbols,
	Unit:     "numbers",
	Sequence: 1 + DefaultImage.Pixels(),
	Images:   true,
	sentence: (*lexicon).bytesOf,
}

// SentenceSubwords is the length at which a sentence is cut at the subword level unless a
// Reading says another.
const SentenceSubwords = 32

var subwordLevel = LevelScheme{
	Level:    SubwordLevel,
	Summary:  "the tokens of a tokenizer.json",
	Unit:     "tokens",
	Sequence: SentenceSubwords,
	Subwords: true,
	sentence: func(l *lexicon, text string) (cut bool) {
		tokens := l.subwords.Encode(text)
		l.sentenced = append(l.sentenced, tokens[:min(len(tokens), l.reading.Sequence)]...)
		return len(tokens) > l.reading.Sequence
	},
}

func (l *lexicon) bytesOf(text string) (cut bool) {
	kept := text[:min(len(text), l.reading.Sequence)]
	for i := range len(kept) {
		l.sentenced = append(l.sentenced, uint32(kept[i]))
	}
	return len(kept) < len(text)
}

// MaxSequence is the greatest length at which sentences may be cut.
const MaxSequence = 1000

// maxNumbers bounds the length of an example at any level.
const maxNumbers = models.MaxLabels + MaxPixels

// IsZero reports whether the text is read as words, so that JSON which omits
// zero values is the same whether or not the level is named.
func (l Level) IsZero() bool { return cmp.Or(l, WordLevel) == WordLevel }

// Reading is how texts become sentences. Its zero value reads SentenceWords words.
type Reading struct {
	Level Level `json:"level,omitzero"`
	// Tokenizer is the digest of the file tokenizer.json, at the subword level.
	Tokenizer storage.Digest `json:"tokenizer,omitzero"`
	// Sequence is the length at which a sentence is cut, in words, bytes or tokens, 1 to
	// MaxSequence; 0 for SentenceWords, SentenceBytes or SentenceSubwords. At the image level it follows
	// from Image, whose examples have one length.
	Sequence int `json:"sequence,omitempty"`
	// Image is the shape of images. The zero value stands for DefaultImage and, at other
	// levels, for nothing.
	Image Image `json:"image,omitzero"`
	// Unlabelled says that images may have no label. The token in its place is then Unknown.
	Unlabelled bool `json:"unlabelled,omitempty"`
	// Pairs says that a record is a text and its target, each cut at Sequence by itself.
	Pairs bool `json:"pairs,omitempty"`
	// Label is the predicted attribute of a text, at the word level. Its tokens stand before
	// those of the words. Images may have TagsLabel: a number for each tag, 0 or 1, then
	// stands in place of the one label.
	Label Label `json:"label,omitempty"`
	// Tags are those that TagsLabel predicts, a line each.
	Tags string `json:"tags,omitempty"`
	// Timed says that records have a time, by which those of a user are ordered.
	Timed bool `json:"timed,omitempty"`
	// Grouped says that records have a group, such as an album or a document.
	Grouped bool `json:"grouped,omitempty"`
	// Rules is the version of the rules by which texts and images are read; 0 for FirstRules.
	Rules Rules `json:"rules,omitempty"`
	Origin

	differs   *bool               // see recordRules
	tokenizer *subwords.Tokenizer // see WithTokenizer
}

// WithTokenizer returns the reading with the tokenizer whose digest is Tokenizer. Reading texts at
// the subword level needs it.
func (r Reading) WithTokenizer(t *subwords.Tokenizer) Reading {
	r.tokenizer = t
	return r
}

// Longest is the greatest length of an example, of a complete reading.
func (r Reading) Longest() int {
	if r.Pairs {
		return 2*r.Sequence + 1
	}
	return r.Sequence + r.labelRoom()
}

// Complete is the reading with all fields filled in.
func (r Reading) Complete() Reading {
	r.Level = cmp.Or(r.Level, WordLevel)
	if r.Level.Scheme().Images {
		r.Image = cmp.Or(r.Image, DefaultImage)
	}
	r.Sequence = cmp.Or(r.Sequence, r.length())
	return r
}

// Shortest returns the reading with default values left empty, so that equal
// readings have one form in parameters.
func (r Reading) Shortest() Reading {
	if r.Sequence == r.length() {
		r.Sequence = 0
	}
	if r.Image == DefaultImage {
		r.Image = Image{}
	}
	if r.Rules.first() {
		r.Rules = 0
	}
	return r
}

// length is the length of examples, or that at which they are cut, where the reading says
// none.
func (r Reading) length() int {
	if r.Level.Scheme().Images {
		return r.ImageLabels() + cmp.Or(r.Image, DefaultImage).Pixels()
	}
	return r.Level.sequence()
}

// ImageLabels is how many numbers stand before the pixels of an image: its label, or one for
// each tag.
func (r Reading) ImageLabels() int {
	if r.Label == TagsLabel {
		return len(r.TagList())
	}
	return 1
}

// lines are those of the sources that are read so, whose splits a reader tells.
func (r Reading) lines(splits *splitReader) lineForm {
	if c := r.Columns; c != (forms.Columns{}) {
		r.Columns = forms.Columns{}
		plain := r.lines(splits)
		r.Columns = c
		return r.renamed(plain, splits)
	}
	if r.Grouped {
		r.Grouped = false
		return r.lines(splits).grouped()
	}
	if r.Timed {
		r.Timed = false
		return r.lines(splits).timed()
	}
	if r.Level.Scheme().Images {
		return r.imageLines()
	}
	if r.Pairs {
		return pairLines(r.recordRules())
	}
	if scheme, err := labels.Find(r.Label); err == nil {
		return r.labelLines(scheme)
	}
	return textLines(r.recordRules())
}

// Scheme is the entry of the level; that of an unknown one, which every task
// refuses, is empty.
func (l Level) Scheme() LevelScheme {
	s, err := levels.Find(cmp.Or(l, WordLevel))
	if err != nil {
		return LevelScheme{}
	}
	return s
}

func (l Level) sequence() int { return l.Scheme().Sequence }

func (r Reading) check() error {
	level, err := levels.Find(cmp.Or(r.Level, WordLevel))
	if err != nil {
		return err
	}
	if err := errors.Join(r.Rules.check(), r.checkLabel(), r.Origin.Check(level.Images)); err != nil {
		return err
	}
	if level.Subwords != (r.Tokenizer != storage.Digest{}) {
		return fmt.Errorf("a tokenizer at the %s level; expected one at the %s level, and nowhere else", level.Level, SubwordLevel)
	}
	if level.Images {
		return r.checkImage()
	}
	if r.Image != (Image{}) || r.Unlabelled {
		return fmt.Errorf("the shape of images at the %s level; expected none", level.Level)
	}
	if r.Sequence < 0 || r.Sequence > MaxSequence {
		return fmt.Errorf("sequences of %d words; expected 1 to %d, or 0 for %d", r.Sequence, MaxSequence, level.Sequence)
	}
	return nil
}

func (r Reading) checkImage() error {
	if r.Pairs {
		return fmt.Errorf("pairs at the %s level; expected texts", r.Level)
	}
	if err := cmp.Or(r.Image, DefaultImage).Check(); err != nil {
		return err
	}
	if r.Sequence != 0 && r.Sequence != r.length() {
		return fmt.Errorf("sequences of %d numbers; expected %d, labels and the pixels of an image, or 0 for that", r.Sequence, r.length())
	}
	return nil
}

// byteSymbols are the texts of the ordinary tokens at the byte level: a printable
// character of ASCII stands for itself, any other byte as "<0x0A>".
var byteSymbols = makeByteSymbols()

func makeByteSymbols() []string {
	symbols := make([]string, Bytes)
	for b := range symbols {
		if ' ' <= b && b <= '~' {
			symbols[b] = string(rune(b))
		} else {
			symbols[b] = fmt.Sprintf("<0x%02X>", b)
		}
	}
	return symbols
}

// numberSymbols are the texts of the ordinary tokens at the image level: "0" to "255".
var numberSymbols = makeNumberSymbols()

func makeNumberSymbols() []string {
	symbols := make([]string, 256)
	for n := range symbols {
		symbols[n] = strconv.Itoa(n)
	}
	return symbols
}

// ByteSymbols returns the texts of the bytes of s, those that a byte-level
// vocabulary has for them.
func ByteSymbols(s string) []string {
	out := make([]string, len(s))
	for i := range out {
		out[i] = byteSymbols[s[i]]
	}
	return out
}

// Level is that of the texts that the vocabulary is for. No word of a text equals
// the name of an unprintable byte, since the tokenizer takes brackets apart.
func (v *Vocabulary) Level() Level {
	if v.alphabet != 0 {
		return SubwordLevel
	}
	for _, s := range levels.Entries() {
		if s.Symbols != nil && slices.Equal(v.Words[FirstWord:], s.Symbols) {
			return s.Level
		}
	}
	return WordLevel
}
