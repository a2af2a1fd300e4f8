package models

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// Walker scores sequences that share their beginnings, as the branches of a tree:
// a state is advanced once for all sequences that pass through it. What its
// methods return depends on the states and tokens alone, bit for bit, not on
// which are handled together. It is not safe for concurrent use: one Walker per
// goroutine, over shared Tables.
type Walker struct {
	tables *Tables
	work   Work

	parents   []int     // the states that a block of extensions needs, each once
	place     []int     // [block]: an extension's parent as an index of parents
	outputs   []float32 // [block, out]: their outputs
	gates     []float32 // [gates] of one extension
	recurrent []float32 // [block, gates]: what the parents' outputs bring to the gates
	candidate []float32 // [block, units], of a GRU
	squash    []float32 // [units]
	emitted   []float32 // [block, units]
	logits    []float32 // [block, tileWidth or stand-ins]
	targets   []float32 // [block]
	normaliser
}

// Extension is a state and a token that may follow it.
type Extension struct {
	Parent int // index of the state
	Token  int32
}

// compareExtensions orders extensions by parent, then token.
func compareExtensions(a, b Extension) int {
	return cmp.Or(cmp.Compare(a.Parent, b.Parent), cmp.Compare(a.Token, b.Token))
}

// Work counts what a Walker has done.
type Work struct {
	// Advanced states, and the states whose recurrent product they shared.
	Advanced, Shared int64
	// Exact and Bounded count states whose normaliser was computed, or bounded.
	Exact, Bounded int64
	// FLOPs are the floating-point operations of all matrix products together.
	FLOPs float64
}

// NewWalker returns a walker with no memory yet.
func (t *Tables) NewWalker() *Walker { return &Walker{tables: t} }

// Work returns what the walker has done so far.
func (w *Walker) Work() Work { return w.work }

// Scorer returns the scorer under whose parameters the walker scores.
func (w *Walker) Scorer() *Scorer { return w.tables.scorer }

// LogProbs sets dst[i] to the log probability of extension i, the same as
// Scorer.LogProbs bit for bit. Extensions are sorted by parent and token; a
// parent's normaliser is computed once for all of its own.
func (w *Walker) LogProbs(states *States, extensions []Extension, dst []float32) error {
	if err := w.check(states, extensions, len(dst)); err != nil {
		return err
	}
	for len(extensions) > 0 {
		n := w.gather(states.top(), w.width(), extensions)
		w.reduce(extensions[:n], dst[:n])
		extensions, dst = extensions[n:], dst[n:]
	}
	return nil
}

// Bounds sets dst[i] to a lower bound of -log p of extension i, in nats, as
// LogProbs computes it, at least 0; NaN or 0 if the output is not finite. It
// costs about a tenth of LogProbs on a large vocabulary. See merged.
func (w *Walker) Bounds(states *States, extensions []Extension, dst []float64) error {
	if err := w.check(states, extensions, len(dst)); err != nil {
		return err
	}
	for len(extensions) > 0 {
		n := w.gather(states.top(), w.width(), extensions)
		w.bound(extensions[:n], dst[:n])
		extensions, dst = extensions[n:], dst[n:]
	}
	return nil
}

// Advance makes to the states that follow the extensions, in their order: the
// same as Gather and Step bit for bit. Extensions are sorted by parent; to must
// be another batch than from.
func (w *Walker) Advance(to, from *States, extensions []Extension) error {
	if to == from {
		return fmt.Errorf("states cannot be advanced in place along extensions: advance into another batch")
	}
	if err := w.check(from, extensions, len(extensions)); err != nil {
		return err
	}
	to.reserve(from.cells, len(extensions))
	for at := 0; at < len(extensions); {
		block := extensions[at:min(at+scoringBlock, len(extensions))]
		w.advance(to, from, block, at)
		at += len(block)
	}
	return nil
}

func (w *Walker) check(states *States, extensions []Extension, room int) error {
	s := w.tables.scorer
	if err := s.checkStates(states, states.Len(), "states"); err != nil {
		return err
	}
	if err := checkLength("the destination", room, len(extensions)); err != nil {
		return err
	}
	if !slices.IsSortedFunc(extensions, compareExtensions) {
		return fmt.Errorf("extensions are not sorted: sort them by parent, then token")
	}
	for _, e := range extensions {
		if e.Parent < 0 || e.Parent >= states.Len() || e.Token < 0 || int(e.Token) >= s.model.config.Vocabulary {
			return fmt.Errorf("extension of state %d by token %d: want one of %d states and %d tokens", e.Parent, e.Token, states.Len(), s.model.config.Vocabulary)
		}
	}
	return nil
}

// gather collects the outputs of the parents of the first extensions, up to a
// block of parents, and returns the number of these extensions.
func (w *Walker) gather(outputs []float32, width int, extensions []Extension) int {
	w.parents, w.place = w.parents[:0], w.place[:0]
	for _, e := range extensions {
		if last := len(w.parents) - 1; last < 0 || w.parents[last] != e.Parent {
			if len(w.parents) == scoringBlock {
				break
			}
			w.parents = append(w.parents, e.Parent)
		}
		w.place = append(w.place, len(w.parents)-1)
	}
	w.outputs = grow(w.outputs, len(w.parents)*width)
	gatherStates(w.outputs, outputs, width, w.parents)
	return len(w.place)
}

// width is that of an output.
func (w *Walker) width() int { return w.tables.scorer.model.config.outputWidth() }

// reduce runs the gathered parents through all tiles, and picks the targets'
// logits on the way.
func (w *Walker) reduce(extensions []Extension, dst []float32) {
	s, rows := w.tables.scorer, len(w.parents)
	w.logits, w.targets = grow(w.logits, rows*tileWidth), grow(w.targets, len(extensions))
	w.reset(rows, len(s.tiles))
	next := w.firstExtensions()
	for k := range s.tiles {
		from, to := tileBounds(s.model.config.Vocabulary, k)
		columns := to - from
		s.tileLogits(k, rows, w.outputs, w.logits, columns)
		for i := range rows {
			logits := row(w.logits, i, columns)
			for ; next[i] < len(extensions) && w.place[next[i]] == i && int(extensions[next[i]].Token) < to; next[i]++ {
				w.targets[next[i]] = logits[int(extensions[next[i]].Token)-from]
			}
			w.add(i, k, logits)
		}
	}
	w.finish()
	for i := range extensions {
		dst[i] = w.logProb(w.place[i], w.targets[i])
	}
	w.work.Exact += int64(rows)
	w.work.FLOPs += 2 * float64(rows) * float64(s.model.config.Vocabulary) * float64(w.width())
}

// firstExtensions returns the place of each gathered parent's first extension.
func (w *Walker) firstExtensions() []int {
	first := make([]int, 0, len(w.parents))
	for i, parent := range w.place {
		if parent == len(first) {
			first = append(first, i)
		}
	}
	return first
}

// bound is reduce over the merged vocabulary.
func (w *Walker) bound(extensions []Extension, dst []float64) {
	s, m := w.tables.scorer, &w.tables.merged
	rows, columns := len(w.parents), len(m.bias)
	w.logits = grow(w.logits, rows*columns)
	fillRows(w.logits, m.bias)
	kernels.GemmPacked(false, rows, 1, w.outputs, m.width, &m.vectors, 1, w.logits, columns)
	w.logs = grow(w.logs, rows)
	for i := range w.logs {
		length := math.Sqrt(kernels.SquaredNorm(row(w.outputs, i, m.width)))
		w.logs[i] = kernels.LogSumExp(row(w.logits, i, columns)) - m.margin(length)
	}
	for i, e := range extensions {
		parent := w.place[i]
		logit := kernels.Dot(row(w.outputs, parent, m.width), row(s.weights.output, int(e.Token), m.width))
		dst[i] = max(0, w.logs[parent]-(logit+float64(s.weights.outputBias[e.Token])))
	}
	w.work.Bounded += int64(rows)
	w.work.FLOPs += 2 * float64(rows) * float64(columns) * float64(m.width)
}

// advance handles a block of extensions, whose states are to's from at on.
func (w *Walker) advance(to, from *States, extensions []Extension, at int) {
	s := w.tables.scorer
	w.lowest(to, from, extensions, at)
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
	for l := 1; l < len(s.layers); l++ {
		c, below := &s.layers[l], &s.layers[l-1]
		memory, output := to.memory[l][at*c.units:end*c.units], to.output[l][at*c.out:end*c.out]
		gatherStates(memory, from.memory[l], c.units, w.parents)
		gatherStates(output, from.output[l], c.out, w.parents)
		c.step(scratch, &s.weights.layers[l], to.output[l-1][at*below.out:end*below.out], memory, output)
		w.work.FLOPs += float64(len(extensions)) * c.flops()
	}
}

// lowest advances the lowest layer, in the order of arithmetic of
// scorerLayer.step.
func (w *Walker) lowest(to, from *States, extensions []Extension, at int) {
	l, n := &w.tables.scorer.layers[0], len(extensions)
	w.gather(from.output[0], l.out, extensions)
	w.recur(extensions)
	w.gates, w.squash = grow(w.gates, l.gates()), grow(w.squash, l.units)
	output := to.output[0][at*l.out : (at+n)*l.out]
	emitted := output
	if l.projected {
		w.emitted = grow(w.emitted, n*l.units)
		emitted = w.emitted
	}
	for i, e := range extensions {
		previous := row(from.memory[0], e.Parent, l.units)
		memory := row(to.memory[0], at+i, l.units)
		l.activate(w.gatesOf(i, e.Token), w.candidateOf(i), previous, memory, w.squash, row(emitted, i, l.units))
	}
	if l.projected {
		kernels.GemmPacked(false, n, 1, emitted, l.units, &l.projection, 0, output, l.out)
		w.work.FLOPs += 2 * float64(n*l.units*l.out)
	}
	w.work.Advanced += int64(n)
}

// shares says whether a recurrent product may be computed once for all
// extensions of a state: whether it reaches the gates as one sum, to which the
// input's share is added with one rounding.
func (w *Walker) shares() bool { return w.tables.scorer.layers[0].out <= kernels.BlockDepth }

// recur computes the recurrent products of a block: of each parent, where its
// extensions share it, else of each extension, with the input's share.
func (w *Walker) recur(extensions []Extension) {
	s := w.tables.scorer
	l, gates := &s.layers[0], s.layers[0].gates()
	if !w.shares() {
		w.unshare(extensions, l.out)
	}
	rows := len(w.parents)
	w.recurrent = grow(w.recurrent, rows*gates)
	if !w.shares() {
		for i, e := range extensions {
			copy(row(w.recurrent, i, gates), row(w.tables.inputs, int(e.Token), gates))
		}
	}
	if l.kind == GRU {
		w.candidate = grow(w.candidate, rows*l.units)
		fillRows(w.candidate, s.weights.layers[0].candidateBias)
	}
	l.recurrent.add(l.cell, rows, w.outputs, unless(w.shares()), w.recurrent, w.candidate)
	w.work.Shared += int64(rows)
	w.work.FLOPs += 2 * float64(rows*l.out*gates)
}

// unshare gives each extension its own copy of its parent's output.
func (w *Walker) unshare(extensions []Extension, width int) {
	outputs := make([]float32, len(extensions)*width)
	for i, place := range w.place {
		copy(row(outputs, i, width), row(w.outputs, place, width))
	}
	w.outputs, w.parents = outputs, w.parents[:0]
	for i, e := range extensions {
		w.parents = append(w.parents, e.Parent)
		w.place[i] = i
	}
}

// gatesOf returns the pre-activations of extension i. The next call overwrites them.
func (w *Walker) gatesOf(i int, token int32) []float32 {
	l := &w.tables.scorer.layers[0]
	recurrent := row(w.recurrent, w.place[i], l.gates())
	if !w.shares() {
		return recurrent
	}
	copy(w.gates, row(w.tables.inputs, int(token), l.gates()))
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

// flops is the number of floating-point operations of the products of one step.
func (l *scorerLayer) flops() float64 {
	products := (l.in + l.out) * l.gates()
	if l.projected {
		products += l.units * l.out
	}
	return 2 * float64(products)
}
