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
	model  *Language
	batch  packed
	cell   cellTrace
	output outputTrace

	inputs         []float32 // [rows, width]: the token vectors
	inputGradient  []float32 // [rows, width]
	outputGradient []float32 // [rows, width]
}

// NewTrainer returns a trainer with no memory yet.
func (m *Language) NewTrainer() *Trainer {
	vocabulary := m.config.Vocabulary
	return &Trainer{
		model:  m,
		cell:   cellTrace{cell: m.cell()},
		output: outputTrace{vocabulary: vocabulary, width: m.config.Embedding, block: rowBlock(vocabulary)},
	}
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
// CheckFinite tells.
func (t *Trainer) Gradient(params []float32, sentences [][]int32, gradient []float32) (Loss, error) {
	if err := t.check(params, sentences, gradient); err != nil {
		return Loss{}, err
	}
	t.batch.pack(sentences)
	w, g := t.model.layout.views(params), t.model.layout.views(gradient)
	t.embed(&w)
	t.cell.forward(&t.batch, &w, t.inputs)
	loss := Loss{Tokens: t.batch.rows()}
	loss.Sum = t.output.loss(&w, &g, t.cell.output, t.batch.targets, 1/float32(loss.Tokens), t.outputGradient)
	if !finite(loss.Sum) {
		return Loss{}, &DivergedError{What: "loss", Value: loss.Sum}
	}
	t.cell.backward(&t.batch, &w, &g, t.inputs, t.outputGradient, t.inputGradient)
	t.addTokenGradients(&g)
	return loss, nil
}

func (t *Trainer) check(params []float32, sentences [][]int32, gradient []float32) error {
	if err := t.model.CheckParameters(params); err != nil {
		return err
	}
	if err := checkLength("the gradient", len(gradient), t.model.Parameters()); err != nil {
		return err
	}
	if len(sentences) == 0 {
		return fmt.Errorf("the batch is empty: want at least one sentence")
	}
	return checkSentences(sentences, t.model.config.Vocabulary)
}

// embed looks up the vectors of the batch's tokens.
func (t *Trainer) embed(w *weights) {
	n := t.batch.rows() * t.model.config.Embedding
	t.inputs = grow(t.inputs, n)
	t.inputGradient = grow(t.inputGradient, n)
	t.outputGradient = grow(t.outputGradient, n)
	gatherRows(t.inputs, w.embedding, t.model.config.Embedding, t.batch.inputs)
}

// addTokenGradients adds to the tied embedding what it did as input, beside
// what it did as output.
func (t *Trainer) addTokenGradients(g *weights) {
	width := t.model.config.Embedding
	for i, token := range t.batch.inputs {
		kernels.Add(row(g.embedding, int(token), width), row(t.inputGradient, i, width))
	}
}
