package models

import (
	"errors"
	"fmt"
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

// Moments of rows over several tiles, far from 0, flat or nearly certain, are those in float64 of the
// same logits: nothing cancels.
func TestMomentsOfHardRows(t *testing.T) {
	t.Parallel()
	rng := testRand(32)
	const width = 2*tileWidth + 37
	for _, offset := range []float32{0, 300, -300, 40_000} {
		for _, spread := range []float32{1.0 / 256, 1, 16} {
			for _, lead := range []float32{0, 12, 60} {
				logits := make([]float32, width)
				for i := range logits {
					logits[i] = offset + spread*float32(rng.NormFloat64())
				}
				logits[width-5] = offset + lead
				mean, deviation := momentsOf(logits)
				var z normaliser
				z.reset(1, 3)
				z.moments = grow(z.moments, 3)
				for k := range z.tiles {
					from, to := tileBounds(width, k)
					z.addMoments(0, k, logits[from:to])
				}
				z.finish()
				got, what := z.ofWhole(0), fmt.Sprintf("offset %v, spread %v, lead %v", offset, spread, lead)
				if !near(got.Mean, mean, max(1, -mean), 2e-7) || !near(got.Deviation, deviation, deviation, 5e-7) {
					t.Errorf("%s: mean %v, deviation %v; want %v, %v", what, got.Mean, got.Deviation, mean, deviation)
				}
			}
		}
	}
}

// momentsOf is the mean and the standard deviation of log p(z), in float64.
func momentsOf(logits []float32) (mean, deviation float64) {
	peak, total := float64(logits[0]), 0.0
	for _, l := range logits {
		peak = max(peak, float64(l))
	}
	for _, l := range logits {
		total += math.Exp(float64(l) - peak)
	}
	log := func(l float32) float64 { return float64(l) - peak - math.Log(total) }
	for _, l := range logits {
		mean += math.Exp(log(l)) * log(l)
	}
	for _, l := range logits {
		deviation += math.Exp(log(l)) * (log(l) - mean) * (log(l) - mean)
	}
	return mean, math.Sqrt(deviation)
}

// Losses after a text are those of the end of both as one text, bit for bit.
func TestLossesAfterAText(t *testing.T) {
	t.Parallel()
	rng := testRand(33)
	m := mustNew(t, 61, 9, 11)
	scorer := mustScorer(t, m, wideParams(m, rng))
	list := sentencesOf(rng, 61, 9, 3, 7, 2, 5)
	prefix, sentences := list[0], list[1:]
	states := scorer.Start(1)
	for _, token := range prefix {
		check(t, scorer.Step(states, []int32{token}))
	}
	got, err := scorer.LossesAfter(states, sentences)
	check(t, err)
	for i, sentence := range sentences {
		whole, want := feed(t, scorer, append(prefix[:len(prefix):len(prefix)], sentence...)), 0.0
		for _, p := range whole[len(prefix):] {
			want -= float64(p)
		}
		if got[i] != (Loss{Sum: want, Tokens: len(sentence) - 1}) {
			t.Errorf("sentence %d: %+v, want %v", i, got[i], want)
		}
	}
	if _, err := scorer.LossesAfter(scorer.Start(2), sentences); err == nil {
		t.Error("two states before a sentence are no error")
	}
}
