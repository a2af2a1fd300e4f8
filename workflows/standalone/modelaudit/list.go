package modelaudit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage/safetensors"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/text"
	"coalmine/workflows/control"
)

// Line is a line of a list of canaries.
type Line struct {
	// List and Number are the place of the line. Lines count from 1.
	List   string
	Number int
	Text   string
	// Control reports whether the training data did not contain the line.
	Control bool
}

// lexicon converts lines to tokens.
type lexicon struct {
	// words returns the words of a line; tokens maps words to their tokens in a model.
	words      func(*Line) []string
	tokens     map[string]int32
	vocabulary *text.Vocabulary
	listed     bool // whether a line is a JSON list of ids
}

// newLexicon returns the lexicon of a model of words or bytes.
func newLexicon(vocabulary *text.Vocabulary) lexicon {
	l := lexicon{tokens: make(map[string]int32, vocabulary.Ordinary()), vocabulary: vocabulary}
	for i, word := range vocabulary.Words[text.FirstWord:] {
		l.tokens[word] = int32(text.FirstWord + i)
	}
	l.words = func(line *Line) []string { return text.Tokenize(line.Text) }
	switch vocabulary.Level() {
	case text.WordLevel, text.ImageLevel:
	case text.ByteLevel:
		l.words = func(line *Line) []string { return text.ByteSymbols(line.Text) }
	case text.SubwordLevel:
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
		return nil, line.fail("%q: expected a list of token ids such as [17, 4, 99], because this vocabulary lists tokens", line.Text)
	}
	return words, nil
}

func (l *Line) fail(format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", l.List, l.Number, fmt.Sprintf(format, args...))
}

// ReadCanaries reads a list of canaries, one per line. It skips empty lines and lines that begin with #. A file of
// coalmine canaries export is an error, because its lines hold more than a text. Errors name the list by name.
func ReadCanaries(name string, list io.Reader) ([]Line, error) {
	var out []Line
	lines := bufio.NewScanner(list)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if len(out) == 0 && strings.HasPrefix(text, "{") && strings.Contains(text, `"coalmine/canaries"`) {
			return nil, fmt.Errorf("%s: this is a file of coalmine canaries export, which needs the scores of its lines (--scores FILE); expected one canary per line, its words separated by spaces", name)
		}
		out = append(out, Line{List: name, Number: number, Text: text})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the file has no canaries; expected one per line, its words separated by spaces", name)
	}
	return out, nil
}

// maxMistakes is the maximum number of reported bad lines.
const maxMistakes = 10

// encode looks the words up. A canary must have a word after the prefix, and only ordinary words, because a
// model cannot distinguish unknown words. The symbols after the prefix must be in the space of references.
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
	if o.FitReferences {
		o.fitReferences(out, l.vocabulary.Ordinary())
	}
	return out, errors.Join(mistakes...)
}

// fitReferences lowers the number of references to the number of sequences that can follow the prefix,
// without the canaries.
func (o *Options) fitReferences(list []canary, ordinary int) {
	for length, group := range byLength(list) {
		if room := o.space(length).Sequences(ordinary, o.Prefix) - float64(len(group)); room < float64(o.References) {
			o.References = max(1, int(room))
		}
	}
}

func (l *Line) encode(by *lexicon, o *Options) (canary, error) {
	words, err := by.read(l)
	if err != nil {
		return canary{}, err
	}
	if whole, bare := o.whole(words); bare {
		return canary{}, l.fail("%q contains only the random symbols of a canary; expected the whole canary in the format %q: %q", l.Text, o.Format, whole)
	}
	if n := len(words); n <= o.Prefix || n > text.MaxSequence {
		return canary{}, l.fail("a canary of %s; expected more than the prefix of %d, and at most %d", readable.Count(n, "word"), o.Prefix, text.MaxSequence)
	}
	c := canary{words: words}
	for _, word := range words {
		token, ok := by.tokens[word]
		if !ok {
			return canary{}, l.fail("%q is not in the model's vocabulary; expected words of the vocabulary", word)
		}
		c.tokens = append(c.tokens, token)
	}
	if err := o.space(len(words)).Check(len(by.tokens)); err != nil {
		return canary{}, l.fail("%v", err)
	}
	return c, nil
}

// whole returns the canary whose random symbols are words, and reports whether words lack the rest of the format.
func (o *Options) whole(words []string) (text string, bare bool) {
	if strings.Trim(o.Format, "#") == "" || strings.Count(o.Format, "#") != len(words) || !slices.Contains(alphabetsOf(strings.Join(words, "")), string(o.Alphabet)) {
		return "", false
	}
	text = o.Format
	for _, word := range words {
		text = strings.Replace(text, "#", word, 1)
	}
	return text, true
}

// alphabetsOf returns the alphabets, as values of --alphabet, that contain all bytes of a text.
func alphabetsOf(text string) (list []string) {
	for _, s := range canaries.Alphabets() {
		if !slices.ContainsFunc([]byte(text), func(b byte) bool { return !s.Alphabet.Holds(b) }) {
			list = append(list, string(s.Alphabet))
		}
	}
	return list
}

// fits returns an error unless each symbol after the prefix is among the choices for its place.
func (l *Line) fits(c *canary, choices [][]int32, o *Options) error {
	for i, among := range choices {
		if _, found := slices.BinarySearch(among, c.tokens[i]); found || i < o.Prefix {
			continue
		}
		if o.Alphabet == "" {
			return l.fail("%q, word %d, does not match the format %q and the symbols %q of the references; choose others, or a longer prefix", c.words[i], i+1, o.Format, o.Symbols)
		}
		return l.fail("%q, byte %d, does not match the alphabet %s and the format %q of the references; choose %s, or a longer prefix; canaries of words need --vocabulary",
			c.words[i], i+1, o.Alphabet, o.Format, cmp.Or(strings.Join(alphabetsOf(strings.Join(c.words[o.Prefix:], "")), " or "), "another alphabet"))
	}
	return nil
}

// Vocabulary holds the tokens of a served model.
type Vocabulary struct {
	// tokens are the tokens that audits use: the special ones, then the ordinary ones.
	tokens *text.Vocabulary
	// texts holds the texts of tokens by the server's ids. It is empty if they are unknown.
	texts []string
	// ids holds the server's ids of the ordinary tokens, in the order of tokens.
	ids []int32
	// begin holds the token before every sequence, if there is one.
	begin []int32
	// listed reports whether tokens are not words. Canaries are then lists of ids.
	listed bool
}

// ReadVocabulary reads a file that coalmine export has written, or a JSON list of the texts of all tokens
// by their ids, as the server gives them. null stands for a token that is neither in a canary nor in a
// reference. A list that begins with the special tokens of an export is read as an export's.
//
// begin is the id of the token before every sequence. If it is negative, it is that of the export, or no
// token for a list.
func ReadVocabulary(file io.Reader, begin int) (*Vocabulary, error) {
	buffered := bufio.NewReader(file)
	start, err := buffered.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("the file is empty; expected a model of coalmine export, or a JSON list of tokens")
	}
	if start[0] == '[' {
		return readTokenList(buffered, begin)
	}
	data, err := safetensors.Read(buffered, checkpoints.MaxFile)
	if err != nil {
		return nil, err
	}
	words, err := control.ExportedVocabulary(data)
	if err != nil {
		return nil, err
	}
	return exportedVocabulary(words).beginningWith(begin)
}

// maxTokenList bounds a list, in bytes.
const maxTokenList = 256 << 20

func readTokenList(file io.Reader, begin int) (*Vocabulary, error) {
	var list []*string
	if err := json.NewDecoder(io.LimitReader(file, maxTokenList)).Decode(&list); err != nil {
		return nil, fmt.Errorf("not a JSON list of the texts of tokens: %w", err)
	}
	v := &Vocabulary{listed: true, texts: make([]string, len(list)), tokens: &text.Vocabulary{Words: text.Specials()}}
	for id, text := range list {
		if text == nil {
			continue
		}
		v.texts[id] = *text
		v.ids = append(v.ids, int32(id))
		v.tokens.Words = append(v.tokens.Words, strconv.Itoa(id))
	}
	switch {
	case len(list) > math.MaxInt32:
		return nil, fmt.Errorf("%d tokens; expected at most %d", len(list), math.MaxInt32)
	case len(v.ids) == 0:
		return nil, fmt.Errorf("the list is empty; expected the texts of the tokens, in the order of their ids")
	case len(v.texts) > text.FirstWord && slices.Equal(v.texts[:text.FirstWord], text.Specials()):
		v = exportedVocabulary(v.texts)
	}
	return v.beginningWith(begin)
}

// exportedVocabulary returns the vocabulary of an exported model.
func exportedVocabulary(words []string) *Vocabulary {
	v := &Vocabulary{tokens: text.NewVocabulary(words), texts: words, begin: []int32{text.Begin}}
	for id := text.FirstWord; id < len(words); id++ {
		v.ids = append(v.ids, int32(id))
	}
	return v
}

func (v *Vocabulary) beginningWith(begin int) (*Vocabulary, error) {
	if begin >= len(v.texts) {
		return nil, fmt.Errorf("the begin token is %d, but the vocabulary has %d tokens; expected one of them", begin, len(v.texts))
	}
	if begin >= 0 {
		v.begin = []int32{int32(begin)}
	}
	return v, nil
}

// lexicon returns the lexicon of canaries in the vocabulary.
func (v *Vocabulary) lexicon() lexicon {
	l := newLexicon(v.tokens)
	if v.listed {
		l.words, l.listed = listedIDs, true
	}
	return l
}

// listedIDs returns the ids of a canary that is a JSON list of ids, or nil.
func listedIDs(line *Line) []string {
	var ids []json.Number
	if json.Unmarshal([]byte(line.Text), &ids) != nil {
		return nil
	}
	return lists.Map(ids, json.Number.String)
}

// prompt returns the server's prompt: its ids of the tokens, after the begin token.
func (v *Vocabulary) prompt(parts ...[]int32) []int32 {
	prompt := slices.Clone(v.begin)
	for _, part := range parts {
		for _, token := range part {
			if token < text.FirstWord { // an unknown word; only exported vocabularies have one
				prompt = append(prompt, token)
				continue
			}
			prompt = append(prompt, v.ids[token-text.FirstWord])
		}
	}
	return prompt
}
