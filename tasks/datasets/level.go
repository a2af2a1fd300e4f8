package datasets

import (
	"cmp"
	"fmt"
	"slices"
)

// Level says what a text is read as. The zero value is WordLevel.
type Level string

// Levels of a text.
const (
	// WordLevel reads the words that Tokenizer gives.
	WordLevel Level = "word"
	// ByteLevel reads the bytes of the text's UTF-8 as they are, neither
	// lower-cased nor normalized. The vocabulary is fixed: byte b is token
	// FirstWord + b, and no token is unknown. What is counted in words at the word
	// level is counted in bytes.
	ByteLevel Level = "byte"
)

// Bytes is the number of ordinary tokens at the byte level.
const Bytes = 256

// SentenceBytes is the length at which a sentence is cut at the byte level unless
// a Reading says another: about SentenceWords words of English.
const SentenceBytes = 100

// MaxSequence is the greatest length at which sentences may be cut.
const MaxSequence = 1000

// IsZero reports whether the text is read as words, so that JSON which omits
// zero values is the same whether or not the level is named.
func (l Level) IsZero() bool { return cmp.Or(l, WordLevel) == WordLevel }

// Reading is how texts become sentences. Its zero value reads SentenceWords words.
type Reading struct {
	Level Level `json:"level,omitzero"`
	// Sequence is the length at which a sentence is cut, in words or bytes, 1 to
	// MaxSequence; 0 for SentenceWords or SentenceBytes.
	Sequence int `json:"sequence,omitempty"`
}

// Complete is the reading with both fields filled in.
func (r Reading) Complete() Reading {
	r.Level = cmp.Or(r.Level, WordLevel)
	r.Sequence = cmp.Or(r.Sequence, r.Level.sequence())
	return r
}

// Shortest is the reading with what is the default left to it, so that equal
// readings have one form in parameters.
func (r Reading) Shortest() Reading {
	if r.Sequence == r.Level.sequence() {
		r.Sequence = 0
	}
	return r
}

func (l Level) sequence() int {
	if l == ByteLevel {
		return SentenceBytes
	}
	return SentenceWords
}

func (r Reading) check() error {
	switch {
	case !r.Level.IsZero() && r.Level != ByteLevel:
		return fmt.Errorf("level %q; expected %q or %q", r.Level, WordLevel, ByteLevel)
	case r.Sequence < 0 || r.Sequence > MaxSequence:
		return fmt.Errorf("sequences of %d words; expected 1 to %d, or 0 for %d", r.Sequence, MaxSequence, r.Level.sequence())
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
	if slices.Equal(v.Words[FirstWord:], byteSymbols) {
		return ByteLevel
	}
	return WordLevel
}
