package datasets

import (
	"encoding/binary"
	"slices"
	"strings"

	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/text"
)

// Phrase is a run of words, some fixed and some from a list, such as the canaries of a format. At
// the byte level its words are bytes.
type Phrase struct {
	// Fixed has the word at each position; an empty word matches any of Random. A phrase without
	// positions matches nothing.
	Fixed []string `json:"fixed"`
	// Random lists the words for empty positions; nil allows every word.
	Random []string `json:"random,omitempty"`
}

func (p Phrase) equal(q Phrase) bool {
	return slices.Equal(p.Fixed, q.Fixed) && slices.Equal(p.Random, q.Random)
}

// MaxPhrases is the largest number of distinct matches counted per phrase.
const MaxPhrases = 100_000

// phraseCount counts the distinct matches of a phrase in a text.
type phraseCount struct {
	Phrase
	numbers []uint32 // numbers of the fixed words seen so far
	listed  []bool   // by word number: the word is in Random
	found   map[string]bool
}

// see counts the matches in an example.
func (p *phraseCount) see(l *lexicon, words []uint32) {
	if len(p.Fixed) == 0 || len(p.found) == MaxPhrases || !p.complete(l) {
		return
	}
	for start := range max(0, len(words)-len(p.Fixed)+1) {
		if p.at(l, words[start:]) && len(p.found) < MaxPhrases {
			p.found[p.random(words[start:])] = true
		}
	}
}

// random returns a key of the words at the phrase's random positions.
func (p *phraseCount) random(words []uint32) string {
	var out []byte
	for i, fixed := range p.Fixed {
		if fixed == "" {
			out = binary.LittleEndian.AppendUint32(out, words[i])
		}
	}
	return string(out)
}

// complete looks up the fixed words, and reports whether the text has had all.
func (p *phraseCount) complete(l *lexicon) bool {
	for len(p.numbers) < len(p.Fixed) {
		number, known := l.number(p.Fixed[len(p.numbers)])
		if !known {
			return false
		}
		p.numbers = append(p.numbers, number)
	}
	return true
}

// at reports whether words begin with the phrase. They are at least as long as the phrase.
func (p *phraseCount) at(l *lexicon, words []uint32) bool {
	for i, fixed := range p.Fixed {
		if fixed == "" && !p.lists(l, words[i]) || fixed != "" && p.numbers[i] != words[i] {
			return false
		}
	}
	return true
}

func (p *phraseCount) lists(l *lexicon, word uint32) bool {
	if len(p.listed) == 0 && l.alphabet != 0 {
		p.Random = slices.Clone(p.Random)
		for i, word := range p.Random {
			p.Random[i] = l.alphabet.Word(word)
		}
	}
	for len(p.Random) > 0 && int(word) >= len(p.listed) {
		p.listed = append(p.listed, slices.Contains(p.Random, l.word(len(p.listed))))
	}
	return len(p.Random) == 0 || p.listed[word]
}

// maxSearched is the largest number of bytes in which secrets are counted; that takes seconds on one core.
const maxSearched = 64 << 20

// secretCount counts the different matches of patterns in a text of the byte level. It is not safe for concurrent use.
type secretCount struct {
	wanted   filters.Wanted
	set      *filters.PatternSet
	searched int             // bytes
	found    map[string]bool // by pattern and text
}

// see counts the matches in an example, until there are as many as an audit may rank.
func (c *secretCount) see(words []uint32) {
	if c.searched += len(words); c.searched > maxSearched || len(c.found) >= MaxPhrases {
		return
	}
	var found strings.Builder
	for _, w := range words {
		if w < text.Bytes { // not a separator
			found.WriteByte(byte(w))
		}
	}
	content := found.String()
	for _, span := range c.set.Find(content) {
		c.found[string(span.Pattern)+"\x00"+content[span.Start:span.End]] = true
	}
}

// number returns the number of different matches; nil if the text was too long to search all of it.
func (c *secretCount) number() *int {
	if c == nil || c.searched > maxSearched {
		return nil
	}
	return new(len(c.found))
}
