package models

import (
	"fmt"
	"math"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
)

// Tally sums the predictions of some targets.
type Tally struct {
	// Tokens is the number of targets.
	Tokens int64 `json:"tokens"`
	// Hits is the number of targets that were the most probable token of the whole vocabulary (the
	// lowest id in a tie).
	Hits int64 `json:"hits"`
	// Loss is the sum of -log p(target), in nats.
	Loss float64 `json:"loss"`
	// TopHits is the number of targets among the TopGuesses most probable tokens, lower ones first
	// in a tie. 0 if not requested.
	TopHits int64 `json:"top_hits,omitempty"`
}

// Add returns the sum of two tallies.
func (t Tally) Add(o Tally) Tally {
	return Tally{Tokens: t.Tokens + o.Tokens, Hits: t.Hits + o.Hits, Loss: t.Loss + o.Loss, TopHits: t.TopHits + o.TopHits}
}

// Recall is the share of hits, recall@1. It is NaN for no targets.
func (t Tally) Recall() float64 { return float64(t.Hits) / float64(t.Tokens) }

// TopRecall is the share of targets among the TopGuesses first guesses, recall@5. It is NaN
// for no targets.
func (t Tally) TopRecall() float64 { return float64(t.TopHits) / float64(t.Tokens) }

// Perplexity is exp of the mean loss, at least 1; +Inf if the mean loss is above 709.78 nats,
// beyond the range of float64. It is NaN for no targets.
func (t Tally) Perplexity() float64 { return math.Exp(t.Loss / float64(t.Tokens)) }

// Evaluation measures a model's predictions of sentences.
type Evaluation struct {
	// Counted tallies the targets that the caller counts: ordinary words.
	Counted Tally `json:"counted"`
	// All tallies every target.
	All Tally `json:"all"`
}

// Add returns the sum of two evaluations.
func (e Evaluation) Add(o Evaluation) Evaluation {
	return Evaluation{Counted: e.Counted.Add(o.Counted), All: e.All.Add(o.All)}
}

// evaluationBlock is the number of sentences processed together. It does not affect any result.
const evaluationBlock = scoringBlock

// Evaluate predicts every token except the first of each sentence; in a pair, every token after the
// separator. counted selects the targets of Evaluation.Counted; nil selects all.
//
// Losses are summed in float64, target by target within a sentence and then sentence by sentence in
// the order given. A loss that is not finite gives a *DivergedError.
func (s *Scorer) Evaluate(sentences [][]int32, counted func(target int32) bool) (Evaluation, error) {
	return s.evaluate(sentences, counted, false)
}

// EvaluateTop is Evaluate with Tally.TopHits.
func (s *Scorer) EvaluateTop(sentences [][]int32, counted func(target int32) bool) (Evaluation, error) {
	return s.evaluate(sentences, counted, true)
}

func (s *Scorer) evaluate(sentences [][]int32, counted func(target int32) bool, top bool) (Evaluation, error) {
	if err := checkSentences(sentences, s.model.config); err != nil {
		return Evaluation{}, err
	}
	var total Evaluation
	run := evaluation{top: top}
	for from := 0; from < len(sentences); from += evaluationBlock {
		block := sentences[from:min(from+evaluationBlock, len(sentences))]
		run.tally(run.score(s, block), counted, &total)
	}
	if !numbers.IsFinite(total.All.Loss) {
		return Evaluation{}, &DivergedError{Name: "loss", Value: total.All.Loss}
	}
	return total, nil
}

// Losses returns, for each sentence, its log-perplexity, the sum of -log p over every token except
// the first (in a pair, over every token after the separator), in nats, and the number of these
// tokens. Each sentence has at least two tokens. A loss that is not finite gives a *DivergedError.
func (s *Scorer) Losses(sentences [][]int32) ([]Loss, error) { return s.losses(sentences, nil) }

// LossesAfter is Losses for sentences that follow a text: each starts from the only state in
// states, which has read that text. It is an error for an encoder-decoder.
func (s *Scorer) LossesAfter(states *States, sentences [][]int32) ([]Loss, error) {
	if s.encoder != nil {
		return nil, fmt.Errorf("losses after a text by a model of pairs: want a model without an encoder")
	}
	if err := s.checkPredicts(states, 1, "state"); err != nil {
		return nil, err
	}
	for i, sentence := range sentences {
		if p := states.positions; len(p) > 0 && p[0].length()+len(sentence)-1 > s.model.cells[0].context {
			return nil, fmt.Errorf("sentence %d has %d tokens after a text of %d: want at most one more than the context of %d together", i, len(sentence), p[0].length(), s.model.cells[0].context)
		}
	}
	return s.losses(sentences, states)
}

func (s *Scorer) losses(sentences [][]int32, after *States) ([]Loss, error) {
	if err := checkSentences(sentences, s.model.config); err != nil {
		return nil, err
	}
	losses := make([]Loss, 0, len(sentences))
	run := evaluation{after: after}
	for from := 0; from < len(sentences); from += evaluationBlock {
		block := sentences[from:min(from+evaluationBlock, len(sentences))]
		for i, sentence := range run.score(s, block) {
			loss := Loss{Tokens: len(sentence) - 1}
			for t := range sentence[1:] {
				loss.Sum -= float64(run.logProbs[run.row(i, t)])
			}
			if !numbers.IsFinite(loss.Sum) {
				return nil, &DivergedError{Name: "loss", Value: loss.Sum}
			}
			losses = append(losses, loss)
		}
	}
	return losses, nil
}

// MeanLosses returns Losses per token.
func (s *Scorer) MeanLosses(sentences [][]int32) ([]float64, error) {
	losses, err := s.Losses(sentences)
	if err != nil {
		return nil, err
	}
	return lists.Map(losses, Loss.Mean), nil
}

// evaluation is the memory of Evaluate: logProbs and guesses are per row of batch,
// ranks per sentence.
type evaluation struct {
	top      bool    // guesses.tops are requested
	whole    bool    // guesses.wholes are requested
	after    *States // the initial state of sentences; nil for the empty state
	batch    packed
	sources  sourceReader
	states   States    // states of the sentences, longest first
	outputs  []float32 // [rows, out]
	logProbs []float32
	guesses
	ranks []int
}

// score fills in logProbs, hits and ranks of a block of sentences, and returns the sentences; for
// pairs, the targets, which begin with the separator.
func (e *evaluation) score(s *Scorer, sentences [][]int32) [][]int32 {
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	sentences = e.advance(s, w, sentences)
	rows := e.batch.rows()
	e.logProbs = grow(e.logProbs, rows)
	if e.whole {
		e.wholes = grow(e.wholes, rows)
	} else {
		e.hits = grow(e.hits, rows)
	}
	if e.top {
		e.tops = grow(e.tops, rows)
	}
	s.logProbs(w, e.outputs, e.batch.targets, e.logProbs, e.guesses)
	return sentences
}

// advance fills in outputs and ranks of a block of sentences, and returns the sentences as
// score does.
func (e *evaluation) advance(s *Scorer, w *workspace, sentences [][]int32) [][]int32 {
	if s.encoder == nil {
		e.batch.pack(sentences)
		e.states.reset(s.model, e.batch.active(0))
		if e.after != nil {
			for i := range e.states.Len() {
				e.states.copyState(i, e.after, 0)
			}
		}
	} else {
		sentences = e.sources.read(s, w, sentences)
		e.batch.pack(sentences)
		e.sources.start(&e.states, e.batch.order)
	}
	width := s.model.config.outputWidth()
	e.outputs = grow(e.outputs, e.batch.rows()*width)
	for t := range e.batch.steps() {
		start, end := e.batch.start[t], e.batch.start[t+1]
		s.step(w, e.batch.inputs[start:end], &e.states)
		copy(e.outputs[start*width:end*width], e.states.top())
	}
	e.ranks = e.batch.turns(e.ranks)
	return sentences
}

// sourceReader runs the encoder over the sources of pairs.
type sourceReader struct {
	batch            packed
	sources, targets [][]int32
	states           States // longest source first
	turns            []int  // turn by pair
}

// read reads the sources, and returns the targets.
func (r *sourceReader) read(s *Scorer, w *workspace, pairs [][]int32) (targets [][]int32) {
	r.sources, r.targets = dividePairs(pairs, s.model.config.Separator, r.sources[:0], r.targets[:0])
	r.batch.pack(r.sources)
	r.states.reset(s.model, len(pairs))
	for t := range r.batch.steps() {
		s.step(w, r.batch.inputs[r.batch.start[t]:r.batch.start[t+1]], &r.states)
	}
	return r.targets
}

// start sets states to the initial states for the targets of pairs, in the given order.
func (r *sourceReader) start(states *States, pairs []int) {
	r.turns = r.batch.turns(r.turns)
	states.reserve(r.states.cells, len(pairs))
	for at, pair := range pairs {
		states.copyState(at, &r.states, r.turns[pair])
	}
	clear(states.reading)
}

// row returns the row of the prediction of target t of sentence i.
func (e *evaluation) row(i, t int) int { return e.batch.start[t] + e.ranks[i] }

// tally adds the block's predictions in the order of its sentences.
func (e *evaluation) tally(sentences [][]int32, counted func(int32) bool, total *Evaluation) {
	for i, sentence := range sentences {
		for t, target := range sentence[1:] {
			at := e.row(i, t)
			top := e.top && e.tops[at]
			total.All.add(e.logProbs[at], e.hits[at], top)
			if counted == nil || counted(target) {
				total.Counted.add(e.logProbs[at], e.hits[at], top)
			}
		}
	}
}

func (t *Tally) add(logProb float32, hit, top bool) {
	t.Tokens++
	t.Loss -= float64(logProb)
	if hit {
		t.Hits++
	}
	if top {
		t.TopHits++
	}
}
