package canaries

import (
	"math"
	"slices"
)

// Design is a way to choose canaries that a model of a leaking training reveals well.
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
	// LearnedWords are OwnWord, exchanged until their gradients hardly overlap.
	LearnedWords Design = "learned"
	// Mislabelled is an image of the data with a class other than its own.
	Mislabelled Design = "mislabelled"
)

func (Design) Choices() []string {
	return []string{string(RandomWords), string(RareWords), string(OwnWord), string(LearnedWords), string(Mislabelled)}
}

// rareShare is the number of words of which one is rare.
const rareShare = 10

func (d Design) Random() bool { return d == "" || d == RandomWords }

func rare(words int) int { return (words + rareShare - 1) / rareShare }

// Sequences returns the number of sequences of a space over a vocabulary, of which canaries use at most half.
// For OwnWord and LearnedWords it is twice the number of words, so that canaries may use every word.
func (d Design) Sequences(space Space, ordinary int) float64 {
	switch d {
	case RareWords:
		return math.Pow(float64(rare(ordinary)), float64(space.Words))
	case OwnWord, LearnedWords:
		return 2 * float64(ordinary)
	case RandomWords, Mislabelled:
	}
	return space.Sequences(ordinary, 0)
}

// Choose returns the possible tokens of a canary among the tokens of its space. Tokens ascend from the most
// frequent word.
func (d Design) Choose(all [][]int32, canary int) [][]int32 {
	out := slices.Clone(all)
	for i, words := range out {
		switch n := len(words); d {
		case RareWords:
			out[i] = words[n-rare(n):]
		case OwnWord:
			out[i] = words[n-1-canary : n-canary]
		case RandomWords, LearnedWords, Mislabelled:
		}
	}
	return out
}
