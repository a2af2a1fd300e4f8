package canaries

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/registry"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/text"
)

// Space is the set of sequences that canaries and their references are drawn from, all equally
// likely.
//
// At the byte level it has an alphabet. At the word level it has no alphabet, and its format and
// symbols name words of a vocabulary: see Resolve.
type Space struct {
	// Words is the length of a sequence, 1 to text.MaxSequence, or of a pair, to
	// text.MaxExample.
	Words int `json:"words"`
	// Alphabet is the set of bytes for random symbols; empty at the word level, and for all 256
	// bytes.
	Alphabet Alphabet `json:"alphabet,omitempty"`
	// Format, if not empty, has Words positions: bytes or, at the word level, words separated by
	// spaces. Blank stands for a random symbol; other symbols are literal.
	Format string `json:"format,omitempty"`
	// Target, if not empty, is the format of the second text of a pair; Format is that of the
	// first. If both have random symbols, these are equal, in order: the secret is in both texts.
	// Words counts both texts and the separator.
	Target string `json:"target,omitempty"`
	// Symbols are the symbols of the alphabet Listed: ASCII bytes. At the word level they are the
	// words to draw from, separated by spaces; empty means every ordinary word.
	Symbols string `json:"symbols,omitempty"`
	// SymbolBytes is the length of each of the Symbols of the alphabet Listed, if they are longer
	// than a byte: whole words for a model of bytes. Words counts all their bytes.
	SymbolBytes int `json:"symbol_bytes,omitempty"`
}

// Blank stands for a random symbol in a format.
const Blank = '#'

const blank = string(Blank)

// Markers of positions that no text contains.
const (
	// echo repeats a random symbol of the source, in the target of a pair.
	echo = "\x00echo"
	// rest is a byte of a random symbol of several bytes, after the first.
	rest = "\x00rest"
	// separator is that of a pair.
	separator = "\x00separator"
)

// String describes the space: "my number is #### over digits".
func (s Space) String() string {
	text := cmp.Or(s.Format, fmt.Sprintf("%d words", s.Words))
	if s.Target != "" {
		text += " => " + s.Target
	}
	over := string(s.Alphabet)
	switch {
	case s.WholeWords():
		over = fmt.Sprintf("%d words of %d characters", len(s.symbols()), s.SymbolBytes)
	case s.Symbols != "":
		over = s.Symbols
	}
	if over == "" {
		return text
	}
	return text + " over " + over
}

// briefSymbols is the number of listed words above which ShortString counts them.
const briefSymbols = 16

// ShortString returns String with a long list replaced by its number of words.
func (s Space) ShortString() string {
	if n := len(s.symbols()); s.Alphabet == "" && n > briefSymbols {
		s.Symbols = fmt.Sprintf("%d words", n)
	}
	return s.String()
}

// WholeWords reports whether a random symbol has several bytes, which depend on one another.
func (s Space) WholeWords() bool { return s.SymbolBytes > 1 }

// Free reports whether every position may hold every ordinary token.
func (s Space) Free() bool { return s.Alphabet == "" && !s.NamesWords() }

// NamesWords reports whether the space depends on the words of a vocabulary.
func (s Space) NamesWords() bool { return s.Alphabet == "" && (s.Format != "" || s.Symbols != "") }

// Named lists the words that a vocabulary must have, each once, in byte order.
func (s Space) Named() []string {
	if !s.NamesWords() {
		return nil
	}
	named := slices.DeleteFunc(append(s.places(), s.symbols()...), func(place string) bool {
		return isBlank(place) || place == echo || place == separator
	})
	slices.Sort(named)
	return slices.Compact(named)
}

func isBlank(place string) bool { return place == blank }

func isRandom(place string) bool { return isBlank(place) || place == rest }

// places returns the format's entry at each position; without a format, only blanks.
func (s Space) places() []string {
	if s.Format == "" {
		return s.spread(slices.Repeat([]string{blank}, max(0, s.Words)/max(1, s.SymbolBytes)))
	}
	places := s.placesOf(s.Format)
	if s.Target == "" {
		return places
	}
	target := s.placesOf(s.Target)
	if slices.Contains(places, blank) {
		for i, place := range target {
			if isRandom(place) {
				target[i] = echo
			}
		}
	}
	return slices.Concat(places, []string{separator}, target)
}

func (s Space) placesOf(format string) []string {
	if s.Alphabet == "" {
		return strings.Fields(format)
	}
	return s.spread(eachByte(format, 1))
}

// spread inserts the positions of further bytes of random symbols.
func (s Space) spread(places []string) []string {
	for i := len(places) - 1; i >= 0 && s.WholeWords(); i-- {
		if isBlank(places[i]) {
			places = slices.Insert(places, i+1, slices.Repeat([]string{rest}, s.SymbolBytes-1)...)
		}
	}
	return places
}

// Echoes reports whether the target of a pair repeats the random symbols of its source.
func (s Space) Echoes() bool { return s.Target != "" && slices.Contains(s.places(), echo) }

// CompletePair sets the tokens that the target of a pair repeats, in a sequence without its first prefix
// tokens, which precede the first random symbol. It does not change sequences of other spaces.
func (s Space) CompletePair(tokens []int32, prefix int) {
	if s.Target == "" {
		return
	}
	places, from := s.places()[prefix:], 0
	for i, place := range places {
		if place == echo {
			from += slices.IndexFunc(places[from:], isRandom)
			tokens[i] = tokens[from]
			from++
		}
	}
}

// Longest returns the length of a sequence or, for a pair, of the longer text.
func (s Space) Longest() int {
	if s.Target == "" {
		return s.Words
	}
	return max(s.SourceWords()-1, s.Words-s.SourceWords())
}

// SourceWords returns the number of symbols before the target of a pair, including the separator; 0
// if the space has no pairs.
func (s Space) SourceWords() int {
	if s.Target == "" {
		return 0
	}
	return slices.Index(s.places(), separator) + 1
}

func (s Space) symbols() []string {
	if s.Alphabet == "" {
		return strings.Fields(s.Symbols)
	}
	return eachByte(s.Symbols, max(1, s.SymbolBytes))
}

func eachByte(text string, n int) (pieces []string) {
	for piece := range slices.Chunk([]byte(text), n) {
		pieces = append(pieces, string(piece))
	}
	return pieces
}

// Check returns an error if the space is meaningless for a model with the given number of ordinary
// tokens. Resolve checks that its words are among these tokens.
func (s Space) Check(ordinary int) error {
	longest := text.MaxSequence
	if s.Target != "" {
		longest = text.MaxExample
	}
	if s.Words < 1 || s.Words > longest {
		return fmt.Errorf("canaries of %d words; expected 1 to %d", s.Words, longest)
	}
	if s.Alphabet != "" {
		if _, err := alphabets.Find(s.Alphabet); err != nil {
			return err
		}
		if ordinary != text.Bytes {
			return fmt.Errorf("alphabet %s for a vocabulary of %d words; expected the %d bytes of the %s level", s.Alphabet, ordinary, text.Bytes, text.ByteLevel)
		}
	}
	if places := s.places(); len(places) != s.Words || !slices.Contains(places, blank) {
		return fmt.Errorf("format %q for canaries of %d %s; expected as many, at least one of them %q", s.Format, s.Words, s.unit(), Blank)
	}
	if err := s.CheckTarget(); err != nil {
		return err
	}
	return s.CheckSymbols()
}

// CheckTarget checks only the texts of a pair.
func (s Space) CheckTarget() error {
	if s.Target == "" {
		return nil
	}
	source, target := blanks(s.placesOf(s.Format)), blanks(s.placesOf(s.Target))
	switch {
	case s.Format == "":
		return fmt.Errorf("target %q without the format of a source; give both", s.Target)
	case source > 0 && source != target:
		return fmt.Errorf("format %q has %d random symbols and its target %q has %d; expected an equal number, or none in the format", s.Format, source, s.Target, target)
	}
	return nil
}

func blanks(places []string) int {
	return len(places) - len(slices.DeleteFunc(slices.Clone(places), isBlank))
}

func (s Space) unit() string {
	if s.Alphabet == "" {
		return "words"
	}
	return "bytes"
}

// CheckSymbols checks only the listed symbols: there must be at least two, all distinct.
func (s Space) CheckSymbols() error {
	listed := s.symbols()
	switch {
	case s.Alphabet == Listed && len(listed) == 0:
		return fmt.Errorf("alphabet %s without symbols; list them", Listed)
	case s.Alphabet != "" && s.Alphabet != Listed && len(listed) > 0:
		return fmt.Errorf("symbols %q beside the alphabet %s; give one of them", s.Symbols, s.Alphabet)
	case len(listed) == 1:
		return fmt.Errorf("one symbol, %q; expected at least two, so that there is something to find", s.Symbols)
	case s.SymbolBytes != 0 && (s.Alphabet != Listed || !s.WholeWords() || len(s.Symbols)%s.SymbolBytes != 0):
		return fmt.Errorf("symbols %q of %d bytes each, of the alphabet %q; expected whole ones of 2 bytes or more, and the alphabet %s", s.Symbols, s.SymbolBytes, s.Alphabet, Listed)
	}
	seen := map[string]bool{}
	for _, symbol := range listed {
		switch {
		case seen[symbol]:
			return fmt.Errorf("symbol %q is listed twice; expected each once, so that all are equally likely", symbol)
		case s.Alphabet == Listed && strings.ContainsFunc(symbol, notASCII):
			return fmt.Errorf("symbols %q have the byte 0x%X; expected characters of ASCII, which are one byte each", s.Symbols, symbol[strings.IndexFunc(symbol, notASCII)])
		case s.Alphabet == "" && symbol == blank:
			return fmt.Errorf("symbol %q stands for a random word of the format; expected words", symbol)
		}
		seen[symbol] = true
	}
	return nil
}

func notASCII(r rune) bool { return r > '~' }

// Blanks returns the number of random symbols of the format; 0 without a format.
func (s Space) Blanks() int {
	if s.Format == "" {
		return 0
	}
	return blanks(s.places())
}

// LastBlank returns the position of the last random symbol.
func (s Space) LastBlank() int {
	places := s.places()
	for i, place := range slices.Backward(places) {
		if isBlank(place) {
			return i
		}
	}
	return -1
}

// DefaultPrefix returns the default length of the prefix in audits: the symbols before the first
// random symbol of the format, at least one.
func (s Space) DefaultPrefix() int {
	if n := slices.Index(s.places(), blank); n > 0 {
		return n
	}
	return max(1, s.SymbolBytes)
}

// FixesPrefix reports whether all sequences have the same first n symbols.
func (s Space) FixesPrefix(n int) bool { return !slices.Contains(s.places()[:n], blank) }

// Cuts reports whether a prefix of n bytes ends within a random symbol.
func (s Space) Cuts(n int) bool { return s.places()[n] == rest }

// Choices lists the possible tokens at each position of a sequence, ascending, out of the given number of
// ordinary tokens. It is for spaces that name no words. CompletePair sets the repetitions of a target. If
// symbols are whole words, not every sequence of these tokens is in the space: see Sampler.
func (s Space) Choices(ordinary int) [][]int32 {
	r := s.resolved(func(place string) int32 { return byteToken(place[0]) })
	r.Random = s.alphabet()
	return r.Choices(ordinary)
}

// Phrase returns the phrase of the canaries, to search for in data without canaries; empty if
// canaries may be any text, are pairs, or have whole words as symbols.
func (s Space) Phrase() (p datasets.Phrase) {
	if s.Free() || s.Target != "" || s.WholeWords() {
		return p
	}
	p.Fixed = s.places()
	for i, place := range p.Fixed {
		if isBlank(place) {
			p.Fixed[i] = ""
		}
	}
	if s.Alphabet == "" {
		p.Random = s.symbols()
	}
	for _, token := range s.alphabet() {
		p.Random = append(p.Random, string([]byte{byte(token - text.FirstWord)}))
	}
	return p
}

// Sequences returns the number of sequences that may follow a prefix, given the number of ordinary
// tokens.
func (s Space) Sequences(ordinary, prefix int) float64 {
	random := float64(ordinary)
	switch {
	case s.Symbols != "":
		random = float64(len(s.symbols()))
	case s.Alphabet != "":
		random = float64(len(s.alphabet()))
	}
	n := 1.0
	for _, place := range s.places()[min(prefix, s.Words):] {
		if isBlank(place) {
			n *= random
		}
	}
	return n
}

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
