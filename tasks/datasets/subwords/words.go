package subwords

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Words lists the tokens that are a space and a word of two or more letters, in order of their
// numbers, without the space. The tokens do not merge: a text of such words, separated by single
// spaces, has one token per word. The error explains why a tokenizer has no such words.
func (t *Tokenizer) Words() ([]string, error) {
	alphabet := AlphabetOf(t.tokens)
	if alphabet == 0 {
		return nil, errors.New("no token begins with a space; expected tokens such as \" the\", of a word after a space")
	}
	if crossing := t.crossing(alphabet); crossing != "" {
		return nil, fmt.Errorf("token %.100q joins the end of a word to the next one; expected tokens within words", crossing)
	}
	encoder := t.Encoder()
	var words []string
	for id, token := range t.tokens {
		word, spaced := strings.CutPrefix(alphabet.Text([]string{token}), " ")
		if spaced && isWord(word) && encoder.isToken(word, uint32(id)) {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return nil, errors.New("no token is a word of letters with a space before; expected some")
	}
	return words, nil
}

// HasWord reports whether a word after a space is one token.
func (t *Tokenizer) HasWord(word string) bool {
	alphabet := AlphabetOf(t.tokens)
	id := slices.Index(t.tokens, alphabet.Word(word))
	return alphabet != 0 && id >= 0 && !strings.ContainsFunc(word, unicode.IsSpace) && t.Encoder().isToken(word, uint32(id))
}

// Word returns the token of a word after a space; without an alphabet, the word.
func (a Alphabet) Word(word string) string {
	switch a {
	case Bytes:
		return byteText(" " + word)
	case Characters:
		return metaspace + word
	}
	return word
}

func isWord(text string) bool {
	letters := 0
	for _, r := range text {
		if !unicode.IsLetter(r) {
			return false
		}
		letters++
	}
	return letters >= 2
}

// isToken reports whether the text of a word is one token, both by itself and repeated.
func (e *Encoder) isToken(word string, id uint32) bool {
	for _, text := range []string{" " + word, word} {
		if slices.Equal(e.Encode(text), []uint32{id}) {
			return slices.Equal(e.Encode(text+" "+word), []uint32{id, id})
		}
	}
	return false
}

// crossing returns a token with a space after another character; "" if there is none. It ignores
// added tokens, which may have any text.
func (t *Tokenizer) crossing(alphabet Alphabet) string {
	added := map[string]bool{}
	for _, list := range t.added {
		for _, a := range list {
			added[t.tokens[a.ID]] = true
		}
	}
	for _, token := range t.tokens {
		text := strings.TrimLeft(alphabet.Text([]string{token}), " ")
		if i := strings.IndexByte(text, ' '); i >= 0 && strings.TrimRight(text[i:], " ") != "" && !added[token] {
			return token
		}
	}
	return ""
}

// Names lists a name for each number of a token, all distinct and without white space: the text of
// the token with spaces as in the alphabet, or "<token-7>" if that text has white space, repeats
// another name, or is in taken.
func (t *Tokenizer) Names(taken []string) []string {
	alphabet := AlphabetOf(t.tokens)
	seen := map[string]bool{}
	for _, name := range taken {
		seen[name] = true
	}
	names := make([]string, len(t.tokens))
	for id, token := range t.tokens {
		name := strings.ReplaceAll(token, " ", alphabet.Word(""))
		if name == "" || seen[name] || strings.ContainsFunc(name, unicode.IsSpace) {
			name = fmt.Sprintf("<token-%d>", id)
		}
		for seen[name] {
			name = "<" + name + ">"
		}
		seen[name], names[id] = true, name
	}
	return names
}
