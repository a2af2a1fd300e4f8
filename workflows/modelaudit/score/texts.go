package score

import (
	"strings"

	"coalmine/tasks/datasets"
)

// PairOf is a sequence of tokens as texts, the prefix and what follows it: words with spaces
// between them, or bytes. The spaces between the two belong to the continuation. A pair of bytes
// need not be UTF-8.
func PairOf(v *datasets.Vocabulary, prefix, suffix []int32) Pair {
	context, continuation := textOf(v, prefix), textOf(v, suffix)
	if v.Level() != datasets.ByteLevel && context != "" {
		return Pair{Context: context, Continuation: " " + continuation}
	}
	kept := strings.TrimRight(context, " ")
	return Pair{Context: kept, Continuation: context[len(kept):] + continuation}
}

// textOf is what tokens stand for.
func textOf(v *datasets.Vocabulary, tokens []int32) string {
	if v.Level() == datasets.ByteLevel {
		text := make([]byte, len(tokens))
		for i, token := range tokens {
			text[i] = byte(token - datasets.FirstWord)
		}
		return string(text)
	}
	words := make([]string, len(tokens))
	for i, token := range tokens {
		words[i] = v.Words[token]
	}
	return strings.Join(words, " ")
}
