package models

import "slices"

// encoderTrace reads the sources of a batch of pairs. Its last states are the
// decoder's first states, layer by layer, without dropout between them.
//
// Sources and targets are separate batches, each ordered by length, so a pair has a
// row of states in each, by its turn there.
type encoderTrace struct {
	stackTrace
	sources, targets [][]int32 // share their memory with the pairs

	place                  []int                 // turn in the encoder, by pair
	turns                  []int                 // turn in the encoder, by turn in the decoder
	ends, endGradients     [maxLayers]stateTrace // by turn in the encoder
	starts, startGradients [maxLayers]stateTrace // by turn in the decoder
}

func newEncoderTrace(m *Language) *encoderTrace {
	e := &encoderTrace{stackTrace: newStackTrace(m.config.Embedding, m.cells)}
	for i := range e.layers {
		e.layers[i].endGradient = &e.endGradients[i]
	}
	return e
}

// divide splits the pairs, validated by checkSentences, lays the sources out and
// returns the targets.
func (e *encoderTrace) divide(pairs [][]int32, separator int32) (targets [][]int32) {
	e.sources, e.targets = dividePairs(pairs, separator, e.sources[:0], e.targets[:0])
	e.batch.pack(e.sources)
	return e.targets
}

// dividePairs appends the sources and the targets of pairs. The separator belongs to both: it is
// the first token fed to the decoder and the last of the source, which is not fed because a batch
// uses the last token only as a target.
func dividePairs(pairs [][]int32, separator int32, sources, targets [][]int32) (s, t [][]int32) {
	for _, pair := range pairs {
		at := slices.Index(pair, separator)
		sources, targets = append(sources, pair[:at+1]), append(targets, pair[at:])
	}
	return sources, targets
}

// forward reads the sources and passes the last states to the decoder. The decoder's targets are
// laid out.
func (e *encoderTrace) forward(w *weights, d *dropout, decoder *stackTrace) {
	e.stackTrace.forward(&w.encoder, d)
	e.match(&decoder.batch)
	for i := range e.layers {
		c := &e.layers[i]
		c.end(&e.batch, &e.ends[i])
		start := &e.starts[i]
		start.resize(c.cell, len(e.turns))
		for turn, from := range e.turns {
			start.set(c.cell, turn, &e.ends[i], from)
		}
		decoder.layers[i].start = start
	}
}

func (e *encoderTrace) match(decoder *packed) {
	e.place, e.turns = e.batch.turns(e.place), grow(e.turns, len(decoder.order))
	for turn, pair := range decoder.order {
		e.turns[turn] = e.place[pair]
	}
}

// backward propagates the gradients of the decoder's first states through the encoder.
func (e *encoderTrace) backward(w *weights, d *dropout, decoder *stackTrace) {
	for i := range e.layers {
		c, gradient := &e.layers[i], &e.startGradients[i]
		decoder.layers[i].startGradient(&decoder.batch, gradient)
		e.endGradients[i].resize(c.cell, len(e.turns))
		for turn, to := range e.turns {
			e.endGradients[i].set(c.cell, to, gradient, turn)
		}
	}
	clear(e.top().gradient)
	e.stackTrace.backward(&w.encoder, d)
}

func (s *stateTrace) resize(c cell, n int) {
	s.memory, s.output = grow(s.memory, n*c.units), grow(s.output, n*c.out)
}

func (s *stateTrace) set(c cell, at int, from *stateTrace, i int) {
	copy(row(s.memory, at, c.units), row(from.memory, i, c.units))
	copy(row(s.output, at, c.out), row(from.output, i, c.out))
}
