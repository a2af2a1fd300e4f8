package canaries

import (
	"slices"

	"coalmine/internal/registry"
	"coalmine/tasks/datasets/text"
)

// Alphabet names a set of bytes.
type Alphabet string

// Alphabets of canaries at the byte level.
const (
	Digits    Alphabet = "digits"
	Lower     Alphabet = "lower"
	Letters   Alphabet = "letters"
	Printable Alphabet = "printable"
	// Listed is the alphabet of Space.Symbols.
	Listed Alphabet = "listed"
)

// alphabets holds all alphabets.
var alphabets = registry.New("alphabet", func(s Symbols) Alphabet { return s.Alphabet },
	Symbols{Digits, "0 to 9", func(b byte) bool { return '0' <= b && b <= '9' }},
	Symbols{Lower, "a to z", isLower},
	Symbols{Letters, "A to Z and a to z", func(b byte) bool { return isLower(b) || 'A' <= b && b <= 'Z' }},
	Symbols{Printable, "the characters of ASCII from the space to ~", func(b byte) bool { return ' ' <= b && b <= '~' }},
	Symbols{Listed, "those that `symbols` lists", func(byte) bool { return false }},
)

// Symbols describes an alphabet.
type Symbols struct {
	Alphabet Alphabet
	// Summary describes the bytes in one line.
	Summary string

	holds func(byte) bool
}

func isLower(b byte) bool { return 'a' <= b && b <= 'z' }

// Alphabets lists all alphabets.
func Alphabets() []Symbols { return alphabets.Entries() }

// Choices lists the alphabets for an experiment file.
func (Alphabet) Choices() []string { return alphabets.Words() }

// Holds reports whether a byte belongs to the alphabet; always false for Listed and unknown
// alphabets.
func (a Alphabet) Holds(b byte) bool {
	s, err := alphabets.Find(a)
	return err == nil && s.holds(b)
}

// alphabet returns the distinct tokens of random bytes, ascending; nil for a space without an
// alphabet.
func (s Space) alphabet() []int32 {
	var tokens []int32
	for b := range text.Bytes {
		if s.Alphabet.Holds(byte(b)) {
			tokens = append(tokens, byteToken(byte(b)))
		}
	}
	if s.Alphabet == Listed {
		for i := range len(s.Symbols) {
			tokens = append(tokens, byteToken(s.Symbols[i]))
		}
		slices.Sort(tokens)
	}
	return slices.Compact(tokens)
}

func byteToken(b byte) int32 { return int32(text.FirstWord) + int32(b) }
