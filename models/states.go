package models

import (
	"fmt"
	"slices"
)

// States holds one state of a model per token sequence. Any scorer of the same sizes may continue
// them, but only the scorer that made them gives meaningful results. The zero value is empty, for
// use by Gather.
type States struct {
	n     int
	cells []cell
	// reading reports for each state whether it is the encoder's, before the separator.
	reading []bool
	// By layer: [n, memory()] and [n, out].
	memory, output [maxLayers][]float32
	// positions are the last positions of a transformer, nil before the first token; empty for other models.
	positions []*position
}

// Start returns n states of the empty sequence. Feed each its begin token first: training never
// predicts from an empty sequence.
func (s *Scorer) Start(n int) *States {
	states := new(States)
	states.reset(s.model, n)
	return states
}

// reset makes n states of the empty sequence.
func (s *States) reset(m *Language, n int) {
	s.reserve(m.cells, n)
	for i := range s.reading {
		s.reading[i] = m.config.Separator != 0
	}
	for i := range m.cells {
		clear(s.memory[i])
		clear(s.output[i])
	}
}

// reserve makes room for n states that read no source, with arbitrary values.
func (s *States) reserve(cells []cell, n int) {
	s.cells, s.n = cells, n
	s.reading = grow(s.reading, n)
	clear(s.reading)
	s.positions = s.positions[:0]
	for i, c := range cells {
		s.memory[i] = grow(s.memory[i], n*c.memory())
		s.output[i] = grow(s.output[i], n*c.out)
		if c.kind.attends {
			s.positions = grow(s.positions, n)
		}
	}
	clear(s.positions)
}

// Len returns the number of states.
func (s *States) Len() int { return s.n }

// recalled returns the operand of layer i's weights U: [n, recalled()].
func (s *States) recalled(i int) []float32 {
	if s.cells[i].kind.convolves {
		return s.memory[i]
	}
	return s.output[i]
}

func (s *States) top() []float32 { return s.output[len(s.cells)-1] }

// Gather makes s hold copies of the chosen states of from, in the order of indices, which may
// repeat. It reuses the memory of s, which must not be from. An index out of range is an error.
func (s *States) Gather(from *States, indices []int) error {
	if s == from {
		return fmt.Errorf("states cannot be gathered into themselves: gather into another batch")
	}
	for _, i := range indices {
		if i < 0 || i >= from.Len() {
			return fmt.Errorf("state %d cannot be gathered from %d states: they count from 0", i, from.Len())
		}
	}
	s.reserve(from.cells, len(indices))
	for to, i := range indices {
		s.reading[to] = from.reading[i]
	}
	for to := range s.positions {
		s.positions[to] = from.positions[indices[to]]
	}
	for l, c := range s.cells {
		gatherStates(s.memory[l], from.memory[l], c.memory(), indices)
		gatherStates(s.output[l], from.output[l], c.out, indices)
	}
	return nil
}

func gatherStates(dst, src []float32, width int, indices []int) {
	for to, i := range indices {
		copy(row(dst, to, width), row(src, i, width))
	}
}

// Set copies state i of from to state at of s. Both must have the same sizes. An index out of range
// is an error.
func (s *States) Set(at int, from *States, i int) error {
	if !slices.Equal(s.cells, from.cells) {
		return fmt.Errorf("a state of %s cannot be set to one of %s", describe(s.cells), describe(from.cells))
	}
	if at < 0 || at >= s.n || i < 0 || i >= from.n {
		return fmt.Errorf("state %d of %d cannot be set to state %d of %d: they count from 0", at, s.n, i, from.n)
	}
	s.copyState(at, from, i)
	return nil
}

func (s *States) copyState(at int, from *States, i int) {
	s.reading[at] = from.reading[i]
	if len(s.positions) > 0 {
		s.positions[at] = from.positions[i]
	}
	for l, c := range s.cells {
		copy(row(s.memory[l], at, c.memory()), row(from.memory[l], i, c.memory()))
		copy(row(s.output[l], at, c.out), row(from.output[l], i, c.out))
	}
}

// StateBytes returns the memory of one state of the model; for a transformer, of its last position
// only.
func (m *Language) StateBytes() int {
	n := 0
	for _, c := range m.cells {
		n += 4 * (c.memory() + c.out)
		if c.kind.attends {
			n += 4 * 2 * c.blocks * c.keyWidth()
		}
	}
	return n
}

func describe(cells []cell) string {
	if len(cells) == 0 {
		return "0 units"
	}
	c := cells[0]
	if c.kind.attends {
		return fmt.Sprintf("width %d, %d heads and a context of %d in %d blocks of %s", c.in, c.heads, c.context, c.blocks, c.kind.Kind)
	}
	return fmt.Sprintf("%d units and width %d in %d layers of %s", c.units, c.out, len(cells), c.kind.Kind)
}
