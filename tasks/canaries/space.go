package canaries

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"coalmine/tasks/datasets"
)

// Space is the set of sequences that canaries are drawn from, each equally
// likely, and their references with them.
//
// At the byte level it has an alphabet. At the word level it has none, and its
// format and its symbols name words of a vocabulary: see Resolve.
type Space struct {
	// Words is the length of a sequence, 1 to datasets.MaxSequence; of a pair to
	// datasets.MaxExample.
	Words int `json:"words"`
	// Alphabet holds the bytes that random symbols are drawn from; empty at the word
	// level, and for all 256.
	Alphabet Alphabet `json:"alphabet,omitempty"`
	// Format, if it is not empty, has Words places: bytes or, at the word level, words
	// with a space between. Blank stands for a random symbol, any other for itself.
	Format string `json:"format,omitempty"`
	// Target, if it is not empty, is the format of the second text of a pair, Format that
	// of the first. Where both have random symbols, they hold the same ones, in order: the
	// secret stands in both texts. Words counts both, and the separator.
	Target string `json:"target,omitempty"`
	// Symbols are those of the alphabet Listed: bytes of ASCII. At the word level they
	// are the words that a random one is drawn from, with a space between; empty for
	// every ordinary word.
	Symbols string `json:"symbols,omitempty"`
	// SymbolBytes is the length of each of the Symbols of the alphabet Listed, where they are
	// longer than a byte: whole words for a model of bytes. Words counts all their bytes.
	SymbolBytes int `json:"symbol_bytes,omitempty"`
}

// Blank stands for a random symbol in a format.
const Blank = '#'

const blank = string(Blank)

// Places that no text has.
const (
	// echo repeats a random symbol of the source, in the target of a pair.
	echo = "\x00echo"
	// rest is a byte of a random symbol of several bytes, after the first.
	rest = "\x00rest"
	// separator is that of a pair.
	separator = "\x00separator"
)

// String names the space for people: "my number is #### over digits".
func (s Space) String() string {
	what := cmp.Or(s.Format, fmt.Sprintf("%d words", s.Words))
	if s.Target != "" {
		what += " => " + s.Target
	}
	over := string(s.Alphabet)
	switch {
	case s.WholeWords():
		over = fmt.Sprintf("%d words of %d characters", len(s.symbols()), s.SymbolBytes)
	case s.Symbols != "":
		over = s.Symbols
	}
	if over == "" {
		return what
	}
	return what + " over " + over
}

// briefSymbols is the number of listed words above which Brief counts them.
const briefSymbols = 16

// Brief returns String with the number of words in place of a long list.
func (s Space) Brief() string {
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

// places holds the format's entry at each position; without a format, blanks alone.
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

// placesOf are those of one text.
func (s Space) placesOf(format string) []string {
	if s.Alphabet == "" {
		return strings.Fields(format)
	}
	return s.spread(eachByte(format, 1))
}

// spread makes room for the further bytes of random symbols.
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

// Echo sets the tokens that the target of a pair repeats, in a sequence without its
// first prefix tokens, all of which stand before the first random symbol. Sequences of
// other spaces stay as they are.
func (s Space) Echo(tokens []int32, prefix int) {
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

// Longest is the length of a sequence; of a pair, that of the longer text.
func (s Space) Longest() int {
	if s.Target == "" {
		return s.Words
	}
	return max(s.SourceWords()-1, s.Words-s.SourceWords())
}

// SourceWords is the number of symbols before the target of a pair, the separator among
// them; 0 if the space has no pairs.
func (s Space) SourceWords() int {
	if s.Target == "" {
		return 0
	}
	return slices.Index(s.places(), separator) + 1
}

// symbols holds the result of Symbols.
func (s Space) symbols() []string {
	if s.Alphabet == "" {
		return strings.Fields(s.Symbols)
	}
	return eachByte(s.Symbols, max(1, s.SymbolBytes))
}

// eachByte cuts a text into pieces of n bytes.
func eachByte(text string, n int) (pieces []string) {
	for piece := range slices.Chunk([]byte(text), n) {
		pieces = append(pieces, string(piece))
	}
	return pieces
}

// Check returns an error if the space is meaningless for a model with the given
// number of ordinary tokens. Resolve checks that the words it names are among
// them.
func (s Space) Check(ordinary int) error {
	longest := datasets.MaxSequence
	if s.Target != "" {
		longest = datasets.MaxExample
	}
	if s.Words < 1 || s.Words > longest {
		return fmt.Errorf("canaries of %d words; expected 1 to %d", s.Words, longest)
	}
	if s.Alphabet != "" {
		if _, err := alphabets.Find(s.Alphabet); err != nil {
			return err
		}
		if ordinary != datasets.Bytes {
			return fmt.Errorf("alphabet %s for a vocabulary of %d words; expected the %d bytes of the %s level", s.Alphabet, ordinary, datasets.Bytes, datasets.ByteLevel)
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

// CheckTarget looks at the texts of a pair alone.
func (s Space) CheckTarget() error {
	if s.Target == "" {
		return nil
	}
	source, target := blanks(s.placesOf(s.Format)), blanks(s.placesOf(s.Target))
	switch {
	case s.Format == "":
		return fmt.Errorf("target %q without the format of a source; give both", s.Target)
	case source > 0 && source != target:
		return fmt.Errorf("format %q has %d random symbols and its target %q has %d; expected as many, which repeat those of the format, or none in the format", s.Format, source, s.Target, target)
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

// CheckSymbols looks at the listed symbols alone: there must be two at least, each
// once.
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

// Blanks is the number of random symbols of the format; 0 without one.
func (s Space) Blanks() int {
	if s.Format == "" {
		return 0
	}
	return blanks(s.places())
}

// LastBlank is the position of the last random symbol.
func (s Space) LastBlank() int {
	places := s.places()
	for i, place := range slices.Backward(places) {
		if isBlank(place) {
			return i
		}
	}
	return -1
}

// DefaultPrefix is the default number of a canary's symbols that an audit gives: those
// before the first random one of the format, at least one.
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

// Choices lists, for each position of a sequence, the tokens that may stand there,
// ascending, out of the given number of ordinary ones. It is for spaces that name no
// words. Echo sets the repetitions of a target. Where symbols are whole words, not every
// sequence of these tokens is one of the space: see Sampler.
func (s Space) Choices(ordinary int) [][]int32 {
	r := Resolved{Space: s, Fixed: make([]int32, s.Words), Random: s.alphabet()}
	for i, place := range s.places() {
		switch place {
		case blank, rest, echo:
			r.Fixed[i] = AnySymbol
		case separator:
			r.Fixed[i] = datasets.Separator
		default:
			r.Fixed[i] = byteToken(place[0])
		}
	}
	return r.Choices(ordinary)
}

// Phrase is the phrase of the canaries, to be looked for in data that have none; empty if they
// may be any text, are pairs, or have whole words in place of single bytes.
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
		p.Random = append(p.Random, string([]byte{byte(token - datasets.FirstWord)}))
	}
	return p
}

// Sequences is the number of sequences that may follow a prefix, out of the
// given number of ordinary tokens.
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
