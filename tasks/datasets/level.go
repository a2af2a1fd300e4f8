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

// Level is the kind of token that a text is divided into. The zero value is WordLevel.
type Level string

// Levels of a text.
const (
	// WordLevel reads the words of Tokenizer.
	WordLevel Level = "word"
	// ByteLevel reads the bytes of the text's UTF-8, neither lower-cased nor normalized. The
	// vocabulary is fixed: byte b is token FirstWord + b, and no token is unknown. Counts of words
	// are counts of bytes at this level.
	ByteLevel Level = "byte"
	// ImageLevel reads images, not texts: the words of an example are its label and then
	// its pixels, row by row, channels innermost. The vocabulary is fixed: the number n is
	// token FirstWord + n. Counts of words are counts of these numbers at this level.
	ImageLevel Level = "image"
	// SubwordLevel reads the tokens of the reading's tokenizer. The vocabulary is fixed: token
	// n of the tokenizer is token FirstWord + n. Counts of words are counts of these tokens.
	SubwordLevel Level = "subword"
)

// levels holds all levels.
var levels = registry.New("level", func(s LevelScheme) Level { return s.Level }, wordLevel, byteLevel, imageLevel, subwordLevel)

// LevelScheme describes a level.
type LevelScheme struct {
	Level Level
	// Summary describes the level in one line.
	Summary string
	// Symbols are the texts of the ordinary tokens if they are fixed: number i is token FirstWord +
	// i. nil if the vocabulary comes from the training part. They are shared and must not be
	// modified.
	Symbols []string
	// Unit names the counted tokens, in the plural.
	Unit string
	// Sequence is the default length at which a Reading cuts sentences.
	Sequence int
	// Images reports that the examples are images, all of one length, instead of texts.
	Images bool
	// Subwords reports that the ordinary tokens are the tokens of the reading's tokenizer.
	Subwords bool

	// sentence appends the numbers of the first words of a text to the lexicon's sentence, at most
	// Reading.Sequence, and reports whether there were more.
	sentence func(l *lexicon, text string) (cut bool)
}

// Fixed reports whether the vocabulary is independent of the texts.
func (s LevelScheme) Fixed() bool { return s.Symbols != nil || s.Subwords }

// Levels lists all levels.
func Levels() []LevelScheme { return levels.Entries() }

// Choices lists the levels for an experiment file.
func (Level) Choices() []string { return levels.Words() }

// Bytes is the number of ordinary tokens at the byte level.
const Bytes = 256

// SentenceBytes is the default length of sentences at the byte level: about SentenceWords words of
// English.
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

// SentenceSubwords is the default length of sentences at the subword level.
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

// MaxSequence is the largest length at which sentences are cut.
const MaxSequence = 1000

const maxNumbers = models.MaxLabels + MaxPixels

// IsZero reports whether the text is read as words, so that JSON that omits zero values is the same
// with WordLevel and with the empty value.
func (l Level) IsZero() bool { return cmp.Or(l, WordLevel) == WordLevel }

// Reading describes the conversion of texts to sentences. Its zero value reads SentenceWords words.
type Reading struct {
	Level Level `json:"level,omitzero"`
	// Tokenizer is the digest of the file tokenizer.json, at the subword level.
	Tokenizer storage.Digest `json:"tokenizer,omitzero"`
	// Sequence is the length at which a sentence is cut, in words, bytes or tokens, 1 to
	// MaxSequence; 0 means SentenceWords, SentenceBytes or SentenceSubwords. At the image level it
	// follows from Image.
	Sequence int `json:"sequence,omitempty"`
	// Image is the shape of images. The zero value means DefaultImage; other levels have none.
	Image Image `json:"image,omitzero"`
	// Unlabelled allows images without a label, with Unknown as its token.
	Unlabelled bool `json:"unlabelled,omitempty"`
	// Pairs reports that a record is a text and its target, each cut separately at Sequence.
	Pairs bool `json:"pairs,omitempty"`
	// Label is the predicted attribute of a text, at the word level. Its tokens precede those of
	// the words. Images may have TagsLabel: a number for each tag, 0 or 1, instead of one label.
	Label Label `json:"label,omitempty"`
	// Tags are the tags that TagsLabel predicts, one per line.
	Tags string `json:"tags,omitempty"`
	// Timed reports that records have a time, which orders the records of a user.
	Timed bool `json:"timed,omitempty"`
	// Grouped reports that records have a group, such as an album or a document.
	Grouped bool `json:"grouped,omitempty"`
	// Rules is the version of the rules for reading texts and images; 0 means FirstRules.
	Rules Rules `json:"rules,omitempty"`
	Origin

	differs   *bool               // see recordRules
	tokenizer *subwords.Tokenizer // see WithTokenizer
}

// WithTokenizer returns the reading with the tokenizer of digest Tokenizer. Reading texts at the
// subword level needs it.
func (r Reading) WithTokenizer(t *subwords.Tokenizer) Reading {
	r.tokenizer = t
	return r
}

// Longest returns the largest length of an example, for a complete reading.
func (r Reading) Longest() int {
	if r.Pairs {
		return 2*r.Sequence + 1
	}
	return r.Sequence + r.labelRoom()
}

// Complete returns the reading with defaults filled in.
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

// length returns the default length of examples, or the default length at which they are cut.
func (r Reading) length() int {
	if r.Level.Scheme().Images {
		return r.ImageLabels() + cmp.Or(r.Image, DefaultImage).Pixels()
	}
	return r.Level.Scheme().Sequence
}

// ImageLabels returns the count of numbers before the pixels of an image: one label, or one per
// tag.
func (r Reading) ImageLabels() int {
	if r.Label == TagsLabel {
		return len(r.TagList())
	}
	return 1
}

// lines returns the lineForm of sources with this reading. splits determines their splits.
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

// Scheme returns the entry of the level; empty for an unknown level, which every task rejects.
func (l Level) Scheme() LevelScheme {
	s, err := levels.Find(cmp.Or(l, WordLevel))
	if err != nil {
		return LevelScheme{}
	}
	return s
}

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

// byteSymbols are the texts of the ordinary tokens at the byte level: a printable ASCII character
// is itself, any other byte is written as "<0x0A>".
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

// ByteSymbols returns the texts of the bytes of s in a byte-level vocabulary.
func ByteSymbols(s string) []string {
	out := make([]string, len(s))
	for i := range out {
		out[i] = byteSymbols[s[i]]
	}
	return out
}

// Level returns the level of the vocabulary. No word of a text equals the name of an unprintable
// byte, because the tokenizer separates brackets.
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
