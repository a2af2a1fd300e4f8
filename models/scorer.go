package models

import (
	"fmt"
	"slices"
	"sync"

	"coalmine/internal/kernels"
)

// Scorer computes log probabilities under one set of parameters, prepared for the matrix kernels.
// It is immutable and safe for concurrent use; it becomes invalid when the parameters change.
//
// Results for a state are independent, bit for bit, of other states in the call, of their order and
// of their number.
type Scorer struct {
	model      *Language
	weights    weights
	layers     []scorerLayer    // layers of the decoder
	encoder    []scorerLayer    // empty for a plain model
	blocks     *blocks          // of a transformer, whose scorerLayers have no weights
	tiles      []kernels.Packed // of the transposed output weights
	floats     int64            // numbers kept in addition to packed matrices
	workspaces sync.Pool
}

type scorerLayer struct {
	cell
	input, projection kernels.Packed
	recurrent         recurrentWeights
}

// scoringBlock is the number of states that a workspace handles at a time: enough rows for the
// matrix kernels, few enough that a tile's logits stay in the cache. It does not affect any result.
const scoringBlock = 192

// workspace is the memory of one call.
type workspace struct {
	inputs    []float32 // [block, embedding]
	gates     []float32 // [block, gates]
	candidate []float32 // [block, units], of a GRU
	squash    []float32 // [units]
	emitted   []float32 // [block, units]
	logits    []float32 // [block, tileWidth]

	targets   []float32 // the logit of each row's target
	leads     []bool    // whether the target's logit is above all previous logits of its tile
	tops      []leaders // by row
	attending attending // of a transformer
	normaliser
}

// NewScorer prepares parameters for scoring. It keeps params and reads them later, and makes a copy
// of about the same size.
func (m *Language) NewScorer(params []float32) (*Scorer, error) {
	if err := CheckParameters(m, params); err != nil {
		return nil, err
	}
	s := &Scorer{model: m, weights: m.layout.views(params)}
	s.floats = int64(len(params))
	if b := m.layout.decoder.layers[0].blocks; b != nil {
		s.layers, s.blocks = []scorerLayer{{cell: m.cells[0]}}, b.prepare(m.cells[0], m.merge(sourceOf(params)))
	} else {
		s.layers = prepareLayers(m.cells, &s.weights.stackWeights)
	}
	if m.config.Separator != 0 {
		s.encoder = prepareLayers(m.cells, &s.weights.encoder)
	}
	s.packOutput()
	return s, nil
}

// packOutput prepares the output layer.
func (s *Scorer) packOutput() {
	m := s.model
	width, vocabulary := m.config.outputWidth(), m.config.Vocabulary
	s.tiles = make([]kernels.Packed, tileCount(vocabulary))
	for k := range s.tiles {
		from, to := tileBounds(vocabulary, k)
		kernels.PackB(true, width, to-from, s.weights.output[from*width:], width, &s.tiles[k])
	}
	s.workspaces.New = func() any { return newWorkspace(m) }
}

// Bytes returns the memory of the scorer, including its parameters, for caches.
func (s *Scorer) Bytes() int64 {
	bytes := 4 * s.floats
	for _, l := range slices.Concat(s.layers, s.encoder) {
		bytes += l.input.Bytes() + l.projection.Bytes() + l.recurrent.direct.Bytes() + l.recurrent.candidate.Bytes()
	}
	if s.blocks != nil {
		bytes += s.blocks.bytes()
	}
	for i := range s.tiles {
		bytes += s.tiles[i].Bytes()
	}
	return bytes
}

func prepareLayers(cells []cell, w *stackWeights) []scorerLayer {
	layers := make([]scorerLayer, len(cells))
	for i, c := range cells {
		layers[i].prepare(c, &w.layers[i])
	}
	return layers
}

func (l *scorerLayer) prepare(c cell, w *layerWeights) {
	l.cell = c
	kernels.PackB(false, c.in, c.gates(), w.input, c.gates(), &l.input)
	l.recurrent.pack(c, w)
	if c.projected {
		kernels.PackB(false, c.units, c.out, w.projection, c.out, &l.projection)
	}
}

func newWorkspace(m *Language) *workspace {
	c := m.cells[0]
	return &workspace{
		inputs:    make([]float32, scoringBlock*m.config.Embedding),
		gates:     make([]float32, scoringBlock*c.gates()),
		candidate: make([]float32, scoringBlock*c.units),
		squash:    make([]float32, c.units),
		emitted:   make([]float32, scoringBlock*c.fedWidth()),
		logits:    make([]float32, scoringBlock*tileWidth),
		targets:   make([]float32, scoringBlock),
		leads:     make([]bool, scoringBlock),
		tops:      make([]leaders, scoringBlock),
	}
}

// Model returns the model of the scorer.
func (s *Scorer) Model() *Language { return s.model }

// Feed feeds tokens to a single state, one after another, as Step does.
func (s *Scorer) Feed(state *States, tokens []int32) error {
	for i := range tokens {
		if err := s.Step(state, tokens[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Step feeds one token to each state, in place. To a state of an encoder-decoder it
// feeds the source up to the separator, and then the target.
func (s *Scorer) Step(states *States, tokens []int32) error {
	if err := s.checkStates(states, len(tokens), "tokens"); err != nil {
		return err
	}
	if err := checkTokens(tokens, s.model.config.Vocabulary); err != nil {
		return err
	}
	if err := s.checkContext(states); err != nil {
		return err
	}
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	for from := 0; from < len(tokens); {
		to := s.alike(states, tokens, from)
		s.stepRange(w, tokens, states, from, to)
		from = to
	}
	return nil
}

// alike returns the end of the run of states, from index from on, that are fed to the same layers,
// at most a block. A state that reads the separator moves on to the target.
func (s *Scorer) alike(states *States, tokens []int32, from int) (to int) {
	if s.encoder == nil {
		return min(from+scoringBlock, len(tokens))
	}
	reads := func(i int) bool { return states.reading[i] && tokens[i] != s.model.config.Separator }
	first := reads(from)
	for to = from; to < min(from+scoringBlock, len(tokens)) && reads(to) == first; to++ {
		states.reading[to] = first
	}
	return to
}

// LogProbs sets dst[i] to the natural logarithm of the probability that targets[i] follows state i,
// normalised over the whole vocabulary. Parameters that are not finite give NaN.
func (s *Scorer) LogProbs(states *States, targets []int32, dst []float32) error {
	if err := s.checkPredicts(states, len(targets), "targets"); err != nil {
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
	s.logProbs(w, states.top(), targets, dst, guesses{})
	return nil
}

// LogProbRows sets row i of dst [states, vocabulary] to the log probability of every token after
// state i: the same values as LogProbs, bit for bit.
func (s *Scorer) LogProbRows(states *States, dst []float32) error {
	vocabulary := s.model.config.Vocabulary
	if err := s.checkPredicts(states, states.Len(), "states"); err != nil {
		return err
	}
	if err := checkLength("the destination", len(dst), states.Len()*vocabulary); err != nil {
		return err
	}
	w := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(w)
	width, output := s.model.config.outputWidth(), states.top()
	for from := 0; from < states.Len(); from += scoringBlock {
		to := min(from+scoringBlock, states.Len())
		s.logProbRows(w, output[from*width:to*width], dst[from*vocabulary:to*vocabulary])
	}
	return nil
}

func (s *Scorer) checkStates(states *States, n int, name string) error {
	if !slices.Equal(states.cells, s.model.cells) {
		return fmt.Errorf("states of a model with %s, want %s", describe(states.cells), describe(s.model.cells))
	}
	if n != states.Len() {
		return fmt.Errorf("%d %s for %d states: want one each", n, name, states.Len())
	}
	return nil
}

// checkPredicts is checkStates for states after which a token is predicted.
func (s *Scorer) checkPredicts(states *States, n int, name string) error {
	if err := s.checkStates(states, n, name); err != nil {
		return err
	}
	if i := slices.Index(states.reading, true); i >= 0 {
		return fmt.Errorf("state %d has read a source without its end, and makes no prediction: feed it the separator %d first", i, s.model.config.Separator)
	}
	return nil
}

// step feeds one token to each of the first len(tokens) states, all of the source or
// all of the target.
func (s *Scorer) step(w *workspace, tokens []int32, states *States) {
	for from := 0; from < len(tokens); from += scoringBlock {
		s.stepRange(w, tokens, states, from, min(from+scoringBlock, len(tokens)))
	}
}

// stepRange is step for a block of states. The order of arithmetic equals that of
// cellTrace.forward.
func (s *Scorer) stepRange(w *workspace, tokens []int32, states *States, from, to int) {
	layers, weights := s.layers, &s.weights.stackWeights
	if states.reading[from] {
		layers, weights = s.encoder, &s.weights.encoder
	}
	gatherRows(w.inputs, weights.embedding, s.model.config.Embedding, tokens[from:to])
	x := w.inputs
	if s.blocks != nil {
		s.blocks.step(w, x, states.positions[from:to], states.output[0][from*s.blocks.out:to*s.blocks.out])
		return
	}
	for i := range layers {
		c := &layers[i]
		output := states.output[i][from*c.out : to*c.out]
		c.step(w, &weights.layers[i], x, states.memory[i][from*c.memory():to*c.memory()], output)
		x = output
	}
}

// step advances rows of memory and output by their inputs x.
func (l *scorerLayer) step(w *workspace, b *layerWeights, x, memory, output []float32) {
	c, n := l.cell, len(output)/l.out
	gates, candidate, emitted := w.gates[:n*c.gates()], w.candidate[:n*c.units], w.emitted[:n*c.units]
	if c.kind.resets {
		fillRows(candidate, b.candidateBias)
	}
	kernels.GemmPackedBias(false, n, x, c.in, &l.input, b.bias, gates, c.gates())
	recalled := output
	if c.kind.convolves {
		recalled = memory
	}
	l.recurrent.add(c, n, recalled, 1, gates, candidate)
	if !c.projected {
		emitted = output
	}
	for i := range n {
		memory := row(memory, i, c.memory())
		c.activate(row(gates, i, c.gates()), row(candidate, i, c.units), memory, memory, w.squash, row(emitted, i, c.units))
		c.remember(row(x, i, c.in), memory, memory)
	}
	if c.projected {
		kernels.GemmPacked(false, n, 1, emitted, c.units, &l.projection, 0, output, c.out)
	}
}

// guesses reports for each row whether its target is the most probable token (the lowest in a tie),
// whether it is one of the first TopGuesses, and the moments of the row's distribution, without
// LogProb. A nil field is not requested.
type guesses struct {
	hits, tops []bool
	wholes     []TokenScore
}

// logProbs scores one target per row of output, and fills in the requested fields of g.
func (s *Scorer) logProbs(w *workspace, output []float32, targets []int32, dst []float32, g guesses) {
	width := s.model.config.outputWidth()
	for from := 0; from < len(targets); from += scoringBlock {
		to := min(from+scoringBlock, len(targets))
		s.reduce(w, output[from*width:to*width], targets[from:to], g)
		if g.hits != nil {
			w.markHits(targets[from:to], g.hits[from:to])
		}
		if g.tops != nil {
			w.markTops(targets[from:to], g.tops[from:to])
		}
		w.finish()
		for i := range to - from {
			dst[from+i] = w.logProb(i, w.targets[i])
			if g.wholes != nil {
				g.wholes[from+i] = w.ofWhole(i)
			}
		}
	}
}

// reduce runs the rows through all tiles and keeps only the targets' logits and the data for
// guesses.
func (s *Scorer) reduce(w *workspace, output []float32, targets []int32, g guesses) {
	w.reset(len(targets), len(s.tiles))
	if g.tops != nil {
		clear(w.tops)
	}
	add := w.add
	if g.wholes != nil {
		w.moments, add = grow(w.moments, len(w.peaks)), w.addMoments
	}
	for k := range s.tiles {
		from, to := tileBounds(s.model.config.Vocabulary, k)
		columns := to - from
		s.tileLogits(k, len(targets), output, w.logits, columns)
		for i, target := range targets {
			logits := row(w.logits, i, columns)
			if at := int(target) - from; 0 <= at && at < columns {
				w.targets[i] = logits[at]
				w.leads[i] = g.hits != nil && kernels.Max(logits[:at]) < logits[at]
			}
			if g.tops != nil {
				w.tops[i].add(from, logits)
			}
			add(i, k, logits)
		}
	}
}

// tileLogits sets the leading columns of rows of dst, each stride long, to the logits of tile k.
func (s *Scorer) tileLogits(k, rows int, output, dst []float32, stride int) {
	from, to := tileBounds(s.model.config.Vocabulary, k)
	kernels.GemmPackedBias(false, rows, output, s.model.config.outputWidth(), &s.tiles[k], s.weights.outputBias[from:to], dst, stride)
}

// markHits compares each target's logit with the peaks of all tiles. Call it before finish, which
// changes the peaks.
func (w *workspace) markHits(targets []int32, hits []bool) {
	for i, target := range targets {
		hit, tile, logit := w.leads[i], int(target)/tileWidth, w.targets[i]
		for k, peak := range row(w.peaks, i, w.tiles) {
			hit = hit && (peak < logit || k >= tile && peak == logit)
		}
		hits[i] = hit
	}
}

func (w *workspace) markTops(targets []int32, tops []bool) {
	for i, target := range targets {
		tops[i] = w.tops[i].have(target)
	}
}

// logProbRows scores every token for the rows of output, which form a block.
func (s *Scorer) logProbRows(w *workspace, output, dst []float32) {
	s.logitRows(w, output, dst)
	for i := range w.logs {
		logits := row(dst, i, s.model.config.Vocabulary)
		for j, logit := range logits {
			logits[j] = w.logProb(i, logit)
		}
	}
}

// logitRows sets the rows of dst to the logits of the rows of output, which form a block, and reduces
// them to w's normaliser.
func (s *Scorer) logitRows(w *workspace, output, dst []float32) {
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
}
