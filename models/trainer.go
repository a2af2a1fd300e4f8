package models

import (
	"fmt"

	"coalmine/internal/kernels"
)

// Loss is the loss of a batch.
type Loss struct {
	// Sum of -log p(target), in nats, over all targets of the batch.
	Sum float64
	// Tokens is the number of targets.
	Tokens int
}

// Mean is the loss per target, in nats. The loss of no targets is 0.
func (l Loss) Mean() float64 {
	if l.Tokens == 0 {
		return 0
	}
	return l.Sum / float64(l.Tokens)
}

// Add sums two losses.
func (l Loss) Add(other Loss) Loss { return Loss{l.Sum + other.Sum, l.Tokens + other.Tokens} }

// Trainer computes gradients of one model. It keeps its memory from batch to
// batch and allocates only when a batch is larger than any before; what it
// computes does not depend on the batches before. It is not safe for
// concurrent use: one Trainer per goroutine.
type Trainer struct {
	model   *Language
	batch   packed
	layers  []layerTrace // from the lowest up
	output  outputTrace
	dropout dropout

	inputs        []float32 // [rows, embedding]: the token vectors
	inputGradient []float32 // [rows, embedding]

	each perExample // for ClippedSum
}

// NewTrainer returns a trainer with no memory yet.
func (m *Language) NewTrainer() *Trainer {
	vocabulary := m.config.Vocabulary
	t := &Trainer{
		model:  m,
		layers: make([]layerTrace, len(m.cells)),
		output: outputTrace{vocabulary: vocabulary, width: m.config.outputWidth(), block: rowBlock(vocabulary)},
	}
	for i, c := range m.cells {
		t.layers[i].cell = c
	}
	return t
}

// Gradient computes the loss of a batch of sentences at params and sets
// gradient to that of the mean loss per target. Both vectors have the model's
// length and must not overlap; params and sentences are only read.
//
// Each sentence has at least two tokens and lengths may differ. The sums over
// the batch run through the sentences from the longest to the shortest, equal
// ones in the order given.
//
// A loss that is not finite gives a *DivergedError. After any error the content
// of gradient is undefined. A gradient may overflow though its loss is finite;
// FiniteNorm tells.
func (t *Trainer) Gradient(params []float32, sentences [][]int32, gradient []float32) (Loss, error) {
	if err := t.check(params, sentences, gradient); err != nil {
		return Loss{}, err
	}
	t.batch.pack(sentences)
	w, g := t.model.layout.views(params), t.model.layout.views(gradient)
	t.embed(&w)
	top := t.forward(&w)
	loss := Loss{Tokens: t.batch.rows()}
	loss.Sum = t.output.loss(&w, &g, top.passed, t.batch.targets, 1/float32(loss.Tokens), top.gradient)
	if !finite(loss.Sum) {
		return Loss{}, &DivergedError{What: "loss", Value: loss.Sum}
	}
	t.backward(&w)
	t.weightGradients(&g)
	if t.model.config.Untied {
		clear(g.embedding)
	}
	t.addTokenGradients(&g)
	return loss, nil
}

// forward runs the layers and returns the highest.
func (t *Trainer) forward(w *weights) *layerTrace {
	x := t.inputs
	for i := range t.layers {
		l := &t.layers[i]
		l.forward(&t.batch, &w.layers[i], x)
		l.pass(&t.dropout)
		x = l.passed
	}
	return &t.layers[len(t.layers)-1]
}

// backward runs the layers the other way, from the gradient of the highest.
func (t *Trainer) backward(w *weights) {
	for i := len(t.layers) - 1; i >= 0; i-- {
		x, dx := t.inputs, t.inputGradient
		if i > 0 {
			x, dx = t.layers[i-1].passed, t.layers[i-1].gradient
		}
		l := &t.layers[i]
		l.passBack(&t.dropout)
		l.backward(&t.batch, &w.layers[i], x, l.gradient, dx)
	}
}

// weightGradients sets the layers' tensors of g from what backward left.
func (t *Trainer) weightGradients(g *weights) {
	for i := range t.layers {
		l := &t.layers[i]
		l.weightGradients(t.batch.rows(), &g.layers[i], l.gradient)
	}
}

func (t *Trainer) check(params []float32, sentences [][]int32, gradient []float32) error {
	if err := t.checkVectors(params, gradient); err != nil {
		return err
	}
	if len(sentences) == 0 {
		return fmt.Errorf("the batch is empty: want at least one sentence")
	}
	return checkSentences(sentences, t.model.config.Vocabulary)
}

func (t *Trainer) checkVectors(params, gradient []float32) error {
	if err := CheckParameters(t.model, params); err != nil {
		return err
	}
	return checkLength("the gradient", len(gradient), t.model.Parameters())
}

// embed looks up the vectors of the batch's tokens.
func (t *Trainer) embed(w *weights) {
	n := t.batch.rows() * t.model.config.Embedding
	t.inputs = grow(t.inputs, n)
	t.inputGradient = grow(t.inputGradient, n)
	gatherRows(t.inputs, w.embedding, t.model.config.Embedding, t.batch.inputs)
}

// addTokenGradients adds to the embedding what it did as input, beside what a
// tied one did as output.
func (t *Trainer) addTokenGradients(g *weights) {
	width := t.model.config.Embedding
	for i, token := range t.batch.inputs {
		kernels.Add(row(g.embedding, int(token), width), row(t.inputGradient, i, width))
	}
}
