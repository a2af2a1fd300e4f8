package models

import (
	"fmt"
)

// Loss is the loss of a batch.
type Loss struct {
	// Sum of -log p(target), in nats, over all targets of the batch; for a Reader, of the losses of
	// its kind over texts.
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

// Add returns the sum of two losses.
func (l Loss) Add(other Loss) Loss { return Loss{l.Sum + other.Sum, l.Tokens + other.Tokens} }

// Trainer computes gradients of one model. It reuses its memory between batches and allocates only
// for a batch larger than all previous ones; its results do not depend on previous batches. It is
// not safe for concurrent use: one Trainer per goroutine.
type Trainer struct {
	model      *Language
	stackTrace // trace of the decoder
	output     outputTrace
	dropout    dropout
	encoder    *encoderTrace // nil for a plain model

	each perExample // for ClippedSum
}

// NewTrainer returns a trainer. It allocates memory with its first batch.
func (m *Language) NewTrainer() *Trainer {
	vocabulary := m.config.Vocabulary
	t := &Trainer{
		model:      m,
		stackTrace: newStackTrace(m.config.Embedding, m.cells),
		output:     outputTrace{vocabulary: vocabulary, width: m.config.outputWidth(), block: rowBlock(vocabulary)},
	}
	if m.config.Separator != 0 {
		t.encoder = newEncoderTrace(m)
	}
	return t
}

// Gradient computes the loss of a batch of sentences at params and sets gradient to the gradient of
// the mean loss per target. Both vectors have the model's length and must not overlap; params and
// sentences are only read.
//
// Each sentence has at least two tokens and lengths may differ. Sentences of an encoder-decoder are
// pairs: at least one token before the first separator, and at least one after it; the targets are
// the tokens after it. The sums over the batch run through the sentences, or targets, from the
// longest to the shortest, equal ones in the order given; sums over an encoder's tensors run
// through the sources likewise.
//
// A mean loss above LargestLoss nats per target, or NaN, gives a *DivergedError. After any error the content of gradient is
// undefined. A gradient may overflow although its loss is finite; FiniteNorm reports it.
func (t *Trainer) Gradient(params []float32, sentences [][]int32, gradient []float32) (Loss, error) {
	if err := t.check(params, sentences, gradient); err != nil {
		return Loss{}, err
	}
	w, g := t.model.layout.views(params), t.model.layout.views(gradient)
	top := t.forward(&w, sentences)
	loss := Loss{Tokens: t.batch.rows()}
	loss.Sum = t.output.loss(&w, &g, top.passed, t.batch.targets, 1/float32(loss.Tokens), top.gradient)
	if err := loss.Check(); err != nil {
		return Loss{}, err
	}
	t.backward(&w)
	t.weightGradients(&g)
	return loss, nil
}

// forward lays the sentences out, runs all layers, and returns the highest.
func (t *Trainer) forward(w *weights, sentences [][]int32) *layerTrace {
	if e := t.encoder; e != nil {
		sentences = e.divide(sentences, t.model.config.Separator)
		t.batch.pack(sentences)
		e.forward(w, &t.dropout, &t.stackTrace)
	} else {
		t.batch.pack(sentences)
	}
	return t.stackTrace.forward(&w.stackWeights, &t.dropout)
}

// backward runs the layers in reverse, from the gradient of the highest.
func (t *Trainer) backward(w *weights) {
	t.stackTrace.backward(&w.stackWeights, &t.dropout)
	if t.encoder != nil {
		t.encoder.backward(w, &t.dropout, &t.stackTrace)
	}
}

// weightGradients sets all tensors of g except those of the output layer, from the
// results of backward. It adds to a tied embedding, which the output layer has set.
func (t *Trainer) weightGradients(g *weights) {
	t.stackTrace.weightGradients(&g.stackWeights, t.model.config.Untied)
	if t.encoder != nil {
		t.encoder.weightGradients(&g.encoder, true)
	}
}

func (t *Trainer) check(params []float32, sentences [][]int32, gradient []float32) error {
	if err := t.checkVectors(params, gradient); err != nil {
		return err
	}
	if len(sentences) == 0 {
		return fmt.Errorf("the batch is empty: want at least one sentence")
	}
	return checkSentences(sentences, t.model.config)
}

func (t *Trainer) checkVectors(params, gradient []float32) error {
	if err := CheckParameters(t.model, params); err != nil {
		return err
	}
	return checkLength("the gradient", len(gradient), t.model.Parameters())
}
