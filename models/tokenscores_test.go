package models

import (
	"errors"
	"math"
	"testing"
)

// Log probabilities are those of Scorer.LogProbs, and moments those of the whole row.
func TestTokenScoresAreThoseOfTheRows(t *testing.T) {
	t.Parallel()
	rng := testRand(31)
	const vocabulary = 530
	m := mustNew(t, vocabulary, 13, 17)
	params := wideParams(m, rng)
	scorer := mustScorer(t, m, params)
	var lengths []int
	for range scoringBlock + 9 {
		lengths = append(lengths, 2+rng.IntN(6))
	}
	sentences := sentencesOf(rng, vocabulary, lengths...)
	scores, err := scorer.TokenScores(sentences)
	check(t, err)
	row := make([]float32, vocabulary)
	for i, sentence := range sentences {
		states, logProbs := scorer.Start(1), feed(t, scorer, sentence)
		for at, token := range sentence[:len(sentence)-1] {
			check(t, scorer.Step(states, []int32{token}))
			check(t, scorer.LogProbRows(states, row))
			var mean, square float64
			for _, l := range row {
				mean += math.Exp(float64(l)) * float64(l)
			}
			for _, l := range row {
				square += math.Exp(float64(l)) * (float64(l) - mean) * (float64(l) - mean)
			}
			got := scores[i][at]
			if got.LogProb != logProbs[at] || !near(got.Mean, mean, -mean, 1e-5) || !near(got.Deviation, math.Sqrt(square), math.Sqrt(square), 1e-5) {
				t.Fatalf("sentence %d, token %d: %+v, want %v, %v, %v", i, at, got, logProbs[at], mean, math.Sqrt(square))
			}
		}
	}
	params[0] = float32(math.NaN())
	diverged, err := m.NewScorer(params)
	if err == nil {
		_, err = diverged.TokenScores(sentences)
	}
	if failed := new(DivergedError); !errors.As(err, &failed) {
		t.Errorf("error %v, want a *DivergedError", err)
	}
}
