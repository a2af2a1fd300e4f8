package modelaudit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/tasks/datasets"
)

// Line is a canary as its list has it.
type Line struct {
	// List and Number say where it stands; lines count from 1.
	List   string
	Number int
	// Words are what datasets.Tokenize makes of it.
	Words []string
}

func (l *Line) fail(format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", l.List, l.Number, fmt.Sprintf(format, args...))
}

// ReadCanaries reads a list of canaries, one a line. Empty lines and lines that
// begin with # do not count. name is for messages.
func ReadCanaries(name string, list io.Reader) ([]Line, error) {
	var out []Line
	lines := bufio.NewScanner(list)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		out = append(out, Line{List: name, Number: number, Words: datasets.Tokenize(text)})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no canary in it; expected one a line, its words separated by spaces", name)
	}
	return out, nil
}

// maxMistakes is how many bad lines are told of.
const maxMistakes = 10

// encode looks the words up. A canary must have a word left to find after the
// prefix, and ordinary words alone: a model cannot tell unknown words apart.
func encode(list []Line, vocabulary *datasets.Vocabulary, prefix int) ([]canary, error) {
	tokens := make(map[string]int32, vocabulary.Ordinary())
	for i, word := range vocabulary.Words[datasets.FirstWord:] {
		tokens[word] = int32(datasets.FirstWord + i)
	}
	var out []canary
	var mistakes []error
	first := map[string]*Line{}
	for i := range list {
		line := &list[i]
		c, err := line.encode(tokens, prefix)
		if err == nil {
			text := strings.Join(line.Words, " ")
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

func (l *Line) encode(tokens map[string]int32, prefix int) (canary, error) {
	if n := len(l.Words); n <= prefix || n > datasets.SentenceWords {
		return canary{}, l.fail("a canary of %d words; expected more than the prefix of %d, and at most %d", n, prefix, datasets.SentenceWords)
	}
	c := canary{words: slices.Clone(l.Words)}
	for _, word := range l.Words {
		token, ok := tokens[word]
		if !ok {
			return canary{}, l.fail("%q is not in the model's vocabulary; canaries consist of words that the model knows", word)
		}
		c.tokens = append(c.tokens, token)
	}
	return c, nil
}
