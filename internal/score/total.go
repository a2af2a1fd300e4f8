package score

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// MaxTotal is the largest accepted sum of probabilities of mutually exclusive outcomes: models that
// compute in 16 bits round.
const MaxTotal = 1.05

// Total returns the sum of the probabilities of mutually exclusive outcomes. Outcomes with
// log-probabilities equal up to rounding count once: the model may treat them as the same, such as
// words that it does not know.
func Total(logProbs []float64) (total float64) {
	last := math.Inf(1)
	for _, p := range slices.Backward(slices.Sorted(slices.Values(logProbs))) {
		if math.Abs(last-p) > 1e-4*(1+math.Abs(p)) {
			total, last = total+math.Exp(p), p
		}
	}
	return total
}

// CheckTotal returns an error if the probabilities of continuations of one context, none of which is a
// prefix of another, add up to more than 1.
func CheckTotal(pairs []Pair, answers []Answer) error {
	order := make([]int, len(pairs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(pairs[a].Context, pairs[b].Context), strings.Compare(pairs[a].Continuation, pairs[b].Continuation))
	})
	var logProbs []float64
	for k, i := range order {
		next := Pair{}
		if k+1 < len(order) {
			next = pairs[order[k+1]]
		}
		same := k+1 < len(order) && next.Context == pairs[i].Context
		if !same || !strings.HasPrefix(next.Continuation, pairs[i].Continuation) {
			logProbs = append(logProbs, answers[i].LogProb)
		}
		if same {
			continue
		}
		if total := Total(logProbs); total > MaxTotal {
			return AtMostOne.Broken("%d continuations of %.80q that exclude each other have probabilities that add up to %.4g; expected at most 1, as natural logarithms of probabilities give: "+
				"logits, logarithms to base 10 and means over tokens do not", len(logProbs), pairs[i].Context, total)
		}
		logProbs = nil
	}
	return nil
}

// After returns the pairs of one context with each of several continuations.
func After(context string, continuations []string) []Pair {
	pairs := make([]Pair, len(continuations))
	for i, continuation := range continuations {
		pairs[i] = Pair{context, continuation}
	}
	return pairs
}
