package models

import (
	"fmt"

	"coalmine/internal/kernels"
)

// Advance computes the child states of the edges, in order, into to. They equal the states from
// Gather and Step, bit for bit. Edges must be sorted by parent and token, and to must not be from.
func (ts *TreeScorer) Advance(to, from *States, edges []Edge) error {
	if err := ts.checkAdvance(to, from, edges); err != nil {
		return err
	}
	if ts.tables.scorer.blocks != nil {
		return ts.attend(to, from, edges)
	}
	to.reserve(from.cells, len(edges))
	for at := 0; at < len(edges); {
		block := edges[at:min(at+scoringBlock, len(edges))]
		ts.lowest(to, from, block, at)
		ts.above(to, from, block, at)
		at += len(block)
	}
	return nil
}

// attend is Advance for a transformer.
func (ts *TreeScorer) attend(to, from *States, edges []Edge) error {
	s, tokens := ts.tables.scorer, make([]int32, len(edges))
	ts.parents = ts.parents[:0]
	for i, e := range edges {
		ts.parents, tokens[i] = append(ts.parents, e.Parent), e.Token
	}
	if err := to.Gather(from, ts.parents); err != nil {
		return err
	}
	ts.work.Advanced += int64(len(edges))
	ts.work.FLOPs += 2 * float64(len(edges)*s.blocks.products())
	return s.Step(to, tokens)
}

func (ts *TreeScorer) checkAdvance(to, from *States, edges []Edge) error {
	if to == from {
		return fmt.Errorf("states cannot be advanced in place along edges: advance into another batch")
	}
	return ts.check(from, edges, len(edges))
}

// lowest advances the lowest layer along a block of edges, into the states of to from at on. The
// order of arithmetic equals that of scorerLayer.step.
func (ts *TreeScorer) lowest(to, from *States, edges []Edge, at int) {
	ts.emit(to, from, edges, nil, at)
	ts.project(to, len(edges), at)
}

// emit is lowest without the projection. If there are candidates, a look-ahead follows, and emit
// prefetches its memory into the cache.
func (ts *TreeScorer) emit(to, from *States, edges []Edge, candidates []Candidate, at int) {
	l := &ts.tables.scorer.layers[0]
	ts.gather(from.recalled(0), l.recalled(), edges, ts.shares(), scoringBlock)
	ts.computeInputs(edges)
	ts.recur(edges)
	ts.gates, ts.squash = grow(ts.gates, l.gates()), grow(ts.squash, l.units)
	emitted := ts.emissions(to, len(edges), at)
	for i, e := range edges {
		previous, memory := row(from.memory[0], e.Parent, l.memory()), row(to.memory[0], at+i, l.memory())
		emission := row(emitted, i, l.units)
		if l.kind.edge != nil && ts.shares() {
			ahead, later := ts.upcoming(edges, i), ts.target(candidates, i, emission)
			l.kind.edge(ts.input(i, e.Token), row(ts.recurrent, ts.place[i], l.gates()), previous, memory, emission, ahead, later)
		} else {
			l.activate(ts.gatesOf(i, e.Token), ts.gruCandidateOf(i), previous, memory, ts.squash, emission)
			l.remember(ts.tables.scorer.vector(e.Token), previous, memory)
		}
	}
}

// vector returns the token's vector, the input of the lowest layer.
func (s *Scorer) vector(token int32) []float32 {
	return row(s.weights.embedding, int(token), s.model.config.Embedding)
}

// upcoming returns the input's share of the gates of the edge after i, or of the last edge itself,
// for prefetching during the cell of i. The table of the paper's model exceeds the caches, and
// loading a row takes about as long as a cell.
func (ts *TreeScorer) upcoming(edges []Edge, i int) []float32 {
	next := min(i+1, len(edges)-1)
	return ts.input(next, edges[next].Token)
}

// target returns the vector of candidate i's next token, or the emission if there is none.
func (ts *TreeScorer) target(candidates []Candidate, i int, emission []float32) []float32 {
	if candidates == nil || candidates[i].Next == NoToken {
		return emission
	}
	return row(ts.tables.targets, int(candidates[i].Next), len(emission))
}

// emissions returns the memory of the lowest layer's emissions of n states of to, from at on.
// Without a projection it is the memory of the states' outputs.
func (ts *TreeScorer) emissions(to *States, n, at int) []float32 {
	l := &ts.tables.scorer.layers[0]
	if !l.projected {
		return to.output[0][at*l.out : (at+n)*l.out]
	}
	ts.emitted = grow(ts.emitted, n*l.units)
	return ts.emitted
}

// project computes the outputs of n emissions, into the states of to from at on.
func (ts *TreeScorer) project(to *States, n, at int) {
	l := &ts.tables.scorer.layers[0]
	if l.projected {
		kernels.GemmPacked(false, n, 1, ts.emitted, l.units, &l.projection, 0, to.output[0][at*l.out:(at+n)*l.out], l.out)
		ts.work.FLOPs += 2 * float64(n*l.units*l.out)
	}
	ts.work.Advanced += int64(n)
}

// computeInputs computes the inputs' share of the gates of a block, unless it is tabulated.
func (ts *TreeScorer) computeInputs(edges []Edge) {
	s := ts.tables.scorer
	if ts.tables.inputs != nil {
		return
	}
	l, n := &s.layers[0], len(edges)
	ts.vectors, ts.inputs = grow(ts.vectors, n*l.in), grow(ts.inputs, n*l.gates())
	for i, e := range edges {
		copy(row(ts.vectors, i, l.in), s.vector(e.Token))
	}
	s.inputGates(ts.vectors, ts.inputs)
	ts.work.FLOPs += 2 * float64(n*l.in*l.gates())
}

// input returns the input's share of the gates of edge i.
func (ts *TreeScorer) input(i int, token int32) []float32 {
	gates := ts.tables.scorer.layers[0].gates()
	if ts.tables.inputs == nil {
		return row(ts.inputs, i, gates)
	}
	return row(ts.tables.inputs, int(token), gates)
}

// shares reports whether the edges of a state may share its recurrent product. They may if the
// product is one sum, because adding the input's share then rounds as in scorerLayer.step.
func (ts *TreeScorer) shares() bool {
	return ts.tables.scorer.layers[0].recalled() <= kernels.BlockDepth
}

// recur computes the recurrent products of the gathered parents. A product that is not
// shared includes the input's share.
func (ts *TreeScorer) recur(edges []Edge) {
	s, rows := ts.tables.scorer, len(ts.parents)
	l, gates := &s.layers[0], s.layers[0].gates()
	ts.recurrent = grow(ts.recurrent, rows*gates)
	if !ts.shares() {
		for i, e := range edges {
			copy(row(ts.recurrent, i, gates), ts.input(i, e.Token))
		}
	}
	if l.kind.resets {
		ts.gruCandidate = grow(ts.gruCandidate, rows*l.units)
		fillRows(ts.gruCandidate, s.weights.layers[0].candidateBias)
	}
	l.recurrent.add(l.cell, rows, ts.outputs, unless(ts.shares()), ts.recurrent, ts.gruCandidate)
	ts.work.FLOPs += 2 * float64(rows*l.recalled()*gates)
}

// gatesOf returns the pre-activations of edge i, valid until the next call.
func (ts *TreeScorer) gatesOf(i int, token int32) []float32 {
	l := &ts.tables.scorer.layers[0]
	recurrent := row(ts.recurrent, ts.place[i], l.gates())
	if !ts.shares() {
		return recurrent
	}
	copy(ts.gates, ts.input(i, token))
	kernels.Add(ts.gates[:l.direct()], recurrent[:l.direct()])
	return ts.gates
}

// gruCandidateOf returns the recurrent part of the candidate activation of a GRU's cell
// along edge i, nil for another cell.
func (ts *TreeScorer) gruCandidateOf(i int) []float32 {
	l := &ts.tables.scorer.layers[0]
	if !l.kind.resets {
		return nil
	}
	return row(ts.gruCandidate, ts.place[i], l.units)
}

// above advances the layers above the lowest, after lowest.
func (ts *TreeScorer) above(to, from *States, edges []Edge, at int) {
	s := ts.tables.scorer
	if len(s.layers) == 1 {
		return
	}
	ts.parents = ts.parents[:0]
	for _, e := range edges {
		ts.parents = append(ts.parents, e.Parent)
	}
	scratch := s.workspaces.Get().(*workspace)
	defer s.workspaces.Put(scratch)
	end := at + len(edges)
	for i := 1; i < len(s.layers); i++ {
		l, below := &s.layers[i], &s.layers[i-1]
		memory, output := to.memory[i][at*l.memory():end*l.memory()], to.output[i][at*l.out:end*l.out]
		gatherStates(memory, from.memory[i], l.memory(), ts.parents)
		gatherStates(output, from.output[i], l.out, ts.parents)
		l.step(scratch, &s.weights.layers[i], to.output[i-1][at*below.out:end*below.out], memory, output)
		ts.work.FLOPs += 2 * float64(len(edges)*l.products())
	}
}
