package models

import (
	"math"

	"coalmine/internal/kernels"
)

// perExample is the additional state of a Trainer for ClippedSum, and owns its
// memory. The *turn* of a sentence is its index in packed.order. Rows of the
// output layer lie sentence after sentence: first[turn] is the first row of a
// sentence.
type perExample struct {
	sentenceRows              // of the decoder's batch
	source       sentenceRows // of the encoder's

	outputs        []float32 // [rows, out]: the inputs of the output layer
	outputGradient []float32 // [rows, out]
	targets        []int32   // [rows]
	scales         []float32 // [rows]: 1 / the targets of the row's sentence

	// For one sentence at a time:
	left, right, more []float32 // contiguous copies of rows of the batch
	product           []float32 // the gradient of a matrix of weights
	column            []float32 // the gradient of a bias
	gram, other       []float32 // [targets, targets]

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

// of returns the rows of a sentence.
func (r *sentenceRows) of(turn int) []int { return r.rows[r.first[turn]:r.first[turn+1]] }

// setFactor sets the clip factor of a sentence.
func (r *sentenceRows) setFactor(turn int, factor float64) {
	Fill(r.factors[r.first[turn]:r.first[turn+1]], float32(factor))
}

// ClippedSum sets sum to the sum over sentences of their gradients, each multiplied
// by factor of its L2 norm over all tensors together, and norms to these norms. With
// privacy.ClipScale as the factor no sentence adds more than the clip norm (Abadi et
// al., "Deep Learning with Differential Privacy", 2016, algorithm 1).
//
// A sentence's gradient is that of its own mean loss per target, as in a batch of
// this sentence alone, so that every sentence has the same weight. A tied embedding
// is one tensor: its gradients as input and as output add up before the norm is
// taken. Without sentences the sum is zero.
//
// sum has the model's length, norms an element for each sentence, in their order.
// Sentences and errors are as in Gradient; a gradient that is not finite gives a
// *DivergedError, because it cannot be bounded. Sums run through the sentences
// group by group, in the order given (groupSize), and within a group from the
// longest to the shortest.
//
// Norms are exact up to rounding. The gradients of a layer's weights are formed for
// each sentence. Those of the vocabulary's, which would be large, are not: the
// squared norm of a sum of outer products follows from the inner products of its
// factors (Goodfellow, "Efficient Per-Example Gradient Computations", 2015; Li et
// al., "Large Language Models Can Be Strong Differentially Private Learners", 2022,
// section 4).
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

// groupSize returns the number of sentences processed at a time: one, and more while
// their logits stay within logitMemory.
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
	loss := Loss{Sum: t.output.forward(w, e.outputs, e.targets), Tokens: t.batch.rows()}
	if !finite(loss.Sum) {
		return Loss{}, &DivergedError{What: "loss", Value: loss.Sum}
	}
	t.output.logitGradients(w, e.targets, e.scales, e.outputGradient)
	scatterRows(top.gradient, e.outputGradient, t.output.width, e.rows)
	t.backward(w)
	for turn, i := range t.batch.order {
		norm := math.Sqrt(t.squaredNorm(turn))
		if !finite(norm) {
			return Loss{}, &DivergedError{What: "gradient", Value: norm}
		}
		norms[i] = norm
		e.setFactor(turn, factor(norm))
		if t.encoder != nil {
			e.source.setFactor(t.encoder.turns[turn], factor(norm))
		}
	}
	t.clippedGradients(g)
	return loss, nil
}

// prepare determines the rows of each sentence, and gathers the inputs of the output
// layer.
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

// squaredNorm returns that of a sentence's gradient over all tensors.
func (t *Trainer) squaredNorm(turn int) float64 {
	e := &t.each
	rows := e.of(turn)
	sum := t.addLayersNorm(t.vocabularyNorm(turn, rows), e, rows)
	if t.encoder == nil {
		return sum
	}
	rows = e.source.of(t.encoder.turns[turn])
	return t.encoder.addLayersNorm(t.encoder.addEmbeddingNorm(sum, e, rows), e, rows)
}

// addLayersNorm adds the squared norm over the tensors of the layers.
func (s *stackTrace) addLayersNorm(sum float64, e *perExample, rows []int) float64 {
	for i := range s.layers {
		l := &s.layers[i]
		sum += l.squaredNorm(e, rows, l.gradient)
	}
	return sum
}

// addEmbeddingNorm adds the squared norm over the embedding as input; see
// vocabularyNorm. It leaves the gradients of the rows' vectors in e.left.
func (s *stackTrace) addEmbeddingNorm(sum float64, e *perExample, rows []int) float64 {
	n := len(rows)
	e.gram = grow(e.gram, n*n)
	e.left = grow(e.left, n*s.width)
	gatherRows(e.left, s.inputGradient, s.width, rows)
	kernels.Gemm(false, true, n, n, s.width, 1, e.left, s.width, e.left, s.width, 0, e.gram, n)
	for i, r := range rows {
		for j, r2 := range rows {
			if s.batch.inputs[r] == s.batch.inputs[r2] {
				sum += float64(e.gram[i*n+j])
			}
		}
	}
	return sum
}

// vocabularyNorm is the squared norm over embedding, output weights and output bias.
//
// With d the gradients of the logits, h the outputs, x the tokens fed and u the
// gradients of their vectors, the gradient of the output weights is the sum over
// targets of d h^T, whose squared norm is the sum over pairs s, t of (d_s d_t)(h_s
// h_t); that of the bias is the sum of d, which puts 1 in place of h_s h_t. That of
// the embedding is the sum of e_x u^T, e_x being 1 at the token and 0 elsewhere:
// pairs of equal tokens count with u_s u_t. If both are one tensor, the sums add up,
// and twice their inner product comes in: the sum over pairs of d_t[x_s] (u_s h_t).
func (t *Trainer) vocabularyNorm(turn int, rows []int) float64 {
	e, o, width := &t.each, &t.output, t.model.config.Embedding
	n, from := len(rows), e.first[turn]
	h, d := e.outputs[from*o.width:], o.exps[from:]
	e.gram, e.other = grow(e.gram, n*n), grow(e.other, n*n)

	kernels.Gemm(true, false, n, n, o.vocabulary, 1, d, o.stride, d, o.stride, 0, e.gram, n)
	kernels.Gemm(false, true, n, n, o.width, 1, h, o.width, h, o.width, 0, e.other, n)
	sum := kernels.Dot(e.gram, e.other)
	for _, v := range e.gram {
		sum += float64(v)
	}
	sum = t.addEmbeddingNorm(sum, e, rows)
	if t.model.config.Untied {
		return sum
	}
	kernels.Gemm(false, true, n, n, width, 1, e.left, width, h, width, 0, e.gram, n)
	for s, r := range rows {
		token := int(t.batch.inputs[r])
		sum += 2 * kernels.Dot(d[token*o.stride:][:n], row(e.gram, s, n))
	}
	return sum
}

// squaredNorm is that of the gradients of the layer's tensors by one sentence, which
// has the given rows.
func (c *cellTrace) squaredNorm(e *perExample, rows []int, outputGradient []float32) float64 {
	n, joined, gates := len(rows), c.cell.joined(), c.cell.gates()
	e.left, e.right = grow(e.left, n*joined), grow(e.right, n*gates)
	gatherRows(e.left, c.joined, joined, rows)
	gatherRows(e.right, c.gateGradient, gates, rows)
	sum := e.sumNorm(e.right, gates)
	if c.kind.resets {
		e.more = grow(e.more, n*c.units)
		gatherRows(e.more, c.candidateGradient, c.units, rows)
		sum += e.sumNorm(e.more, c.units)
		sum += e.productNorm(n, c.in, gates, e.left, joined, e.right, gates)
		sum += e.productNorm(n, c.out, c.direct(), e.left[c.in:], joined, e.right, gates)
		sum += e.productNorm(n, c.out, c.units, e.left[c.in:], joined, e.more, c.units)
	} else {
		sum += e.productNorm(n, joined, gates, e.left, joined, e.right, gates)
	}
	if c.projected {
		e.left, e.right = grow(e.left, n*c.units), grow(e.right, n*c.out)
		gatherRows(e.left, c.emitted, c.units, rows)
		gatherRows(e.right, outputGradient, c.out, rows)
		sum += e.productNorm(n, c.units, c.out, e.left, c.units, e.right, c.out)
	}
	return sum
}

// productNorm is the squared norm of x^T d, where x [n, width] and d [n, columns]
// have the given strides.
func (e *perExample) productNorm(n, width, columns int, x []float32, xStride int, d []float32, dStride int) float64 {
	e.product = grow(e.product, width*columns)
	kernels.Gemm(true, false, width, columns, n, 1, x, xStride, d, dStride, 0, e.product, columns)
	return kernels.SquaredNorm(e.product)
}

// sumNorm is the squared norm of the sum of the matrix's rows.
func (e *perExample) sumNorm(matrix []float32, width int) float64 {
	e.column = grow(e.column, width)
	clear(e.column)
	addRows(e.column, matrix)
	return kernels.SquaredNorm(e.column)
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

// scaleRows multiplies the factors of the gradients by the clip factors of the
// sentences.
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

// logitGradients turns the exps of all rows from forward into the gradients of
// their logits, and sets dh [rows, width], the gradient of the outputs: of each
// row's loss times its scale.
func (o *outputTrace) logitGradients(w *weights, targets []int32, scales, dh []float32) {
	o.factors = grow(o.factors, o.columns)
	clear(o.factors[len(targets):])
	for i, scale := range scales {
		o.factors[i] = float32(float64(scale) / o.sums[i])
	}
	for token := range o.vocabulary {
		logits := o.exps[token*o.stride:][:o.columns]
		kernels.Mul(logits, logits, o.factors)
	}
	kernels.Transpose(dh, o.width, o.turned, o.columns, o.width, len(targets))
	for i, target := range targets {
		o.exps[int(target)*o.stride+i] -= scales[i]
		kernels.Scale(o.factors[i], row(dh, i, o.width))
		kernels.Axpy(-scales[i], row(w.output, int(target), o.width), row(dh, i, o.width))
	}
}

// weightGradients sets g.output and g.outputBias from the results of logitGradients,
// every row times its factor.
func (o *outputTrace) weightGradients(g *weights, factors []float32) {
	copy(o.factors, factors)
	for i, f := range factors {
		kernels.Scale(f, row(o.inputs, i, o.width))
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

// scatterRows copies the rows of matrix to the chosen rows of table.
func scatterRows(table, matrix []float32, width int, chosen []int) {
	for i, r := range chosen {
		copy(row(table, r, width), row(matrix, i, width))
	}
}
