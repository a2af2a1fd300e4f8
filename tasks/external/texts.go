package external

import (
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/tasks/datasets"
)

// PairOf is a sequence of tokens as texts: the prefix and its continuation. A pair of bytes
// need not be UTF-8.
func PairOf(v *datasets.Vocabulary, prefix, suffix []int32) score.Pair {
	context, continuation := v.Texts(prefix, suffix)
	return score.Pair{Context: context, Continuation: continuation}
}

// Joined are texts as one, without their begins and ends; of bytes a line each.
func Joined(v *datasets.Vocabulary, texts [][]int32) (all []int32) {
	for _, text := range texts {
		all = append(all, Words(text)...)
		if v.Level() == datasets.ByteLevel {
			all = append(all, datasets.FirstWord+'\n')
		}
	}
	return all
}

// mostFollowing is how many words are asked about to see whether probabilities add up.
const mostFollowing = 256

// FollowingTokens are the first ordinary tokens of a vocabulary, of words the most frequent ones.
func FollowingTokens(v *datasets.Vocabulary) []int32 {
	tokens := make([]int32, min(v.Ordinary(), mostFollowing))
	for i := range tokens {
		tokens[i] = int32(datasets.FirstWord + i)
	}
	return tokens
}

// Following are these after a prefix, without those that are no texts.
func Following(v *datasets.Vocabulary, prefix []int32) (pairs []score.Pair) {
	for _, token := range FollowingTokens(v) {
		if pair := PairOf(v, prefix, []int32{token}); utf8.ValidString(pair.Context) && utf8.ValidString(pair.Continuation) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}
