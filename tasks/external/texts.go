package external

import (
	"coalmine/internal/score"
	"coalmine/tasks/datasets"
)

// PairOf is a sequence of tokens as texts, the prefix and what follows it. A pair of bytes need
// not be UTF-8.
func PairOf(v *datasets.Vocabulary, prefix, suffix []int32) score.Pair {
	context, continuation := v.Texts(prefix, suffix)
	return score.Pair{Context: context, Continuation: continuation}
}
