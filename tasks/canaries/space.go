package canaries

import (
	"fmt"
	"strings"

	"coalmine/internal/registry"
	"coalmine/tasks/datasets"
)

// Space is the set of sequences that canaries are drawn from, each equally
// likely, and their references with them.
type Space struct {
	// Words is the length of a sequence, 1 to datasets.MaxSequence.
	Words int `json:"words"`
	// Alphabet is what random symbols are drawn from; empty for every ordinary
	// word. It has a meaning at the byte level alone.
	Alphabet Alphabet `json:"alphabet,omitempty"`
	// Format, if it is not empty, has Words bytes: Blank stands for a random symbol
	// of the alphabet, any other byte for itself.
	Format string `json:"format,omitempty"`
}

// Blank is what stands for a random symbol in a format.
const Blank = '#'

// Alphabet names a set of bytes.
type Alphabet string

// Alphabets of canaries at the byte level.
const (
	Digits    Alphabet = "digits"
	Lower     Alphabet = "lower"
	Letters   Alphabet = "letters"
	Printable Alphabet = "printable"
)

// alphabets are all alphabets there are.
var alphabets = registry.New("alphabet", func(s Symbols) Alphabet { return s.Alphabet },
	Symbols{Digits, "0 to 9", func(b byte) bool { return '0' <= b && b <= '9' }},
	Symbols{Lower, "a to z", isLower},
	Symbols{Letters, "A to Z and a to z", func(b byte) bool { return isLower(b) || 'A' <= b && b <= 'Z' }},
	Symbols{Printable, "the characters of ASCII from the space to ~", func(b byte) bool { return ' ' <= b && b <= '~' }},
)

// Symbols describes an alphabet.
type Symbols struct {
	Alphabet Alphabet
	// Summary says in one line which bytes it has.
	Summary string

	holds func(byte) bool
}

func isLower(b byte) bool { return 'a' <= b && b <= 'z' }

// Alphabets lists all alphabets.
func Alphabets() []Symbols { return alphabets.Entries() }

// Choices lists the alphabets as words of an experiment file.
func (Alphabet) Choices() []string { return alphabets.Words() }

// Holds reports whether a byte belongs to the alphabet; to an unknown one none does.
func (a Alphabet) Holds(b byte) bool {
	s, err := alphabets.Find(a)
	return err == nil && s.holds(b)
}

func (a Alphabet) tokens() []int32 {
	var tokens []int32
	for b := range datasets.Bytes {
		if a.Holds(byte(b)) {
			tokens = append(tokens, int32(datasets.FirstWord+b))
		}
	}
	return tokens
}

// Check looks for what makes a space meaningless for a model with so many
// ordinary tokens.
func (s Space) Check(ordinary int) error {
	_, unknown := alphabets.Find(s.Alphabet)
	switch {
	case s.Words < 1 || s.Words > datasets.MaxSequence:
		return fmt.Errorf("canaries of %d words; expected 1 to %d", s.Words, datasets.MaxSequence)
	case s.Alphabet == "" && s.Format != "":
		return fmt.Errorf("format %q without an alphabet; expected one of %s", s.Format, strings.Join(alphabets.Words(), ", "))
	case s.Alphabet == "":
		return nil
	case unknown != nil:
		return unknown
	case ordinary != datasets.Bytes:
		return fmt.Errorf("alphabet %s for a vocabulary of %d words; expected the %d bytes of the %s level", s.Alphabet, ordinary, datasets.Bytes, datasets.ByteLevel)
	case s.Format != "" && (len(s.Format) != s.Words || strings.IndexByte(s.Format, Blank) < 0):
		return fmt.Errorf("format %q for canaries of %d bytes; expected as many, at least one of them %q", s.Format, s.Words, Blank)
	}
	return nil
}

// Blanks is the number of random symbols of the format.
func (s Space) Blanks() int { return strings.Count(s.Format, string(Blank)) }

// DefaultPrefix is how many symbols of a canary an audit gives where nobody says
// otherwise: what stands before the first random one of the format, at least 1.
func (s Space) DefaultPrefix() int { return max(1, strings.IndexByte(s.Format, Blank)) }

// Choices lists, for each position of a sequence, the tokens that may stand
// there, ascending, out of so many ordinary ones.
func (s Space) Choices(ordinary int) [][]int32 {
	var random []int32
	if s.Alphabet != "" {
		random = s.Alphabet.tokens()
	} else {
		for w := range ordinary {
			random = append(random, int32(datasets.FirstWord+w))
		}
	}
	choices := make([][]int32, s.Words)
	for i := range choices {
		choices[i] = random
		if s.Format != "" && s.Format[i] != Blank {
			choices[i] = []int32{int32(datasets.FirstWord) + int32(s.Format[i])}
		}
	}
	return choices
}

// Sequences is the number of sequences that may follow a prefix, out of so many
// ordinary tokens.
func (s Space) Sequences(ordinary, prefix int) float64 {
	random := float64(ordinary)
	if s.Alphabet != "" {
		random = float64(len(s.Alphabet.tokens()))
	}
	n := 1.0
	for i := prefix; i < s.Words; i++ {
		if s.Format == "" || s.Format[i] == Blank {
			n *= random
		}
	}
	return n
}
