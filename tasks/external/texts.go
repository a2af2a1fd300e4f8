package external

import (
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/tasks/datasets"
)

// PairOf returns the texts of a prefix and its continuation. A pair of bytes need not be UTF-8.
func PairOf(v *datasets.Vocabulary, prefix, suffix []int32) score.Pair {
	context, continuation := v.Texts(prefix, suffix)
	return score.Pair{Context: context, Continuation: continuation}
}

// Joined joins texts into one, without begin and end tokens; at the byte level, one per line.
func Joined(v *datasets.Vocabulary, texts [][]int32) (all []int32) {
	for _, text := range texts {
		all = append(all, Words(text)...)
		if v.Level() == datasets.ByteLevel {
			all = append(all, datasets.FirstWord+'\n')
		}
	}
	return all
}

// maxFollowing is the number of words in the check of total probability.
const maxFollowing = 256

// FollowingTokens returns the first ordinary tokens of a vocabulary; for words, the most frequent
// ones.
func FollowingTokens(v *datasets.Vocabulary) []int32 {
	tokens := make([]int32, min(v.Ordinary(), maxFollowing))
	for i := range tokens {
		tokens[i] = int32(datasets.FirstWord + i)
	}
	return tokens
}

// Following returns pairs of a prefix and each of these tokens, except tokens that are not texts.
func Following(v *datasets.Vocabulary, prefix []int32) (pairs []score.Pair) {
	for _, token := range FollowingTokens(v) {
		if pair := PairOf(v, prefix, []int32{token}); utf8.ValidString(pair.Context) && utf8.ValidString(pair.Continuation) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}
