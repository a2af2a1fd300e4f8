package text

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/subwords"
)

// VocabularyBlob is the name of a vocabulary: one word per line; line n, counted from 0, is token
// n. At the byte level a printable ASCII character is itself, and any other byte is written as
// "<0x0A>". At the subword level tokens are written as in the file of the tokenizer.
const VocabularyBlob = "vocabulary"

// specials are the texts of the tokens below FirstWord. The tokenizer separates brackets, so no
// word of a text equals one.
var specials = []string{Padding: "<pad>", Unknown: "<unk>", Begin: "<begin>", End: "<end>"}

// Specials returns the texts of the tokens below FirstWord.
func Specials() []string { return slices.Clone(specials) }

// Vocabulary maps tokens to words: Words[token], including specials.
type Vocabulary struct {
	Words []string

	alphabet subwords.Alphabet // of the tokens at the subword level, otherwise 0
}

// NewVocabulary makes a vocabulary of words, including specials.
func NewVocabulary(words []string) *Vocabulary {
	return &Vocabulary{words, subwords.AlphabetOf(words[min(FirstWord, len(words)):])}
}

// Token returns the text of a word's token: at the subword level, the word after a space.
func (v *Vocabulary) Token(word string) string { return v.alphabet.Word(word) }

// Size returns the number of tokens, including specials: the width of a model's output.
func (v *Vocabulary) Size() int { return len(v.Words) }

// Ordinary returns the number of ordinary words. They are the tokens FirstWord to Size()-1, the
// most frequent first.
func (v *Vocabulary) Ordinary() int { return len(v.Words) - FirstWord }

var errNoVocabulary = fmt.Errorf("vocabulary does not begin with %q: %w", specials, storage.ErrCorrupt)

// ParseVocabulary reads the blob VocabularyBlob.
func ParseVocabulary(data []byte) (*Vocabulary, error) {
	words := SplitLines(data)
	if len(words) < FirstWord || !slices.Equal(words[:FirstWord], specials) {
		return nil, errNoVocabulary
	}
	return NewVocabulary(words), nil
}

// EachWord calls do with the words of the blob VocabularyBlob in the order of their tokens,
// including specials, and keeps one at a time in memory.
func EachWord(blob io.Reader, do func(token int32, word string) error) error {
	lines := bufio.NewReader(blob)
	for token := int32(0); ; token++ {
		line, err := lines.ReadString('\n')
		word := strings.TrimSuffix(line, "\n")
		switch {
		case err != nil && err != io.EOF:
			return err
		case token < FirstWord && word != specials[token]:
			return errNoVocabulary
		case line == "":
			return nil
		}
		if err := do(token, word); err != nil {
			return err
		}
	}
}

// ReadVocabulary reads the vocabulary of an encode node.
func ReadVocabulary(ctx context.Context, t *tasks.Task, input string) (*Vocabulary, error) {
	data, err := t.Blob(ctx, input, VocabularyBlob)
	if err != nil {
		return nil, err
	}
	return ParseVocabulary(data)
}

// WordsAt returns the words at the given indexes.
func WordsAt[T int32 | uint32](words []string, numbers []T) []string {
	return lists.Map(numbers, func(n T) string { return words[n] })
}

// Text returns the text of tokens: words separated by spaces, or bytes, not necessarily UTF-8. At
// the byte level all tokens must be ordinary.
func (v *Vocabulary) Text(tokens []int32) string {
	if v.Level() == ByteLevel {
		text := make([]byte, len(tokens))
		for i, token := range tokens {
			text[i] = byte(token - FirstWord)
		}
		return string(text)
	}
	if v.alphabet == subwords.Characters { // such tokenizers add a leading space
		return strings.TrimPrefix(v.alphabet.Text(WordsAt(v.Words, tokens)), " ")
	}
	if v.alphabet != 0 {
		return v.alphabet.Text(WordsAt(v.Words, tokens))
	}
	return strings.Join(WordsAt(v.Words, tokens), " ")
}

// Texts returns the texts of the two parts of a sequence of tokens. Spaces between the parts belong
// to the second.
func (v *Vocabulary) Texts(prefix, suffix []int32) (context, continuation string) {
	context, continuation = v.Text(prefix), v.Text(suffix)
	if v.alphabet != 0 && len(prefix) > 0 {
		continuation = v.alphabet.Text(WordsAt(v.Words, suffix))
	} else if v.Level() == WordLevel && context != "" {
		return context, " " + continuation
	}
	kept := strings.TrimRight(context, " ")
	return kept, context[len(kept):] + continuation
}

// JoinLines ends every word with a newline; no word holds one.
func JoinLines(words []string) []byte {
	if len(words) == 0 {
		return nil
	}
	return []byte(strings.Join(words, "\n") + "\n")
}

func SplitLines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}
