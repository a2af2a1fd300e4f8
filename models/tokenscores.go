package models

import (
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
)

// TokenScore measures the prediction of one token, in nats.
type TokenScore struct {
	// LogProb is log p(token), as Scorer.LogProbs computes it.
	LogProb float32
	// Mean and Deviation are the mean and the standard deviation of log p(z), where z is drawn from
	// the model's distribution of the next token: Mean is minus its entropy.
	Mean, Deviation float64
}

// TokenScores scores every token except the first of each sentence; in a pair, every token after
// the separator. A score that is not finite gives a *DivergedError.
func (s *Scorer) TokenScores(sentences [][]int32) ([][]TokenScore, error) {
	if err := checkSentences(sentences, s.model.config); err != nil {
		return nil, err
	}
	all := make([][]TokenScore, 0, len(sentences))
	run := evaluation{whole: true}
	for from := 0; from < len(sentences); from += evaluationBlock {
		block := run.score(s, sentences[from:min(from+evaluationBlock, len(sentences))])
		for i, sentence := range block {
			scores := make([]TokenScore, len(sentence)-1)
			for t := range scores {
				at := run.row(i, t)
				p := &scores[t]
				*p = run.wholes[at]
				p.LogProb = run.logProbs[at]
				if !numbers.IsFinite(float64(p.LogProb) + p.Mean + p.Deviation) {
					return nil, &DivergedError{Name: "log probability", Value: float64(p.LogProb)}
				}
			}
			all = append(all, scores)
		}
	}
	return all, nil
}

// tileMoments are the sums over a tile of e, of e*y and of e*y^2, where y = logit - peak and e = exp(y).
// The peak is so near to all logits with a notable weight that no digits cancel in float64.
type tileMoments struct {
	peak, sum float64
	powers    [2]float64
}

// addMoments is add, and also stores the moments of the tile.
func (z *normaliser) addMoments(i, k int, logits []float32) {
	at := i*z.tiles + k
	m := &z.moments[at]
	z.peaks[at], m.sum = kernels.SoftmaxMoments(z.exps[:len(logits)], logits, &m.powers)
	z.sums[at], m.peak = m.sum, float64(z.peaks[at])
}

// ofWhole returns the mean and the deviation of row i, after finish. The deviation is computed from
// squares around the mean, so that no digits cancel.
func (z *normaliser) ofWhole(i int) (s TokenScore) {
	tiles, weights := z.moments[i*z.tiles:(i+1)*z.tiles], row(z.peaks, i, z.tiles)
	var total, square float64
	for k, m := range tiles {
		w, apart := float64(weights[k]), m.peak-z.logs[i]
		total += float64(w * m.sum)
		s.Mean += float64(w * (m.powers[0] + float64(apart*m.sum)))
	}
	s.Mean /= total
	for k, m := range tiles {
		apart := m.peak - z.logs[i] - s.Mean
		square += float64(float64(weights[k]) * (m.powers[1] + float64(apart*(float64(2*m.powers[0])+float64(apart*m.sum)))))
	}
	s.Deviation = math.Sqrt(max(0, square/total))
	return s
}
