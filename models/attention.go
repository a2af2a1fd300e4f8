package models

import (
	"errors"
	"fmt"
	"math"

	"coalmine/internal/kernels"
)

// position is a token that a transformer has read, with its keys and values. A state is its last
// position: states with common first tokens share their positions, and copying a state copies a
// pointer. A position never changes.
type position struct {
	before *position // position of the previous token; nil at the first
	at     int       // tokens before it
	// keysAndValues is [blocks, 2, keyWidth]; its keys are already rotated.
	keysAndValues []float32
}

// length returns the number of tokens up to a position; 0 for nil.
func (p *position) length() int {
	if p == nil {
		return 0
	}
	return p.at + 1
}

// checkContext returns an error unless every state can read one more token.
func (s *Scorer) checkContext(states *States) error {
	for i, p := range states.positions {
		if c := s.model.cells[0].context; p.length() >= c {
			return fmt.Errorf("state %d has read %d tokens, as many as the context of the model has: want a model with a longer context", i, c)
		}
	}
	return nil
}

// attending is the memory of one call of blocks.step.
type attending struct {
	normal  []float32   // [block, width]
	mixed   []float32   // [block, width]: the heads' outputs
	turns   []float32   // [block, 2, pairs]: cosines and sines of the rotations of the newest positions
	scores  []float32   // [heads, positions] of one state
	history []*position // positions of one state in order
}

// step feeds a block of tokens' vectors x to states, which move to new positions, and sets
// output to the normalised outputs of the last block. With x the residual stream,
//
//	x = x + attention(norm(x)),  x = x + gelu(norm(x) W + b) U + c
//
// in every block; a parallel block adds both to the same x. w.inputs is x and is overwritten.
func (b *blocks) step(w *workspace, x []float32, states []*position, output []float32) {
	n := len(states)
	w.attending.reserve(n, b.cell)
	room := 2 * b.blocks * b.keyWidth()
	for i, before := range states {
		states[i] = &position{before: before, at: before.length(), keysAndValues: make([]float32, room)}
		if b.options.Rotary > 0 {
			turn(row(w.attending.turns, i, b.options.Rotary), b.frequencies, before.length())
		} else {
			kernels.Add(row(x, i, b.in), row(b.position, before.length(), b.in))
		}
	}
	for i := range b.each {
		attention, feed := &b.each[i].attention, &b.each[i].feed
		b.attend(w, i, x, states)
		if b.options.Parallel {
			b.feed(w, feed, n, x)
		}
		attention.add(n, b.in, w.attending.mixed, b.in, x)
		if !b.options.Parallel {
			b.feed(w, feed, n, x)
		}
		feed.add(n, b.in, w.emitted, b.fedWidth(), x)
	}
	b.normalize(output, x[:n*b.in], b.scale, b.shift)
}

func (a *attending) reserve(n int, c cell) {
	a.normal, a.mixed, a.scores = grow(a.normal, n*c.in), grow(a.mixed, n*c.in), grow(a.scores, c.heads*c.context)
	a.turns = grow(a.turns, n*c.options.Rotary)
}

// project computes the product of the half's normalised input, of n rows, into dst.
func (b *blocks) project(w *workspace, h *half, n int, x, dst []float32, columns int) {
	b.normalize(w.attending.normal, x[:n*b.in], h.scale, h.shift)
	if b.options.Unbiased {
		kernels.GemmPacked(false, n, 1, w.attending.normal, b.in, &h.input, 0, dst, columns)
		return
	}
	kernels.GemmPackedBias(false, n, w.attending.normal, b.in, &h.input, h.inputBias, dst, columns)
}

// add adds the product of rows of emitted to the residual stream.
func (h *half) add(n, width int, emitted []float32, columns int, x []float32) {
	for i := 0; i < n && h.outputBias != nil; i++ {
		kernels.Add(row(x, i, width), h.outputBias)
	}
	kernels.GemmPacked(false, n, 1, emitted, columns, &h.output, 1, x, width)
}

// attend computes the attention of each state's newest position over itself and all earlier
// positions, into w.attending.mixed.
func (b *blocks) attend(w *workspace, i int, x []float32, states []*position) {
	n, a, wide, keys, size := len(states), &w.attending, b.gates(), b.keyWidth(), b.headWidth()
	b.project(w, &b.each[i].attention, n, x, w.gates, wide)
	for s, p := range states {
		qkv := row(w.gates, s, wide)
		rotate(qkv[:b.in+keys], row(a.turns, s, b.options.Rotary), size)
		copy(row(p.keysAndValues, i, 2*keys), qkv[b.in:])
		a.remember(p)
		b.mix(a, i, keys, qkv[:b.in], row(a.mixed, s, b.in))
	}
}

// remember sets the history to the positions up to p.
func (a *attending) remember(p *position) {
	a.history = grow(a.history, p.length())
	for ; p != nil; p = p.before {
		a.history[p.at] = p
	}
}

// mix sets mixed to the heads' means of the history's values, weighted by the softmax of
// query x key / sqrt(width of a head). keys is the keys' width.
func (b *blocks) mix(a *attending, i, keys int, query, mixed []float32) {
	size, heads, length := len(query)/b.heads, b.heads, len(a.history)
	scale, sharing, scores := 1/math.Sqrt(float64(size)), len(query)/keys, a.scores[:heads*length]
	for t, p := range a.history {
		key := row(p.keysAndValues, 2*i, keys)
		for head := range heads {
			scores[head*length+t] = float32(scale * kernels.Dot(row(query, head, size), row(key, head/sharing, size)))
		}
	}
	kernels.SoftmaxRows(length, scores)
	clear(mixed)
	for t, p := range a.history {
		value := row(p.keysAndValues, 2*i+1, keys)
		for head := range heads {
			kernels.Axpy(scores[head*length+t], row(value, head/sharing, size), row(mixed, head, size))
		}
	}
}

// feed computes the hidden values of the feed-forward layer, into the first units of the rows of w.emitted.
func (b *blocks) feed(w *workspace, h *half, n int, x []float32) {
	b.project(w, h, n, x, w.emitted, b.fedWidth())
	for i := range n {
		b.activate(row(w.emitted, i, b.fedWidth()), w.squash)
	}
}

// normEpsilon is the default of Blocks.Epsilon, as in PyTorch.
const normEpsilon = 1e-5

// untrainable is the learner of a model that Coalmine only scores.
type untrainable struct{}

var errUntrainable = errors.New("a model of kind transformer is trained by training.engine: pytorch alone; expected no gradient of it here")

func (untrainable) Gradient([]float32, [][]int32, []float32) (Loss, error) {
	return Loss{}, errUntrainable
}
