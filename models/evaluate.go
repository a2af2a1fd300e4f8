package models

import "math"

// Tally sums the predictions of some targets.
type Tally struct {
	// Tokens is the number of targets.
	Tokens int64 `json:"tokens"`
	// Hits is how many were the most probable token of the whole vocabulary
	// (the lowest id among equals).
	Hits int64 `json:"hits"`
	// Loss is the sum of -log p(target), in nats.
	Loss float64 `json:"loss"`
}

// Add sums two tallies.
func (t Tally) Add(o Tally) Tally {
	return Tally{Tokens: t.Tokens + o.Tokens, Hits: t.Hits + o.Hits, Loss: t.Loss + o.Loss}
}

// Recall is the share of hits, recall@1. It is NaN for no targets.
func (t Tally) Recall() float64 { return float64(t.Hits) / float64(t.Tokens) }

// Perplexity is exp of the mean loss, at least 1. It is NaN for no targets.
func (t Tally) Perplexity() float64 { return math.Exp(t.Loss / float64(t.Tokens)) }

// Evaluation is how well a model predicts sentences.
type Evaluation struct {
	// Counted tallies the targets that the caller counts: ordinary words.
	Counted Tally `json:"counted"`
	// All tallies every target.
	All Tally `json:"all"`
}

// Add sums two evaluations.
func (e Evaluation) Add(o Evaluation) Evaluation {
	return Evaluation{Counted: e.Counted.Add(o.Counted), All: e.All.Add(o.All)}
}

// evaluationBlock is how many sentences run together. It does not show in any result.
const evaluationBlock = scoringBlock

// Evaluate predicts every token but the first of each sentence. counted says
// which targets belong to Evaluation.Counted; nil counts them all.
//
// Losses are summed in float64 target by target through a sentence, and
// sentence by sentence in the order given. A loss that is not finite gives a
// *DivergedError.
func (s *Scorer) Evaluate(sentences [][]int32, counted func(target int32) bool) (Evaluation, error) {
	if err := checkSentences(sentences, s.model.config.Vocabulary); err != nil {
		return Evaluation{}, err
	}
	var total Evaluation
	var run evaluation
	for from := 0; from < len(sentences); from += evaluationBlock {
		block := sentences[from:min(from+evaluationBlock, len(sentences))]
		run.score(s, block)
		run.tally(block, counted, &total)
	}
	if !finite(total.All.Loss) {
		return Evaluation{}, &DivergedError{What: "loss", Value: total.All.Loss}
	}
	return total, nil
}

// MeanLosses is the mean of -log p over every token but the first of each sentence, in
// nats, sentence by sentence: its log-perplexity for each token. Each has at least two
// tokens. A loss that is not finite gives a *DivergedError.
func (s *Scorer) MeanLosses(sentences [][]int32) ([]float64, error) {
	if err := checkSentences(sentences, s.model.config.Vocabulary); err != nil {
		return nil, err
	}
	losses := make([]float64, 0, len(sentences))
	var run evaluation
	for from := 0; from < len(sentences); from += evaluationBlock {
		block := sentences[from:min(from+evaluationBlock, len(sentences))]
		run.score(s, block)
		for i, sentence := range block {
			var total Tally
			for t := range sentence[1:] {
				at := run.row(i, t)
				total.add(run.logProbs[at], run.hits[at])
			}
			mean := total.Loss / float64(total.Tokens)
			if !finite(mean) {
				return nil, &DivergedError{What: "loss", Value: mean}
			}
			losses = append(losses, mean)
		}
	}
	return losses, nil
}

// evaluation is the memory of Evaluate: logProbs and hits are per row of batch,
// ranks per sentence.
type evaluation struct {
	batch    packed
	states   States    // of the sentences, the longest first
	outputs  []float32 // [rows, out]
	logProbs []float32
	hits     []bool
	ranks    []int
}

// score fills in logProbs, hits and ranks of a block of sentences.
func (e *evaluation) score(s *Scorer, sentences [][]int32) {
	e.batch.pack(sentences)
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	width := s.model.config.outputWidth()
	e.states.reset(s.model, e.batch.active(0))
	e.outputs = grow(e.outputs, e.batch.rows()*width)
	e.logProbs, e.hits = grow(e.logProbs, e.batch.rows()), grow(e.hits, e.batch.rows())
	for t := range e.batch.steps() {
		start, end := e.batch.start[t], e.batch.start[t+1]
		s.step(w, e.batch.inputs[start:end], &e.states)
		copy(e.outputs[start*width:end*width], e.states.top())
	}
	s.logProbs(w, e.outputs, e.batch.targets, e.logProbs, e.hits)
	e.ranks = grow(e.ranks, len(sentences))
	for rank, i := range e.batch.order {
		e.ranks[i] = rank
	}
}

// row is where the prediction of target t of sentence i stands.
func (e *evaluation) row(i, t int) int { return e.batch.start[t] + e.ranks[i] }

// tally adds the block's predictions in the order of its sentences.
func (e *evaluation) tally(sentences [][]int32, counted func(int32) bool, total *Evaluation) {
	for i, sentence := range sentences {
		for t, target := range sentence[1:] {
			at := e.row(i, t)
			total.All.add(e.logProbs[at], e.hits[at])
			if counted == nil || counted(target) {
				total.Counted.add(e.logProbs[at], e.hits[at])
			}
		}
	}
}

func (t *Tally) add(logProb float32, hit bool) {
	t.Tokens++
	t.Loss -= float64(logProb)
	if hit {
		t.Hits++
	}
}
