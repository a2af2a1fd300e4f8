package datasets

import (
	"strings"

	"coalmine/tasks/datasets/subwords"
)

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
	if v.alphabet != 0 {
		return v.unspaced(v.alphabet.Text(textsOf(v.Words, tokens)))
	}
	return strings.Join(textsOf(v.Words, tokens), " ")
}

// Texts returns the texts of the two parts of a sequence of tokens. Spaces between the parts belong
// to the second.
func (v *Vocabulary) Texts(prefix, suffix []int32) (context, continuation string) {
	context, continuation = v.Text(prefix), v.Text(suffix)
	if v.alphabet != 0 && len(prefix) > 0 {
		continuation = v.alphabet.Text(textsOf(v.Words, suffix))
	} else if v.Level() == WordLevel && context != "" {
		return context, " " + continuation
	}
	kept := strings.TrimRight(context, " ")
	return kept, context[len(kept):] + continuation
}

// unspaced returns a text without the leading space that tokenizers of characters add.
func (v *Vocabulary) unspaced(text string) string {
	if v.alphabet == subwords.Characters {
		return strings.TrimPrefix(text, " ")
	}
	return text
}
