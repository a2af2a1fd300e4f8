package models

import "fmt"

// source returns the values of a layout's spans.
type source interface {
	// keep returns values that stay valid; nil for an empty span.
	keep(at Span) []float32
	// lend returns values that stay valid until the next call of lend.
	lend(at Span) []float32
}

// sourceOf is a source that shares a flat vector.
type sourceOf []float32

func (flat sourceOf) keep(at Span) []float32 {
	if at == (Span{}) {
		return nil
	}
	return at.Of(flat)
}

func (flat sourceOf) lend(at Span) []float32 { return at.Of(flat) }

// reading is a source that reads one tensor at a time through a function.
type reading struct {
	tensors map[int]Tensor // by offset
	read    func(t Tensor, values []float32) error
	lent    []float32
	kept    int64
	err     error // the first error
}

func (r *reading) keep(at Span) []float32 {
	if at == (Span{}) {
		return nil
	}
	r.kept += int64(at.To - at.From)
	values := make([]float32, at.To-at.From)
	r.fill(at, values)
	return values
}

func (r *reading) lend(at Span) []float32 {
	r.lent = grow(r.lent, at.To-at.From)
	r.fill(at, r.lent)
	return r.lent
}

func (r *reading) fill(at Span, values []float32) {
	if r.err == nil {
		r.err = r.read(r.tensors[at.From], values)
	}
}

// ReadScorer prepares a Transformer whose tensors read fills in, each once. Unlike NewScorer it needs
// no vector of all parameters: the memory is Scorer.Bytes and the largest tensor. The values must be finite.
func (m *Language) ReadScorer(read func(t Tensor, values []float32) error) (*Scorer, error) {
	layout := &m.layout
	b := layout.decoder.layers[0].blocks
	if b == nil {
		return nil, fmt.Errorf("a model of kind %s is prepared from all of its parameters; expected kind %s", m.config.Kind, Transformer)
	}
	r := &reading{tensors: map[int]Tensor{}, read: read}
	for _, t := range layout.tensors {
		r.tensors[t.Offset] = t
	}
	s := &Scorer{model: m}
	s.weights.embedding = r.keep(layout.decoder.embedding)
	s.layers, s.blocks = []scorerLayer{{cell: m.cells[0]}}, b.prepare(m.cells[0], m.merge(r))
	s.weights.output = s.weights.embedding
	if m.config.Untied {
		s.weights.output = r.keep(layout.output)
	}
	s.weights.outputBias = r.keep(layout.outputBias)
	if r.err != nil {
		return nil, r.err
	}
	s.floats = r.kept
	s.packOutput()
	return s, nil
}
