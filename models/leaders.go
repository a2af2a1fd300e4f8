package models

import (
	"slices"

	"coalmine/internal/kernels"
)

// TopGuesses is the number of first guesses that Tally.TopHits counts.
const TopGuesses = 5

// leaders holds the most probable tokens of a row so far, in descending order; in a tie, lower
// tokens first. The zero value is empty.
type leaders struct {
	count  int
	logits [TopGuesses]float32
	tokens [TopGuesses]int32
}

// add adds the logits of the tokens from first on. Tokens must be added in ascending order.
func (l *leaders) add(first int, logits []float32) {
	if l.count == TopGuesses && kernels.Max(logits) <= l.logits[TopGuesses-1] {
		return
	}
	for i, logit := range logits {
		if l.count < TopGuesses {
			l.count++
		} else if logit <= l.logits[TopGuesses-1] {
			continue
		}
		l.insert(int32(first+i), logit)
	}
}

// insert replaces the last token and moves the new one up.
func (l *leaders) insert(token int32, logit float32) {
	at := l.count - 1
	for ; at > 0 && l.logits[at-1] < logit; at-- {
		l.logits[at], l.tokens[at] = l.logits[at-1], l.tokens[at-1]
	}
	l.logits[at], l.tokens[at] = logit, token
}

func (l *leaders) have(token int32) bool {
	return slices.Contains(l.tokens[:l.count], token)
}
