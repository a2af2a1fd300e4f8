package experiment

import (
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

// Drawn is the number of all canaries, those held back included.
func (c *Canaries) Drawn() int { return c.Inserted() + c.HeldBack }

// symbolsAtByteLevel is the default of canaries.words there: with the smallest
// alphabet but the digits, 26^9 references may follow a prefix of 1.
const symbolsAtByteLevel = 10

// completeSymbols fills in the number of random symbols.
func (d *decoder) completeSymbols(e *Experiment) {
	c := e.Canaries
	if d.present["canaries.words"] == nil {
		c.Words = symbolsAtByteLevel
		if n := c.Space().Blanks(); n > 0 {
			c.Words = n
		}
	}
}

// sequences checks that canaries fit into a sentence, and their format them.
func (c *checker) sequences() {
	longest, drawn := c.Data.Reading().Sequence, c.Canaries
	if drawn.Format == "" {
		if drawn.Words > longest {
			c.fail([]string{"canaries.words", "data.sequence", "data.level"}, "is %d; expected at most data.sequence, %d", drawn.Words, longest)
		}
		return
	}
	switch blanks := drawn.Space().Blanks(); {
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
	if c.Canaries.Format != "" && c.Canaries.Space().Blanks() == 0 {
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
