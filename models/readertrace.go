package models

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
)

// readerTrace runs a Reader over a batch of texts, and owns the memory for it.
type readerTrace struct {
	network *Reader
	stackTrace
	dropout dropout
	words   [][]int32

	// By example: truth and outputs [n, outputs], features [n, units].
	truth, outputs, features []float32
}

func newReaderTrace(r *Reader) readerTrace {
	return readerTrace{network: r, stackTrace: newStackTrace(r.config.Embedding, r.cells)}
}

// read splits the examples and lays the texts out.
func (t *readerTrace) read(examples [][]int32) error {
	if len(examples) == 0 {
		return fmt.Errorf("the batch is empty: want at least one text")
	}
	width := t.network.outputs()
	t.truth = grow(t.truth, len(examples)*width)
	t.words = t.words[:0]
	for i, example := range examples {
		labels, words, err := t.network.divide(example)
		if err != nil {
			return fmt.Errorf("text %d of a batch: %w", i, err)
		}
		t.network.kind.truth(row(t.truth, i, width), labels)
		t.words = append(t.words, words)
	}
	t.batch.pack(t.words)
	return nil
}

func (t *readerTrace) forward(w *weights) {
	top := t.stackTrace.forward(&w.stackWeights, &t.dropout)
	units, width, n := t.network.config.Units, t.network.outputs(), len(t.words)
	t.features, t.outputs = grow(t.features, n*units), grow(t.outputs, n*width)
	for turn, i := range t.batch.order {
		copy(row(t.features, i, units), row(top.passed, t.batch.last(turn), units))
	}
	kernels.GemmBias(false, true, n, width, units, t.features, units, w.output, units, w.outputBias, t.outputs, width)
}

// ReaderLearner computes gradients of a Reader. It implements Learner and Dropping.
type ReaderLearner struct {
	trace readerTrace
	// Gradients of the fields of the trace.
	outputs, features []float32
}

// NewLearner implements Network.
func (r *Reader) NewLearner([]float32) Learner { return &ReaderLearner{trace: newReaderTrace(r)} }

// UseDropout implements Dropping, as a Trainer does.
func (l *ReaderLearner) UseDropout(rate float64, rng *rand.Rand) error {
	if !(rate >= 0 && rate < 1) {
		return fmt.Errorf("dropout rate %v: want at least 0 and below 1", rate)
	}
	l.trace.dropout = dropout{rate, rng}
	return nil
}

// Gradient implements Learner: a target is a text, with the loss of the kind. Sums over the batch
// run through the texts in their order; in tensors of the layers, in the order of a Trainer.
func (l *ReaderLearner) Gradient(params []float32, examples [][]int32, gradient []float32) (Loss, error) {
	t := &l.trace
	if err := CheckParameters(t.network, params); err != nil {
		return Loss{}, err
	}
	if err := checkLength("the gradient", len(gradient), t.network.Parameters()); err != nil {
		return Loss{}, err
	}
	if err := t.read(examples); err != nil {
		return Loss{}, err
	}
	w, g := t.network.layout.views(params), t.network.layout.views(gradient)
	t.forward(&w)
	loss := Loss{Sum: l.losses(), Tokens: len(examples)}
	if !numbers.IsFinite(loss.Sum) {
		return Loss{}, &DivergedError{Name: "loss", Value: loss.Sum}
	}
	l.backward(&w, &g)
	return loss, nil
}

// losses returns the sum of the losses, and sets the gradients of the outputs to the gradients of
// the mean.
func (l *ReaderLearner) losses() (sum float64) {
	t, width := &l.trace, l.trace.network.outputs()
	l.outputs = grow(l.outputs, len(t.outputs))
	for i := range t.words {
		sum += t.network.kind.loss(row(t.outputs, i, width), row(t.truth, i, width), row(l.outputs, i, width))
	}
	kernels.Scale(1/float32(len(t.words)), l.outputs)
	return sum
}

// backward sets g from the gradients of the outputs.
func (l *ReaderLearner) backward(w, g *weights) {
	t, units, width, n := &l.trace, l.trace.network.config.Units, l.trace.network.outputs(), len(l.trace.words)
	kernels.Gemm(true, false, width, units, n, 1, l.outputs, width, t.features, units, 0, g.output, units)
	clear(g.outputBias)
	addRows(g.outputBias, l.outputs)
	l.features = grow(l.features, n*units)
	kernels.Gemm(false, false, n, units, width, 1, l.outputs, width, w.output, units, 0, l.features, units)
	top := t.top().gradient
	clear(top)
	for turn, i := range t.batch.order {
		copy(row(top, t.batch.last(turn), units), row(l.features, i, units))
	}
	t.stackTrace.backward(&w.stackWeights, &t.dropout)
	t.weightGradients(&g.stackWeights, true)
}

const labelledAtOnce = 64

// labelling applies one set of parameters of a Reader. It implements Labeller.
type labelling struct {
	trace  readerTrace
	params []float32
}

// NewLabeller implements Labelling.
func (r *Reader) NewLabeller(params []float32) Labeller { return &labelling{newReaderTrace(r), params} }

// Label implements Labeller. An output that is not finite gives a *DivergedError.
func (l *labelling) Label(examples [][]int32) ([]Labelled, error) {
	t := &l.trace
	if err := CheckParameters(t.network, l.params); err != nil {
		return nil, err
	}
	w := t.network.layout.views(l.params)
	labelled := make([]Labelled, 0, len(examples))
	for block := range slices.Chunk(examples, labelledAtOnce) {
		if err := t.read(block); err != nil {
			return nil, err
		}
		t.forward(&w)
		if _, err := FiniteNorm("prediction", t.outputs); err != nil {
			return nil, err
		}
		labelled = t.appendLabelled(labelled)
	}
	return labelled, nil
}

// appendLabelled appends the true and the predicted labels of the texts of the batch.
func (t *readerTrace) appendLabelled(labelled []Labelled) []Labelled {
	width := t.network.outputs()
	for i := range t.words {
		p := Labelled{slices.Clone(row(t.truth, i, width)), slices.Clone(row(t.outputs, i, width))}
		t.network.kind.predict(p.Predicted)
		labelled = append(labelled, p)
	}
	return labelled
}
