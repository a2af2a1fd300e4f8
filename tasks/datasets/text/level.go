package text

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"coalmine/internal/lists"
	"coalmine/internal/registry"
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
	// Images reports whether the examples are images, all of one length, instead of texts.
	Images bool
	// Subwords reports whether the ordinary tokens are the tokens of the reading's tokenizer.
	Subwords bool
}

// Fixed reports whether the vocabulary is independent of the texts.
func (s LevelScheme) Fixed() bool { return s.Symbols != nil || s.Subwords }

func Levels() []LevelScheme { return levels.Entries() }

// Choices lists the levels for an experiment file.
func (Level) Choices() []string { return levels.Words() }

// Bytes is the number of ordinary tokens at the byte level.
const Bytes = 256

// SentenceBytes is the default length of sentences at the byte level: about SentenceWords words of
// English.
const SentenceBytes = 100

// SentenceSubwords is the default length of sentences at the subword level.
const SentenceSubwords = 32

// levels holds all levels.
var levels = registry.New("level", func(s LevelScheme) Level { return s.Level },
	LevelScheme{
		Level:    WordLevel,
		Summary:  "lower-cased words and punctuation marks, as the tokenizer takes them apart",
		Unit:     "words",
		Sequence: SentenceWords,
	},
	LevelScheme{
		Level:    ByteLevel,
		Summary:  "the bytes of the text's UTF-8, as they are",
		Symbols:  byteSymbols,
		Unit:     "bytes",
		Sequence: SentenceBytes,
	},
	LevelScheme{
		Level:    ImageLevel,
		Summary:  "an image: its label, then its pixels, each from 0 to 255",
		Symbols:  numberSymbols,
		Unit:     "numbers",
		Sequence: 1 + 28*28, // of an image of the default shape
		Images:   true,
	},
	LevelScheme{
		Level:    SubwordLevel,
		Summary:  "the tokens of a tokenizer.json",
		Unit:     "tokens",
		Sequence: SentenceSubwords,
		Subwords: true,
	},
)

// IsZero reports whether the text is read as words, so that JSON that omits zero values is the same
// with WordLevel and with the empty value.
func (l Level) IsZero() bool { return cmp.Or(l, WordLevel) == WordLevel }

func (l Level) Check() error {
	_, err := levels.Find(cmp.Or(l, WordLevel))
	return err
}

// Scheme returns the entry of the level; empty for an unknown level, which every task rejects.
func (l Level) Scheme() LevelScheme {
	s, _ := levels.Find(cmp.Or(l, WordLevel)) // empty with an error
	return s
}

// byteSymbols are the texts of the ordinary tokens at the byte level: a printable ASCII character
// is itself, any other byte is written as "<0x0A>".
var byteSymbols = lists.Make(Bytes, func(b int) string {
	if ' ' <= b && b <= '~' {
		return string(rune(b))
	}
	return fmt.Sprintf("<0x%02X>", b)
})

// numberSymbols are the texts of the ordinary tokens at the image level: "0" to "255".
var numberSymbols = lists.Make(256, strconv.Itoa)

// ByteSymbols returns the texts of the bytes of s in a byte-level vocabulary.
func ByteSymbols(s string) []string {
	return lists.Map([]byte(s), func(b byte) string { return byteSymbols[b] })
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
