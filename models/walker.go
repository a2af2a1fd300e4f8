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

	parents   []int      // the states that a block of extensions needs, each once
	place     []int      // [block]: an extension's parent as an index of parents
	outputs   []float32  // [block, out]: their outputs
	vectors   []float32  // [block, embedding] of the extensions' tokens, where their
	inputs    []float32  // [block, gates] are not tabulated
	gates     []float32  // [gates] of one extension
	recurrent []float32  // [block, gates]: what the parents' outputs bring to the gates
	candidate []float32  // [block, units], of a GRU
	squash    []float32  // [units]
	emitted   []float32  // [block, units]
	logits    []float32  // [block, tileWidth or stand-ins]
	targets   []float32  // [block]
	sums      []Interval // [block]: bounds of log-sum-exps
	kept      []int
	// What a glance leaves, by number and as they are, and how far the recurrent
	// products of a block of parents are off.
	likely     []int
	extensions []Extension
	prospects  []Prospect
	errors     []float64
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
	// Advanced counts new states.
	Advanced int64
	// Exact and Bounded count states whose normaliser was computed, or bounded;
	// Foreseen those that Pursue looked at before it made them, or did not.
	Exact, Bounded, Foreseen int64
	// FLOPs are the operations of all matrix products together, of rounded ones too.
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
		n := w.gather(states.top(), w.width(), extensions, true, scoringBlock)
		w.reduce(extensions[:n], dst[:n])
		extensions, dst = extensions[n:], dst[n:]
	}
	return nil
}

// Interval holds a price, in nats; it is the price itself if its ends are equal.
type Interval struct{ Low, High float64 }

// Bounds sets dst[i] to an interval that holds -log p of extension i, as LogProbs
// computes it: at least 0, and with ends that are NaN or show nothing if the output
// is not finite. It costs a few hundredths of LogProbs on a large vocabulary. near
// must be of the walker's tables.
func (w *Walker) Bounds(near *StandIns, states *States, extensions []Extension, dst []Interval) error {
	if err := w.check(states, extensions, len(dst)); err != nil {
		return err
	}
	for len(extensions) > 0 {
		n := w.gather(states.top(), w.width(), extensions, true, scoringBlock)
		w.bound(near, extensions[:n], dst[:n])
		extensions, dst = extensions[n:], dst[n:]
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

// gather collects the outputs of the parents of the first extensions, of at most so
// many parents, and returns the number of these extensions. Extensions with
// the same parent share it, unless each is to have its own copy.
func (w *Walker) gather(outputs []float32, width int, extensions []Extension, share bool, most int) int {
	w.parents, w.place = w.parents[:0], w.place[:0]
	for _, e := range extensions {
		if last := len(w.parents) - 1; last < 0 || !share || w.parents[last] != e.Parent {
			if len(w.parents) == most {
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

// bound is reduce over the stand-ins.
func (w *Walker) bound(near *StandIns, extensions []Extension, dst []Interval) {
	t, width := w.tables, w.width()
	rows, columns := len(w.parents), len(near.fine.bias)
	w.logits, w.sums = grow(w.logits, rows*columns), grow(w.sums, rows)
	kernels.GemmPackedBias(false, rows, w.outputs, width, &near.fine.vectors, near.fine.bias, w.logits, columns)
	for i := range w.sums {
		h := row(w.outputs, i, width)
		squared := kernels.SquaredNorm(h)
		margin := t.margin(math.Sqrt(squared))
		w.sums[i] = Interval{kernels.LogSumExp(row(w.logits, i, columns)) - margin, near.ceiling.logSum(h, squared) + margin}
	}
	for i, e := range extensions {
		sum := w.sums[w.place[i]]
		logit := kernels.Dot(row(w.outputs, w.place[i], width), row(t.scorer.weights.output, int(e.Token), width))
		logit += float64(t.scorer.weights.outputBias[e.Token])
		dst[i] = Interval{max(0, sum.Low-logit), max(0, sum.High-logit)}
	}
	w.work.Bounded += int64(rows)
	w.work.FLOPs += 2 * float64(rows) * float64(columns) * float64(width)
}
