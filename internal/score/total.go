package score

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// MostTotal is the largest sum of probabilities that exclude each other: models that compute in 16
// bits round.
const MostTotal = 1.05

// Total is the sum of the probabilities of outcomes that exclude each other. Those whose
// log-probabilities are equal, but for rounding, count once: a model may take them for the same one, as
// it does words that it does not know.
func Total(logProbs []float64) (total float64) {
	last := math.Inf(1)
	for _, p := range slices.Backward(slices.Sorted(slices.Values(logProbs))) {
		if math.Abs(last-p) > 1e-4*(1+math.Abs(p)) {
			total, last = total+math.Exp(p), p
		}
	}
	return total
}

// CheckTotal returns an error if continuations of one context, of which none begins another, have
// probabilities that add up to more than 1.
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
		if total := Total(logProbs); total > MostTotal {
			return AtMostOne.Broken("%d continuations of %.80q that exclude each other have probabilities that add up to %.4g; expected at most 1, as natural logarithms of probabilities give: "+
				"logits, logarithms to base 10 and means over tokens do not", len(logProbs), pairs[i].Context, total)
		}
		logProbs = nil
	}
	return nil
}

// After are the pairs of one context with each of several continuations.
func After(context string, continuations []string) []Pair {
	pairs := make([]Pair, len(continuations))
	for i, continuation := range continuations {
		pairs[i] = Pair{context, continuation}
	}
	return pairs
}
