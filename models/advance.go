package models

import (
	"fmt"

	"coalmine/internal/kernels"
)

// Advance makes to the states that follow the extensions, in their order: the
// same as Gather and Step bit for bit. Extensions are sorted by parent and token;
// to must be another batch than from.
func (w *Walker) Advance(to, from *States, extensions []Extension) error {
	if err := w.checkAdvance(to, from, extensions); err != nil {
		return err
	}
	to.reserve(from.cells, len(extensions))
	for at := 0; at < len(extensions); {
		block := extensions[at:min(at+scoringBlock, len(extensions))]
		w.lowest(to, from, block, at)
		w.above(to, from, block, at)
		at += len(block)
	}
	return nil
}

func (w *Walker) checkAdvance(to, from *States, extensions []Extension) error {
	if to == from {
		return fmt.Errorf("states cannot be advanced in place along extensions: advance into another batch")
	}
	return w.check(from, extensions, len(extensions))
}

// lowest advances the lowest layer along a block of extensions, whose states are
// to's from at on. The order of arithmetic is that of scorerLayer.step.
func (w *Walker) lowest(to, from *States, extensions []Extension, at int) {
	w.emit(to, from, extensions, nil, at)
	w.project(to, len(extensions), at)
}

// emit is lowest up to the projection. Prospects, if any, show what will be read
// next.
func (w *Walker) emit(to, from *States, extensions []Extension, prospects []Prospect, at int) {
	l := &w.tables.scorer.layers[0]
	w.gather(from.output[0], l.out, extensions, w.shares(), scoringBlock)
	w.computeInputs(extensions)
	w.recur(extensions)
	w.gates, w.squash = grow(w.gates, l.gates()), grow(w.squash, l.units)
	emitted := w.emissions(to, len(extensions), at)
	for i, e := range extensions {
		previous, memory := row(from.memory[0], e.Parent, l.units), row(to.memory[0], at+i, l.units)
		emission := row(emitted, i, l.units)
		if l.kind == CIFGLSTM && w.shares() {
			ahead, later := w.upcoming(extensions, i), w.target(prospects, i, emission)
			kernels.CIFGCell(w.input(i, e.Token), row(w.recurrent, w.place[i], l.gates()), previous, memory, emission, ahead, later)
		} else {
			l.activate(w.gatesOf(i, e.Token), w.candidateOf(i), previous, memory, w.squash, emission)
		}
	}
}

// upcoming is the input's share of the gates of the extension after i, of i itself
// after the last. Most rows of a table as large as that of the paper's model are in
// no cache, and a cell takes about as long as one takes to come.
func (w *Walker) upcoming(extensions []Extension, i int) []float32 {
	next := min(i+1, len(extensions)-1)
	return w.input(next, extensions[next].Token)
}

// target is the vector by which an emission foresees its prospect, the emission
// itself if there is none.
func (w *Walker) target(prospects []Prospect, i int, emission []float32) []float32 {
	if prospects == nil || prospects[i].Next == NoToken {
		return emission
	}
	return row(w.tables.targets, int(prospects[i].Next), len(emission))
}

// emissions is where n states of to, from at on, leave what the lowest layer emits:
// their outputs, unless these are projected.
func (w *Walker) emissions(to *States, n, at int) []float32 {
	l := &w.tables.scorer.layers[0]
	if !l.projected {
		return to.output[0][at*l.out : (at+n)*l.out]
	}
	w.emitted = grow(w.emitted, n*l.units)
	return w.emitted
}

// project makes outputs of n emissions.
func (w *Walker) project(to *States, n, at int) {
	l := &w.tables.scorer.layers[0]
	if l.projected {
		kernels.GemmPacked(false, n, 1, w.emitted, l.units, &l.projection, 0, to.output[0][at*l.out:(at+n)*l.out], l.out)
		w.work.FLOPs += 2 * float64(n*l.units*l.out)
	}
	w.work.Advanced += int64(n)
}

// computeInputs computes the input's share of the gates of a block, where it is
// not tabulated.
func (w *Walker) computeInputs(extensions []Extension) {
	s := w.tables.scorer
	if w.tables.inputs != nil {
		return
	}
	l, n := &s.layers[0], len(extensions)
	w.vectors, w.inputs = grow(w.vectors, n*l.in), grow(w.inputs, n*l.gates())
	for i, e := range extensions {
		copy(row(w.vectors, i, l.in), row(s.weights.embedding, int(e.Token), l.in))
	}
	s.inputGates(w.vectors, w.inputs)
	w.work.FLOPs += 2 * float64(n*l.in*l.gates())
}

// input returns the input's share of the gates of extension i.
func (w *Walker) input(i int, token int32) []float32 {
	gates := w.tables.scorer.layers[0].gates()
	if w.tables.inputs == nil {
		return row(w.inputs, i, gates)
	}
	return row(w.tables.inputs, int(token), gates)
}

// shares says whether the extensions of a state share its recurrent product:
// whether that reaches the gates as one sum, so that adding the input's share to
// it rounds as scorerLayer.step does.
func (w *Walker) shares() bool { return w.tables.scorer.layers[0].out <= kernels.BlockDepth }

// recur computes the recurrent products of the gathered parents; those that are
// not shared include the input's share.
func (w *Walker) recur(extensions []Extension) {
	s, rows := w.tables.scorer, len(w.parents)
	l, gates := &s.layers[0], s.layers[0].gates()
	w.recurrent = grow(w.recurrent, rows*gates)
	if !w.shares() {
		for i, e := range extensions {
			copy(row(w.recurrent, i, gates), w.input(i, e.Token))
		}
	}
	if l.kind == GRU {
		w.candidate = grow(w.candidate, rows*l.units)
		fillRows(w.candidate, s.weights.layers[0].candidateBias)
	}
	l.recurrent.add(l.cell, rows, w.outputs, unless(w.shares()), w.recurrent, w.candidate)
	w.work.FLOPs += 2 * float64(rows*l.out*gates)
}

// gatesOf returns the pre-activations of extension i. The next call overwrites them.
func (w *Walker) gatesOf(i int, token int32) []float32 {
	l := &w.tables.scorer.layers[0]
	recurrent := row(w.recurrent, w.place[i], l.gates())
	if !w.shares() {
		return recurrent
	}
	copy(w.gates, w.input(i, token))
	kernels.Add(w.gates[:l.direct()], recurrent[:l.direct()])
	return w.gates
}

// candidateOf returns the recurrent part of extension i's candidate, of a GRU.
func (w *Walker) candidateOf(i int) []float32 {
	l := &w.tables.scorer.layers[0]
	if l.kind != GRU {
		return nil
	}
	return row(w.candidate, w.place[i], l.units)
}

// above advances the layers above the lowest, which is done.
func (w *Walker) above(to, from *States, extensions []Extension, at int) {
	s := w.tables.scorer
	if len(s.layers) == 1 {
		return
	}
	w.parents = w.parents[:0]
	for _, e := range extensions {
		w.parents = append(w.parents, e.Parent)
	}
	scratch := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(scratch)
	end := at + len(extensions)
	for i := 1; i < len(s.layers); i++ {
		l, below := &s.layers[i], &s.layers[i-1]
		memory, output := to.memory[i][at*l.units:end*l.units], to.output[i][at*l.out:end*l.out]
		gatherStates(memory, from.memory[i], l.units, w.parents)
		gatherStates(output, from.output[i], l.out, w.parents)
		l.step(scratch, &s.weights.layers[i], to.output[i-1][at*below.out:end*below.out], memory, output)
		w.work.FLOPs += 2 * float64(len(extensions)*l.products())
	}
}
