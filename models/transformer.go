package models

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
)

// Transformer is a decoder-only transformer (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019): learned positions, and blocks that normalise their
// inputs; Config.Blocks selects variants. Coalmine scores with it; engine pytorch trains it.
const Transformer Kind = "transformer"

// attention is the only cell of a transformer, which holds all blocks.
var attention = CellKind{
	Kind:    Transformer,
	Summary: "blocks of causal attention and a feed-forward layer; positions are learned",
	Source:  "Vaswani et al. 2017; blocks as in Radford et al. 2019",
	attends: true,
}

// Names of a transformer's tensors in addition to EmbeddingTensor, OutputTensor and
// OutputBiasTensor. E is Config.Embedding, F Config.Units. The second block has attention2 and
// feed2, and so on. Rotary blocks have no positions, unbiased ones no biases, RMS normalisations no
// shift. Keys and values are E Blocks.KeyHeads/Heads wide. A gated feed.input is [E, 2 F], the
// gates first.
//
//	tensor                     shape         use
//	position                   [context, E]  added to the token vectors
//	attention.scale, .shift    [E]           of the normalised input of attention
//	attention.input            [E, 3 E]      queries, keys and values, head after head in each
//	attention.input_bias       [3 E]
//	attention.output           [E, E]        of the heads' outputs side by side
//	attention.output_bias      [E]
//	feed.scale, .shift         [E]           of the normalised input of the feed-forward layer
//	feed.input                 [E, F]
//	feed.input_bias            [F]
//	feed.output                [F, E]
//	feed.output_bias           [E]
//	final.scale, .shift        [E]           of the output
const (
	PositionTensor = "position"

	attentionRoom = "attention."
	feedRoom      = "feed."
	finalRoom     = "final."
)

// Limits of a transformer's Config.
const (
	maxBlocks  = 64
	maxContext = 1 << 16
)

// DefaultContext is the default of Config.Context, in tokens.
const DefaultContext = 128

func (c Config) validateTransformer() error {
	var problems []error
	within(&problems, "vocabulary", c.Vocabulary, 2, maxVocabulary)
	within(&problems, "embedding", c.Embedding, 1, maxWidth)
	within(&problems, "units", c.Units, 1, maxWidth)
	within(&problems, "layers", c.layers(), 1, maxBlocks)
	within(&problems, "context", c.context(), 1, maxContext)
	within(&problems, "heads", c.Heads, 1, maxWidth)
	c.Blocks.validate(&problems, &c)
	if c.Adapters != (Adapters{}) && len(problems) == 0 {
		c.Adapters.validate(&problems, cellsOf(c)[0])
	}
	used := Config{
		Kind: c.Kind, Vocabulary: c.Vocabulary, Embedding: c.Embedding, Units: c.Units, Layers: c.Layers,
		Heads: c.Heads, Context: c.Context, Untied: c.Untied, Blocks: c.Blocks, Adapters: c.Adapters,
	}
	if c != used {
		problems = append(problems, fmt.Errorf("%+v: a transformer has a vocabulary, embedding, units, layers, heads, context, untied, blocks and adapters only", c))
	}
	if len(problems) == 0 && c.Embedding%c.Heads != 0 {
		problems = append(problems, fmt.Errorf("heads %d: want a divisor of the embedding's width %d, which they share", c.Heads, c.Embedding))
	}
	if len(problems) == 0 {
		problems = c.fit()
	}
	return invalid(problems)
}

func (c Config) context() int {
	if c.Context == 0 {
		return DefaultContext
	}
	return c.Context
}

// blocksLayout places the tensors of a transformer's blocks.
type blocksLayout struct {
	position, scale, shift Span
	blocks                 []blockLayout
}

type blockLayout struct{ attention, feed halfLayout }

// halfLayout is the first or second half of a block: a normalisation and two matrices.
type halfLayout struct{ scale, shift, input, inputBias, output, outputBias Span }

func (l *layout) addBlocks(c cell) *blocksLayout {
	at := new(blocksLayout)
	unless := func(lacks bool, name string, shape ...int) (none Span) {
		if lacks {
			return none
		}
		return l.Add(name, shape...)
	}
	o := &c.options
	at.position = unless(o.Rotary > 0, PositionTensor, c.context, c.in)
	for i := range c.blocks {
		half := func(room string, wide, narrow int) (h halfLayout) {
			name := func(tensor string) string { return layerTensor(room+tensor, i) }
			h.scale, h.shift = l.Add(name("scale"), c.in), unless(o.RMS, name("shift"), c.in)
			h.input, h.inputBias = l.Add(name("input"), c.in, wide), unless(o.Unbiased, name("input_bias"), wide)
			h.output, h.outputBias = l.Add(name("output"), narrow, c.in), unless(o.Unbiased, name("output_bias"), c.in)
			return h
		}
		at.blocks = append(at.blocks, blockLayout{half(attentionRoom, c.gates(), c.in), half(feedRoom, c.fedWidth(), c.units)})
	}
	at.scale, at.shift = l.Add(finalRoom+"scale", c.in), unless(o.RMS, finalRoom+"shift", c.in)
	return at
}

// initialize draws the positions like the embedding. Matrices are uniform in ±1/sqrt(rows), a
// standard deviation of 0.02 at the width of GPT-2, 768; those that add to the residual stream,
// twice a block, are divided by the root of their number (Radford et al. 2019, section 2.3). Scales
// are 1, shifts and biases 0.
func (l *blocksLayout) initialize(rng *rand.Rand, c cell, flat []float32) {
	FillUniform(rng, l.position.Of(flat), math.Sqrt(3/float64(c.in)))
	residual := math.Sqrt(2 * float64(c.blocks))
	for _, b := range l.blocks {
		for _, h := range []halfLayout{b.attention, b.feed} {
			rows := (h.output.To - h.output.From) / c.in
			FillUniform(rng, h.input.Of(flat), 1/math.Sqrt(float64(c.in)))
			FillUniform(rng, h.output.Of(flat), 1/(residual*math.Sqrt(float64(rows))))
			Fill(h.scale.Of(flat), 1)
		}
	}
	Fill(l.scale.Of(flat), 1)
}

// blocks holds a transformer's prepared weights.
type blocks struct {
	cell
	position, scale, shift []float32
	frequencies            []float32 // frequencies of rotations
	each                   []block
}

type block struct{ attention, feed half }

type half struct {
	scale, shift, inputBias, outputBias []float32
	input, output                       kernels.Packed
}

func (l *blocksLayout) prepare(c cell, from source) *blocks {
	b := &blocks{cell: c, position: from.keep(l.position), frequencies: c.frequencies(), each: make([]block, c.blocks)}
	for i, at := range l.blocks {
		b.each[i].attention.prepare(at.attention, from, c.in, c.gates(), c.in)
		b.each[i].feed.prepare(at.feed, from, c.in, c.fedWidth(), c.units)
	}
	b.scale, b.shift = from.keep(l.scale), from.keep(l.shift)
	return b
}

func (h *half) prepare(at halfLayout, from source, width, wide, narrow int) {
	h.scale, h.shift = from.keep(at.scale), from.keep(at.shift)
	kernels.PackB(false, width, wide, from.lend(at.input), wide, &h.input)
	h.inputBias = from.keep(at.inputBias)
	kernels.PackB(false, narrow, width, from.lend(at.output), width, &h.output)
	h.outputBias = from.keep(at.outputBias)
}

func (b *blocks) bytes() (n int64) {
	for i := range b.each {
		for _, h := range []*half{&b.each[i].attention, &b.each[i].feed} {
			n += h.input.Bytes() + h.output.Bytes()
		}
	}
	return n
}
