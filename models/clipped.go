package models

import (
	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
)

// perExample is the additional state of a Trainer for ClippedSum, and owns its memory. The *turn*
// of a sentence is its index in packed.order. Rows of the output layer lie sentence after sentence:
// first[turn] is the first row of a sentence.
type perExample struct {
	sentenceRows              // rows of the decoder's batch
	source       sentenceRows // rows of the encoder's batch

	outputs        []float32 // [rows, out]: the inputs of the output layer
	outputGradient []float32 // [rows, out]
	targets        []int32   // [rows]
	scales         []float32 // [rows]: 1 / the targets of the row's sentence

	logits []gram // by sentence, for the gradients of the logits

	// For one sentence at a time:
	x, d, more         []float32 // contiguous copies of rows of the batch
	product            []float32 // the gradient of a matrix of weights
	left, right, cross gram
	block              []float32 // [targets, targets]: the inner products of some columns

	part []float32 // the gradient of a group after the first
}

// sentenceRows are the rows of a batch, sentence after sentence.
type sentenceRows struct {
	rows    []int
	first   []int     // [sentences+1]
	factors []float32 // [rows]: the clip factor of the row's sentence
}

// lay finds the rows of each sentence.
func (r *sentenceRows) lay(batch *packed) {
	r.rows, r.first = r.rows[:0], append(r.first[:0], 0)
	for turn := range batch.order {
		for t := 0; t < batch.steps() && turn < batch.active(t); t++ {
			r.rows = append(r.rows, batch.start[t]+turn)
		}
		r.first = append(r.first, len(r.rows))
	}
	r.factors = grow(r.factors, len(r.rows))
}

func (r *sentenceRows) of(turn int) []int { return r.rows[r.first[turn]:r.first[turn+1]] }

func (r *sentenceRows) setFactor(turn int, factor float64) {
	Fill(r.factors[r.first[turn]:r.first[turn+1]], float32(factor))
}

// ClippedSum sets sum to the sum over sentences of their gradients, each multiplied
// by factor of its L2 norm over all tensors together, and norms to these norms, rounded up. With
// privacy.ClipScale as the factor, no sentence contributes more than the clip norm (Abadi et al.,
// "Deep Learning with Differential Privacy", 2016, algorithm 1).
//
// A sentence's gradient is the gradient of its own mean loss per target, as in a batch with only
// this sentence, so that every sentence has the same weight. A tied embedding is one tensor: its
// gradients as input and as output add up before the norm is taken. Without sentences the sum is
// zero.
//
// sum has the model's length, and norms one element per sentence, in order. Sentences and errors
// are as in Gradient; a gradient that is not finite gives a *DivergedError, because it cannot be
// bounded. Sums run through the sentences group by group, in the order given (groupSize), and
// within a group from the longest to the shortest.
//
// The gradients of single sentences are not formed, unless they are small: the squared
// norm of a sum of outer products follows from the inner products of its factors
// (Goodfellow, "Efficient Per-Example Gradient Computations", 2015; Li et al., "Large
// Language Models Can Be Strong Differentially Private Learners", 2022, section 4). One
// more product, of all rows times their factors, gives the sum.
//
// An element of norms is not below the exact norm, as long as no product leaves the normal range of
// float32, as products do if their factors differ by 1e8 or more from tensor to tensor. It is above
// the exact norm by bounds on the rounding of its computation and of the sentence's share of the
// sum: by at most 2e-5 times the number of targets, unless the terms of the sentence's gradient
// cancel. So the clipped gradient of a single sentence has at most the clip norm, including
// rounding. The last digits of a norm, and the rounding in a sum over several sentences, depend on
// all sentences, as the low bits of noisy sums do (privacy.AddGaussian).
func (t *Trainer) ClippedSum(params []float32, sentences [][]int32, factor func(norm float64) float64, sum []float32, norms []float64) (Loss, error) {
	if err := t.checkClipped(params, sentences, sum, norms); err != nil {
		return Loss{}, err
	}
	if len(sentences) == 0 {
		clear(sum)
	}
	w := t.model.layout.views(params)
	var total Loss
	for from := 0; from < len(sentences); {
		to := from + t.groupSize(sentences[from:])
		into := sum
		if from > 0 {
			t.each.part = grow(t.each.part, len(sum))
			into = t.each.part
		}
		g := t.model.layout.views(into)
		loss, err := t.clippedGroup(&w, &g, sentences[from:to], factor, norms[from:to])
		if err != nil {
			return total, err
		}
		if from > 0 {
			kernels.Add(sum, into)
		}
		total, from = total.Add(loss), to
	}
	return total, nil
}

func (t *Trainer) checkClipped(params []float32, sentences [][]int32, sum []float32, norms []float64) error {
	if err := t.checkVectors(params, sum); err != nil {
		return err
	}
	if err := checkLength("the vector of norms", len(norms), len(sentences)); err != nil {
		return err
	}
	return checkSentences(sentences, t.model.config)
}

// groupSize returns the number of sentences processed at a time: as many as have logits within
// logitMemory, at least one.
func (t *Trainer) groupSize(sentences [][]int32) int {
	most, rows := logitMemory/t.model.config.Vocabulary, 0
	for i, s := range sentences {
		if rows += len(s) - 1; rows > most && i > 0 {
			return i
		}
	}
	return len(sentences)
}

// clippedGroup processes a whole group of sentences.
func (t *Trainer) clippedGroup(w, g *weights, sentences [][]int32, factor func(norm float64) float64, norms []float64) (Loss, error) {
	top := t.forward(w, sentences)
	e := &t.each
	e.prepare(&t.batch, top.passed, t.output.width)
	if t.encoder != nil {
		e.source.lay(&t.encoder.batch)
	}
	loss := Loss{Sum: t.output.forward(w, e.outputs, e.targets, largestSquaredSum), Tokens: t.batch.rows()}
	if err := loss.Check(); err != nil {
		return Loss{}, err
	}
	t.output.logitGradients(w, e.targets, e.scales, e.outputGradient)
	scatterRows(top.gradient, e.outputGradient, t.output.width, e.rows)
	t.backward(w)
	if err := t.setFactors(factor, norms); err != nil {
		return Loss{}, err
	}
	t.clippedGradients(g)
	return loss, nil
}

func (t *Trainer) setFactors(factor func(norm float64) float64, norms []float64) error {
	e, order := &t.each, t.batch.order
	for first := 0; first < len(order); {
		last := t.logitGrams(first)
		for turn := first; turn < last; turn++ {
			norm := t.normBound(turn, &e.logits[turn-first])
			if !numbers.IsFinite(norm) {
				return &DivergedError{Name: "gradient", Value: norm}
			}
			norms[order[turn]] = norm
			by := factor(norm)
			e.setFactor(turn, by)
			if t.encoder != nil {
				e.source.setFactor(t.encoder.turns[turn], by)
			}
		}
		first = last
	}
	return nil
}

// prepare determines the rows of each sentence, and gathers the inputs of the output layer.
func (e *perExample) prepare(batch *packed, outputs []float32, width int) {
	e.lay(batch)
	e.targets, e.scales = e.targets[:0], e.scales[:0]
	for turn := range batch.order {
		rows := e.of(turn)
		for _, r := range rows {
			e.targets = append(e.targets, batch.targets[r])
			e.scales = append(e.scales, 1/float32(len(rows)))
		}
	}
	n := len(e.rows)
	e.outputs, e.outputGradient = grow(e.outputs, n*width), grow(e.outputGradient, n*width)
	gatherRows(e.outputs, outputs, width, e.rows)
}

// clippedGradients sets g to the sum of the gradients, each times its factor.
func (t *Trainer) clippedGradients(g *weights) {
	e := &t.each
	t.scaleRows(&e.sentenceRows)
	if t.encoder != nil {
		t.encoder.scaleRows(&e.source)
	}
	t.output.weightGradients(g, e.factors)
	t.weightGradients(g)
}

// scaleRows multiplies the factors of the gradients by the clip factors of the sentences.
func (s *stackTrace) scaleRows(by *sentenceRows) {
	for i := range s.layers {
		l := &s.layers[i]
		by.scale(l.gateGradient, l.cell.gates())
		if l.kind.resets {
			by.scale(l.candidateGradient, l.units)
		}
		if l.projected {
			by.scale(l.gradient, l.out)
		}
	}
	by.scale(s.inputGradient, s.width)
}

// scale multiplies every row of the batch by the factor of its sentence.
func (r *sentenceRows) scale(matrix []float32, width int) {
	for i, at := range r.rows {
		if r.factors[i] != 1 {
			kernels.Scale(r.factors[i], row(matrix, at, width))
		}
	}
}

// logitGradients turns the exps of all rows from forward into the gradients of their logits, each
// row divided by its factor, and sets dh [rows, width] to the gradient of the outputs. The loss of
// each row is multiplied by its scale.
func (o *outputTrace) logitGradients(w *weights, targets []int32, scales, dh []float32) {
	o.factors = grow(o.factors, o.columns)
	clear(o.factors[len(targets):])
	for i, scale := range scales {
		o.factors[i] = float32(float64(scale) / o.sums[i])
	}
	kernels.Transpose(dh, o.width, o.turned, o.columns, o.width, len(targets))
	for i, target := range targets {
		at := int(target)*o.stride + i
		o.exps[at] = float32(float64(o.exps[at]) - o.sums[i])
		kernels.Scale(o.factors[i], row(dh, i, o.width))
		kernels.Axpy(-scales[i], row(w.output, int(target), o.width), row(dh, i, o.width))
	}
}

// logitGradient returns the gradient of a token's logit in a row, after logitGradients.
func (o *outputTrace) logitGradient(token, row int) float64 {
	return float64(o.exps[token*o.stride+row]) * float64(o.factors[row])
}

// weightGradients sets g.output and g.outputBias from the results of logitGradients,
// every row times its clip factor.
func (o *outputTrace) weightGradients(g *weights, factors []float32) {
	for i, f := range factors {
		o.factors[i] *= f
		kernels.Scale(o.factors[i], row(o.inputs, i, o.width))
	}
	kernels.PackB(false, len(factors), o.width, o.inputs, o.width, &o.packed)
	clear(g.outputBias)
	for k := range tileCount(o.vocabulary) {
		from, to := tileBounds(o.vocabulary, k)
		logits := o.exps[from*o.stride : to*o.stride]
		kernels.GemmPacked(false, to-from, 1, logits, o.stride, &o.packed, 0, g.output[from*o.width:], o.width)
		kernels.AddRowDots(g.outputBias[from:to], logits, o.stride, to-from, o.columns, o.factors)
	}
}

func scatterRows(table, matrix []float32, width int, chosen []int) {
	for i, r := range chosen {
		copy(row(table, r, width), row(matrix, i, width))
	}
}
