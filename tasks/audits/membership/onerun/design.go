package onerun

import (
	"math"
	"slices"

	"coalmine/tasks/canaries"
)

// Design is a choice of the words of a text canary.
type Design string

// Designs. The empty Design is RandomWords.
const (
	// RandomWords are uniform over the vocabulary.
	RandomWords Design = "random"
	// RareWords are uniform over the least frequent tenth of it.
	RareWords Design = "rare-words"
	// OwnWord repeats one of the least frequent words, unique to the canary: the gradients of canaries are
	// orthogonal in the rows of their words.
	OwnWord Design = "own-word"
	// LearnedWords are OwnWord, exchanged by Learned.
	LearnedWords Design = "learned"
)

func (Design) Choices() []string {
	return []string{string(RandomWords), string(RareWords), string(OwnWord), string(LearnedWords)}
}

// One word in rareShare is rare.
const rareShare = 10

func rare(words int) int { return (words + rareShare - 1) / rareShare }

// sequences returns the number of canaries of a space over a vocabulary, all of which may be used. For OwnWord and
// LearnedWords it is twice the number of words.
func (d Design) sequences(space canaries.Space, ordinary int) float64 {
	switch d {
	case RareWords:
		return math.Pow(float64(rare(ordinary)), float64(space.Words))
	case OwnWord, LearnedWords:
		return 2 * float64(ordinary)
	case RandomWords:
	}
	return space.Sequences(ordinary, 0)
}

// choices returns the possible tokens of a canary. Tokens ascend from the most frequent word.
func (d Design) choices(all [][]int32, canary int) [][]int32 {
	out := slices.Clone(all)
	for i, words := range out {
		switch n := len(words); d {
		case RareWords:
			out[i] = words[n-rare(n):]
		case OwnWord:
			out[i] = words[n-1-canary : n-canary]
		case RandomWords, LearnedWords:
		}
	}
	return out
}
