package modelaudit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/internal/readable"
	"coalmine/tasks/datasets"
)

// Line is a line of a list of canaries.
type Line struct {
	// List and Number are the place of the line; lines count from 1.
	List   string
	Number int
	Text   string
}

// lexicon converts lines to tokens.
type lexicon struct {
	// words returns the words of a line, tokens their tokens in a model.
	words      func(*Line) []string
	tokens     map[string]int32
	vocabulary *datasets.Vocabulary
	listed     bool // a line is a JSON list of ids
}

// newLexicon returns the lexicon of a model of words or bytes.
func newLexicon(vocabulary *datasets.Vocabulary) lexicon {
	l := lexicon{tokens: make(map[string]int32, vocabulary.Ordinary()), vocabulary: vocabulary}
	for i, word := range vocabulary.Words[datasets.FirstWord:] {
		l.tokens[word] = int32(datasets.FirstWord + i)
	}
	l.words = func(line *Line) []string { return datasets.Tokenize(line.Text) }
	switch vocabulary.Level() {
	case datasets.WordLevel, datasets.ImageLevel:
	case datasets.ByteLevel:
		l.words = func(line *Line) []string { return datasets.ByteSymbols(line.Text) }
	case datasets.SubwordLevel:
		l.words = func(line *Line) (tokens []string) {
			for word := range strings.FieldsSeq(line.Text) {
				tokens = append(tokens, vocabulary.Token(word))
			}
			return tokens
		}
	}
	return l
}

// read returns the canary of a line as words.
func (l *lexicon) read(line *Line) ([]string, error) {
	words := l.words(line)
	if l.listed && words == nil {
		return nil, line.fail("%q is no list of token ids; expected one such as [17, 4, 99], since the vocabulary is a list of tokens, whose numbers alone say how a text is cut", line.Text)
	}
	return words, nil
}

func (l *Line) fail(format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", l.List, l.Number, fmt.Sprintf(format, args...))
}

// ReadCanaries reads a list of canaries, one per line. Empty lines and lines
// that begin with # do not count. name is for messages.
func ReadCanaries(name string, list io.Reader) ([]Line, error) {
	var out []Line
	lines := bufio.NewScanner(list)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		out = append(out, Line{List: name, Number: number, Text: text})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no canary in it; expected one a line, its words separated by spaces", name)
	}
	return out, nil
}

// maxMistakes is the maximum number of reported bad lines.
const maxMistakes = 10

// encode looks the words up. A canary must have a word after the prefix, and
// only ordinary words: a model cannot distinguish unknown words. The symbols
// after the prefix must be in the space of references.
func encode(list []Line, l lexicon, o *Options) ([]canary, error) {
	var out []canary
	var mistakes []error
	first, choices := map[string]*Line{}, map[int][][]int32{}
	for i := range list {
		line := &list[i]
		c, err := line.encode(&l, o)
		if n := len(c.tokens); err == nil && choices[n] == nil {
			choices[n], err = o.space(n).ChoicesIn(l.vocabulary)
		}
		if err == nil {
			err = line.fits(&c, choices[len(c.tokens)], o)
		}
		if err == nil {
			text := strings.Join(c.words, " ")
			if same := first[text]; same != nil {
				err = line.fail("the same canary as in line %d", same.Number)
			}
			first[text] = line
		}
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		c.place = i
		out = append(out, c)
	}
	if more := len(mistakes) - maxMistakes; more > 0 {
		mistakes = append(mistakes[:maxMistakes], fmt.Errorf("and %d more", more))
	}
	return out, errors.Join(mistakes...)
}

func (l *Line) encode(by *lexicon, o *Options) (canary, error) {
	words, err := by.read(l)
	if err != nil {
		return canary{}, err
	}
	if n := len(words); n <= o.Prefix || n > datasets.MaxSequence {
		return canary{}, l.fail("a canary of %s; expected more than the prefix of %d, and at most %d", readable.Count(n, "word"), o.Prefix, datasets.MaxSequence)
	}
	c := canary{words: words}
	for _, word := range words {
		token, ok := by.tokens[word]
		if !ok {
			return canary{}, l.fail("%q is not in the model's vocabulary; canaries consist of words that the model knows", word)
		}
		c.tokens = append(c.tokens, token)
	}
	if err := o.space(len(words)).Check(len(by.tokens)); err != nil {
		return canary{}, l.fail("%v", err)
	}
	return c, nil
}

// fits checks that each symbol after the prefix is among the choices for its place.
func (l *Line) fits(c *canary, choices [][]int32, o *Options) error {
	for i, among := range choices {
		if _, found := slices.BinarySearch(among, c.tokens[i]); found || i < o.Prefix {
			continue
		}
		if o.Alphabet == "" {
			return l.fail("%q, its word %d, has no place in the format %q and the symbols %q, which canaries are ranked within; choose other ones, or a longer prefix", c.words[i], i+1, o.Format, o.Symbols)
		}
		return l.fail("%q, its byte %d, has no place in the alphabet %s and the format %q, which canaries are ranked within; choose another alphabet, or a longer prefix; canaries of words need --vocabulary", c.words[i], i+1, o.Alphabet, o.Format)
	}
	return nil
}
