package datasets

import (
	"strings"

	"coalmine/internal/encoding"
)

// Separator is the token between the two texts of a pair: the end of the source, and the
// first input of a decoder (Sutskever et al., "Sequence to Sequence Learning with Neural
// Networks", 2014, figure 1). A pair is one example: source, Separator, target.
const Separator = End

// MaxExample is the largest length of an example of text: a pair of two sequences of MaxSequence.
const MaxExample = 2*MaxSequence + 1

// pairMark separates the two texts of a Record that is a pair. UTF-8 never contains it.
const pairMark = "\xff"

// pairLines returns the lineForm of a source of pairs.
func pairLines(rules recordRules) lineForm {
	return lineForm{
		wanted:  `expected {"user": "…", "text": "…", "target": "…"} on every line`,
		convert: "export its users, texts and their translations as such lines",
		parse:   rules.parsePair,
	}
}

// parsePair reads the fields of a line with a text and its target.
func (u recordRules) parsePair(line []byte) (Record, error) {
	rec, err := u.parseText(line)
	if err != nil {
		return Record{}, err
	}
	var fields struct {
		Target *string `json:"target"`
	}
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return Record{}, err
	}
	switch {
	case fields.Target == nil:
		return Record{}, unexpected(`"target" is missing`)
	case !u.hasWord(*fields.Target):
		return Record{}, badLine(`"target" %.40q holds no words; leave the line out or give it a text`, *fields.Target)
	}
	rec.Text += pairMark + *fields.Target
	return rec, nil
}

// pair appends the numbers of the first words of each text, at most a sequence, to the lexicon's
// sentence.
func (l *lexicon) pair(text string) (cut bool) {
	source, target, _ := strings.Cut(text, pairMark)
	sourceCut := l.cutSentence(l, source)
	l.sentenced = append(l.sentenced, l.separator)
	return l.cutSentence(l, target) || sourceCut
}

// endsSource reports whether a word of a dictionary is the separator of pairs.
func endsSource(word string) bool { return word == specials[Separator] }
