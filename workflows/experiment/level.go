package experiment

import (
	"fmt"
	"strings"

	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
)

// Reading is how the texts become sentences, with nothing left to defaults.
func (d *Data) Reading() datasets.Reading {
	return datasets.Reading{Level: d.Level, Sequence: d.Sequence}.Complete()
}

// Ordinary is the number of ordinary tokens: those of the vocabulary without the
// special ones, or the symbols that the level fixes.
func (d *Data) Ordinary() int {
	if symbols := d.Level.Scheme().Symbols; symbols != nil {
		return len(symbols)
	}
	return d.Vocabulary.Size
}

// Tokens is the size of a model's vocabulary, special tokens included.
func (d *Data) Tokens() int { return d.Ordinary() + datasets.FirstWord }

// Space is what canaries and references are drawn from.
func (c *Canaries) Space() canaries.Space {
	s := canaries.Space{Words: c.Words, Alphabet: c.Alphabet, Format: c.Format}
	if c.Format != "" {
		s.Words = len(c.Format)
	}
	return s
}

// OneRunSpace is what the canaries of a one-run audit are drawn from: at the byte
// level the alphabet of the other canaries, where there are any.
func (e *Experiment) OneRunSpace() canaries.Space {
	s := canaries.Space{Words: e.Audit.OneRun.Words}
	if e.Canaries != nil {
		s.Alphabet = e.Canaries.Alphabet
	}
	return s
}

// Drawn is the number of all canaries, those held back included.
func (c *Canaries) Drawn() int { return c.Inserted() + c.HeldBack }

// symbolsAtByteLevel is the default of canaries.words there: with the smallest
// alphabet but the digits, 26^9 references may follow a prefix of 1.
const symbolsAtByteLevel = 10

// completeSymbols fills in what follows from the byte level and the format.
func (d *decoder) completeSymbols(e *Experiment) {
	c := e.Canaries
	if d.present["canaries.words"] == nil {
		c.Words = symbolsAtByteLevel
		if n := c.blanks(); n > 0 {
			c.Words = n
		}
	}
	if e.Audit == nil {
		return
	}
	if a := e.Audit.RandomSampling; a != nil && d.present["audit.random_sampling.prefix"] == nil {
		a.Prefix = c.Space().DefaultPrefix()
	}
	if a := e.Audit.BeamSearch; a != nil && d.present["audit.beam_search.prefix"] == nil {
		a.Prefix = c.Space().DefaultPrefix()
	}
}

// blanks is the number of random symbols of the format.
func (c *Canaries) blanks() int { return strings.Count(c.Format, string(canaries.Blank)) }

// sequences checks that canaries fit into a sentence, and their format them.
func (c *checker) sequences() {
	longest, drawn := c.Data.Reading().Sequence, c.Canaries
	if drawn.Format == "" {
		if drawn.Words > longest {
			c.fail([]string{"canaries.words", "data.sequence", "data.level"}, "is %d; expected at most data.sequence, %d", drawn.Words, longest)
		}
		return
	}
	switch blanks := drawn.blanks(); {
	case blanks == 0:
		c.fail([]string{"canaries.format"}, `is %s, which has no random symbol; expected a # for each, and quotes around it all, as in "my number is #####"; without quotes, YAML takes what follows a space and # for a comment`, quote(drawn.Format))
	case len(drawn.Format) > longest:
		c.fail([]string{"canaries.format", "data.sequence"}, "has %d bytes; expected at most data.sequence, %d", len(drawn.Format), longest)
	case blanks != drawn.Words:
		c.fail([]string{"canaries.words", "canaries.format"}, "is %d, but canaries.format has %d random symbols; remove canaries.words", drawn.Words, blanks)
	}
}

// room checks that there are enough sequences to draw canaries from.
func (c *checker) room() {
	if c.Canaries.Format != "" && c.Canaries.blanks() == 0 {
		return // sequences has told
	}
	drawn := c.Canaries.Drawn()
	if c.Data.Level != datasets.ByteLevel {
		if size := c.Data.Vocabulary.Size; drawn > size {
			c.fail([]string{"canaries", "data.vocabulary.size"},
				"ask for %d canaries, each with a first word of its own, from a vocabulary of %d words; use fewer canaries or a larger vocabulary", drawn, size)
		}
		return
	}
	if room := c.Canaries.Space().Sequences(c.Data.Ordinary(), 0); float64(2*drawn) > room {
		c.fail([]string{"canaries", "canaries.words", "canaries.format", "canaries.alphabet"},
			"ask for %d different canaries of %d symbols; expected at most half of the %.0f sequences over the alphabet %s: use fewer or longer ones, or a larger alphabet", drawn, c.Canaries.Words, room, c.Canaries.Alphabet)
	}
}

// suffix checks that what follows a prefix is random, and has room for a
// reference set; references is 0 where there is none.
func (c *checker) suffix(path string, prefix, references int) {
	space := c.Canaries.Space()
	if prefix >= space.Words || space.Format != "" && c.Canaries.blanks() == 0 {
		return
	}
	room, drawn := space.Sequences(c.Data.Ordinary(), prefix), c.Canaries.Drawn()
	over, unit, larger := fmt.Sprintf("vocabulary of %d words", c.Data.Ordinary()), "words", "vocabulary"
	if space.Alphabet != "" {
		over, unit, larger = fmt.Sprintf("alphabet %s", space.Alphabet), "bytes", "alphabet"
	}
	switch {
	case room == 1:
		c.fail([]string{path + ".prefix", "canaries.format"}, "is %d, which leaves no random symbol of canaries.format to find; expected at most %d", prefix, strings.LastIndexByte(c.Canaries.Format, canaries.Blank))
	case references > 0 && float64(references+drawn) > room:
		c.fail([]string{path + ".references", path + ".prefix", "canaries.words", "canaries.format", "canaries.alphabet", "data.vocabulary.size"},
			"is %d; expected, with the %d canaries, at most %.0f: so many sequences over the %s can follow the prefix of %d %s. Use fewer references, longer canaries or a larger %s", references, drawn, room, over, prefix, unit, larger)
	}
}
