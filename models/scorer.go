package models

import (
	"fmt"
	"sync"

	"coalmine/internal/kernels"
)

// Scorer computes log probabilities under one set of parameters, which it has
// prepared for the matrix kernels. It is immutable and safe for concurrent use;
// it must not outlive a change of the parameters it was made from.
//
// All its results are bit for bit independent of which states are scored
// together, of their order and of their number.
type Scorer struct {
	model                        *Language
	weights                      weights
	input, recurrent, projection kernels.Packed
	tiles                        []kernels.Packed // of the transposed embedding
	workspaces                   sync.Pool
}

// scoringBlock is how many states a workspace handles at a time: enough rows
// for the matrix kernels, few enough that a tile's logits stay in the cache.
// It does not show in any result.
const scoringBlock = 192

// workspace is the memory of one call.
type workspace struct {
	inputs  []float32 // [block, width]
	gates   []float32 // [block, 3*units]
	squash  []float32 // [units]
	emitted []float32 // [block, units]
	logits  []float32 // [block, tileWidth]

	targets []float32 // the logit of each row's target
	leads   []bool    // whether it is above every logit before it in its tile
	normaliser
}

// NewScorer prepares parameters for scoring. It keeps params and reads them
// later; its own copy takes about as much memory again.
func (m *Language) NewScorer(params []float32) (*Scorer, error) {
	if err := m.CheckParameters(params); err != nil {
		return nil, err
	}
	s := &Scorer{model: m, weights: m.layout.views(params)}
	cell, vocabulary := m.cell(), m.config.Vocabulary
	kernels.PackB(false, cell.width, cell.gates(), s.weights.input, cell.gates(), &s.input)
	kernels.PackB(false, cell.width, cell.gates(), s.weights.recurrent, cell.gates(), &s.recurrent)
	kernels.PackB(false, cell.units, cell.width, s.weights.projection, cell.width, &s.projection)
	s.tiles = make([]kernels.Packed, tileCount(vocabulary))
	for k := range s.tiles {
		from, to := tileBounds(vocabulary, k)
		kernels.PackB(true, cell.width, to-from, s.weights.embedding[from*cell.width:], cell.width, &s.tiles[k])
	}
	s.workspaces.New = func() any { return newWorkspace(cell) }
	return s, nil
}

func newWorkspace(c cell) *workspace {
	return &workspace{
		inputs:  make([]float32, scoringBlock*c.width),
		gates:   make([]float32, scoringBlock*c.gates()),
		squash:  make([]float32, c.units),
		emitted: make([]float32, scoringBlock*c.units),
		logits:  make([]float32, scoringBlock*tileWidth),
		targets: make([]float32, scoringBlock),
		leads:   make([]bool, scoringBlock),
	}
}

// Model returns the model whose parameters are scored.
func (s *Scorer) Model() *Language { return s.model }

// States are what a model remembers of a number of token sequences, one state
// each. Any scorer of the same sizes may continue them, though only the one
// that made them does so sensibly. The zero value holds none, and is for Gather.
type States struct {
	cell   cell
	memory []float32 // [n, units]
	output []float32 // [n, width]
}

// Start returns n states of the empty sequence. Feed each its begin token
// first: training never asks for a prediction from nothing.
func (s *Scorer) Start(n int) *States {
	c := s.model.cell()
	return &States{cell: c, memory: make([]float32, n*c.units), output: make([]float32, n*c.width)}
}

// Len is the number of states.
func (s *States) Len() int {
	if s.cell.width == 0 { // the zero value, before Gather
		return 0
	}
	return len(s.output) / s.cell.width
}

// Gather makes s hold copies of the chosen states of from, in the order of
// indices, which may repeat and be of any number. It reuses the memory of s,
// which must be another batch than from. An index out of range is an error.
func (s *States) Gather(from *States, indices []int) error {
	if s == from {
		return fmt.Errorf("states cannot be gathered into themselves: gather into another batch")
	}
	for _, i := range indices {
		if i < 0 || i >= from.Len() {
			return fmt.Errorf("state %d cannot be gathered from %d states: they count from 0", i, from.Len())
		}
	}
	s.cell = from.cell
	units, width := s.cell.units, s.cell.width
	s.memory = grow(s.memory, len(indices)*units)
	s.output = grow(s.output, len(indices)*width)
	for to, i := range indices {
		copy(row(s.memory, to, units), row(from.memory, i, units))
		copy(row(s.output, to, width), row(from.output, i, width))
	}
	return nil
}

// Step feeds one token to each state, in place.
func (s *Scorer) Step(states *States, tokens []int32) error {
	if err := s.checkStates(states, len(tokens), "tokens"); err != nil {
		return err
	}
	if err := checkTokens(tokens, s.model.config.Vocabulary); err != nil {
		return err
	}
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	s.step(w, tokens, states.memory, states.output)
	return nil
}

// LogProbs sets dst[i] to the natural logarithm of the probability that
// targets[i] follows state i, normalised over the whole vocabulary. Parameters
// that are not finite give NaN.
func (s *Scorer) LogProbs(states *States, targets []int32, dst []float32) error {
	if err := s.checkStates(states, len(targets), "targets"); err != nil {
		return err
	}
	if err := checkLength("the destination", len(dst), len(targets)); err != nil {
		return err
	}
	if err := checkTokens(targets, s.model.config.Vocabulary); err != nil {
		return err
	}
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	s.logProbs(w, states.output, targets, dst, nil)
	return nil
}

// LogProbRows sets row i of dst [states, vocabulary] to the log probability of
// every token after state i: the same numbers as LogProbs, bit for bit.
func (s *Scorer) LogProbRows(states *States, dst []float32) error {
	vocabulary := s.model.config.Vocabulary
	if err := s.checkStates(states, states.Len(), "states"); err != nil {
		return err
	}
	if err := checkLength("the destination", len(dst), states.Len()*vocabulary); err != nil {
		return err
	}
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	width := states.cell.width
	for from := 0; from < states.Len(); from += scoringBlock {
		to := min(from+scoringBlock, states.Len())
		s.logProbRows(w, states.output[from*width:to*width], dst[from*vocabulary:to*vocabulary])
	}
	return nil
}

func (s *Scorer) checkStates(states *States, n int, what string) error {
	if states.cell != s.model.cell() {
		return fmt.Errorf("states of a model with %d units and width %d, want %d and %d",
			states.cell.units, states.cell.width, s.model.config.Units, s.model.config.Embedding)
	}
	if n != states.Len() {
		return fmt.Errorf("%d %s for %d states: want one each", n, what, states.Len())
	}
	return nil
}

// step advances rows of memory and output by their tokens. The order of
// arithmetic is that of cellTrace.forward.
func (s *Scorer) step(w *workspace, tokens []int32, memory, output []float32) {
	c := s.model.cell()
	for from := 0; from < len(tokens); from += scoringBlock {
		to := min(from+scoringBlock, len(tokens))
		n, gates := to-from, w.gates[:(to-from)*c.gates()]
		memory, output := memory[from*c.units:to*c.units], output[from*c.width:to*c.width]
		gatherRows(w.inputs, s.weights.embedding, c.width, tokens[from:to])
		fillRows(gates, s.weights.bias)
		kernels.GemmPacked(false, n, 1, w.inputs, c.width, &s.input, 1, gates, c.gates())
		kernels.GemmPacked(false, n, 1, output, c.width, &s.recurrent, 1, gates, c.gates())
		for i := range n {
			memory := row(memory, i, c.units)
			kernels.CIFGForward(row(gates, i, c.gates()), memory, memory, w.squash, row(w.emitted, i, c.units))
		}
		kernels.GemmPacked(false, n, 1, w.emitted, c.units, &s.projection, 0, output, c.width)
	}
}

// logProbs scores one target per row of output. With hits it also records
// whether the target is the most probable token, the lowest of equals.
func (s *Scorer) logProbs(w *workspace, output []float32, targets []int32, dst []float32, hits []bool) {
	width := s.model.config.Embedding
	for from := 0; from < len(targets); from += scoringBlock {
		to := min(from+scoringBlock, len(targets))
		s.reduce(w, output[from*width:to*width], targets[from:to], hits != nil)
		if hits != nil {
			w.markHits(targets[from:to], hits[from:to])
		}
		w.finish()
		for i := range to - from {
			dst[from+i] = w.logProb(i, w.targets[i])
		}
	}
}

// reduce runs the rows through all tiles, keeping only the targets' logits.
func (s *Scorer) reduce(w *workspace, output []float32, targets []int32, lead bool) {
	w.reset(len(targets), len(s.tiles))
	for k := range s.tiles {
		from, to := tileBounds(s.model.config.Vocabulary, k)
		columns := to - from
		s.tileLogits(k, len(targets), output, w.logits, columns)
		for i, target := range targets {
			logits := row(w.logits, i, columns)
			if at := int(target) - from; 0 <= at && at < columns {
				w.targets[i] = logits[at]
				w.leads[i] = lead && kernels.Max(logits[:at]) < logits[at]
			}
			w.add(i, k, logits)
		}
	}
}

// tileLogits sets the leading columns of rows of dst, each stride long, to the
// logits of tile k.
func (s *Scorer) tileLogits(k, rows int, output, dst []float32, stride int) {
	from, to := tileBounds(s.model.config.Vocabulary, k)
	for i := range rows {
		copy(dst[i*stride:], s.weights.outputBias[from:to])
	}
	kernels.GemmPacked(false, rows, 1, output, s.model.config.Embedding, &s.tiles[k], 1, dst, stride)
}

// markHits compares each target's logit with the peaks of all tiles. It must
// come before finish, which changes the peaks.
func (w *workspace) markHits(targets []int32, hits []bool) {
	for i, target := range targets {
		hit, own, logit := w.leads[i], int(target)/tileWidth, w.targets[i]
		for k, peak := range row(w.peaks, i, w.tiles) {
			hit = hit && (peak < logit || k >= own && peak == logit)
		}
		hits[i] = hit
	}
}

// logProbRows scores every token for the rows of output, which form a block.
func (s *Scorer) logProbRows(w *workspace, output, dst []float32) {
	vocabulary := s.model.config.Vocabulary
	rows := len(dst) / vocabulary
	w.reset(rows, len(s.tiles))
	for k := range s.tiles {
		from, to := tileBounds(vocabulary, k)
		s.tileLogits(k, rows, output, dst[from:], vocabulary)
		for i := range rows {
			n := copy(w.logits, row(dst, i, vocabulary)[from:to])
			w.add(i, k, w.logits[:n])
		}
	}
	w.finish()
	for i := range rows {
		logits := row(dst, i, vocabulary)
		for j, logit := range logits {
			logits[j] = w.logProb(i, logit)
		}
	}
}
