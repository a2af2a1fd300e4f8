package models

import (
	"math"

	"coalmine/internal/kernels"
)

// TokenScore tells how well a model predicts one token, in nats.
type TokenScore struct {
	// LogProb is log p(token), as Scorer.LogProbs computes it.
	LogProb float32
	// Mean and Deviation are the mean and the standard deviation of log p(z), where z is drawn
	// from the model's own distribution of the next token: Mean is minus its entropy.
	Mean, Deviation float64
}

// TokenScores scores every token but the first of each sentence; of a pair, every token after
// the separator. A score that is not finite gives a *DivergedError.
func (s *Scorer) TokenScores(sentences [][]int32) ([][]TokenScore, error) {
	if err := checkSentences(sentences, s.model.config); err != nil {
		return nil, err
	}
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	var run evaluation
	var rows scoredRows
	all := make([][]TokenScore, 0, len(sentences))
	for from := 0; from < len(sentences); from += evaluationBlock {
		block := run.advance(s, w, sentences[from:min(from+evaluationBlock, len(sentences))])
		rows.score(s, w, &run)
		for i, sentence := range block {
			scores := make([]TokenScore, len(sentence)-1)
			for t := range scores {
				p := rows.scores[run.row(i, t)]
				if !finite(float64(p.LogProb) + p.Mean + p.Deviation) {
					return nil, &DivergedError{What: "log probability", Value: float64(p.LogProb)}
				}
				scores[t] = p
			}
			all = append(all, scores)
		}
	}
	return all, nil
}

// scoredRows are the scores of the rows of a batch, and their memory: logProbs of a block
// of rows [scoringBlock, vocabulary], probs and ones of one row.
type scoredRows struct {
	scores                []TokenScore
	logProbs, probs, ones []float32
}

func (r *scoredRows) score(s *Scorer, w *workspace, e *evaluation) {
	vocabulary, width := s.model.config.Vocabulary, s.model.config.outputWidth()
	r.scores = grow(r.scores, e.batch.rows())
	r.logProbs, r.probs = grow(r.logProbs, scoringBlock*vocabulary), grow(r.probs, vocabulary)
	for len(r.ones) < vocabulary {
		r.ones = append(r.ones, 1)
	}
	for from := 0; from < e.batch.rows(); from += scoringBlock {
		to := min(from+scoringBlock, e.batch.rows())
		s.logProbRows(w, e.outputs[from*width:to*width], r.logProbs[:(to-from)*vocabulary])
		for i := range to - from {
			r.scores[from+i] = r.moments(row(r.logProbs, i, vocabulary), e.batch.targets[from+i])
		}
	}
}

// moments overwrites the log probabilities by their distances from the mean.
func (r *scoredRows) moments(logProbs []float32, target int32) TokenScore {
	p := TokenScore{LogProb: logProbs[target]}
	kernels.Exp(r.probs, logProbs)
	p.Mean = kernels.Dot(r.probs, logProbs)
	kernels.Axpy(-float32(p.Mean), r.ones, logProbs)
	kernels.Mul(r.probs, r.probs, logProbs)
	p.Deviation = math.Sqrt(max(0, kernels.Dot(r.probs, logProbs)))
	return p
}
