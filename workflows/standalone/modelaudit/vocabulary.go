package modelaudit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"coalmine/storage/safetensors"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/workflows/control"
)

// Vocabulary has the tokens of a served model.
type Vocabulary struct {
	// tokens are the tokens that audits use: the special ones, then the ordinary ones.
	tokens *datasets.Vocabulary
	// texts has the texts of tokens by the server's ids; empty if unknown.
	texts []string
	// ids has the server's ids of the ordinary tokens, in the order of tokens.
	ids []int32
	// begin has the token before every sequence, if there is one.
	begin []int32
	// listed reports that tokens are not words: canaries are lists of ids.
	listed bool
}

// ReadVocabulary reads a file that coalmine export has written, or a JSON list of the
// texts of all tokens by their ids, as the server gives them; null stands for a token that
// is neither in a canary nor in a reference. A list that begins with the special tokens of
// an export is read as an export's.
//
// begin is the id of the token before every sequence. A negative begin means that of an
// export, or no such token for a list.
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
	v := &Vocabulary{listed: true, texts: make([]string, len(list)), tokens: &datasets.Vocabulary{Words: datasets.Specials()}}
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
		return nil, fmt.Errorf("no token in the list; expected the text of each, in the order of their ids")
	case len(v.texts) > datasets.FirstWord && slices.Equal(v.texts[:datasets.FirstWord], datasets.Specials()):
		v = exportedVocabulary(v.texts)
	}
	return v.beginningWith(begin)
}

// exportedVocabulary returns the vocabulary of an exported model.
func exportedVocabulary(words []string) *Vocabulary {
	v := &Vocabulary{tokens: datasets.NewVocabulary(words), texts: words, begin: []int32{datasets.Begin}}
	for id := datasets.FirstWord; id < len(words); id++ {
		v.ids = append(v.ids, int32(id))
	}
	return v
}

func (v *Vocabulary) beginningWith(begin int) (*Vocabulary, error) {
	if begin >= len(v.texts) {
		return nil, fmt.Errorf("token %d is to begin every sequence, and the vocabulary has %d tokens; expected one of them", begin, len(v.texts))
	}
	if begin >= 0 {
		v.begin = []int32{int32(begin)}
	}
	return v, nil
}

// lexicon returns the lexicon of its canaries.
func (v *Vocabulary) lexicon() lexicon {
	l := newLexicon(v.tokens)
	if v.listed {
		l.words, l.listed = listedIDs, true
	}
	return l
}

// listedIDs returns the ids of a canary that is a JSON list of ids; nil for other canaries.
func listedIDs(line *Line) []string {
	var ids []json.Number
	if json.Unmarshal([]byte(line.Text), &ids) != nil {
		return nil
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = id.String()
	}
	return words
}

// prompt returns the server's prompt: its ids of the tokens, the begin token first.
func (v *Vocabulary) prompt(parts ...[]int32) []int32 {
	prompt := slices.Clone(v.begin)
	for _, part := range parts {
		for _, token := range part {
			if token < datasets.FirstWord { // an unknown word, which only exported vocabularies have
				prompt = append(prompt, token)
				continue
			}
			prompt = append(prompt, v.ids[token-datasets.FirstWord])
		}
	}
	return prompt
}
