package models

import (
	"math"

	"coalmine/internal/kernels"
)

// normBound bounds the norm of a sentence's gradient from above. The gradient of each tensor is
// a sum over rows of outer products x d^T.
type normBound struct {
	square float64 // the squared norm as computed
	short  float64 // largest part of the exact squared norm lost to rounding
	terms  float64 // the squared norm if all outer products of a tensor were parallel
}

const (
	// underflow makes up for squares below the range of float32.
	underflow = 0x1p-126
)

// addTerms adds a tensor, given the sum of the norms of its outer products.
func (b *normBound) addTerms(sum float64) { b.terms += float64(sum * sum) }

// upper returns the bound, for a sentence of n rows. The second term covers rounding in sums of
// outer products: in sums for a norm, and in the clipped sum itself, which multiplies each product
// by up to three factors and sums up to 2n products for a tied embedding.
func (b *normBound) upper(n int) float64 {
	return math.Sqrt(max(b.square+b.short, 0)) + float64(float64(3*n+16)*roundoff*math.Sqrt(b.terms))
}

// addPairs adds the squared norm of a sum of outer products x d^T, where each x has an
// additional element whose square is extra: the sum over pairs s, t of (x_s x_t) (d_s d_t). It
// returns the sum of the products' norms. Errors of inner products are relative to the norms of
// their factors, so errors of the sum are relative to the square of the sum of norms.
func (b *normBound) addPairs(x, d *gram, extra float64) (norms float64) {
	for i, v := range x.products {
		b.square += float64((v + extra) * d.products[i])
	}
	for t := range x.n {
		norms += math.Sqrt((x.square(t) + extra) * d.square(t))
	}
	b.short += float64((x.precision + d.precision) * norms * norms)
	return norms
}

// gram holds the inner products of the rows of one matrix with the rows of another or the same
// matrix.
type gram struct {
	n         int
	products  []float64 // [n, n]
	precision float64   // of a product, relative to the norms of its factors
}

// gramDepth is the number of columns in a block; products are summed in float32 within a block and
// in float64 between blocks.
const gramDepth = tileWidth

// reset makes room for the sums over some columns of products of n rows.
func (g *gram) reset(n, width int) {
	g.n, g.products = n, grow(g.products, n*n)
	clear(g.products)
	// Errors of each block, 1% for products of errors, and errors of sums over pairs in float64.
	g.precision = float64(1.01*roundoff*float64(min(width, gramDepth))) + float64(n*n)*0x1p-52
}

func (e *perExample) setInner(g *gram, n int, x, y strided) {
	g.reset(n, x.width)
	e.block = grow(e.block, n*n)
	for from := 0; from < x.width; from += gramDepth {
		kernels.Gemm(false, true, n, n, min(gramDepth, x.width-from), 1, x.values[from:], x.stride, y.values[from:], y.stride, 0, e.block, n)
		addWide(g.products, e.block)
	}
}

// square returns the squared norm of row t of a matrix with itself, with room for underflow.
func (g *gram) square(t int) float64 { return g.products[t*g.n+t] + underflow }

func addWide(sum []float64, x []float32) {
	for i, v := range x {
		sum[i] += float64(v)
	}
}

// strided is a matrix with rows stride elements apart.
type strided struct {
	values        []float32
	width, stride int
}

func (m strided) row(i int) []float32 { return m.values[i*m.stride:][:m.width] }

// addProduct adds the squared norm of x^T d, of n rows each, and of extra times the sum of the rows
// of d: extra is 1 if there is a bias, else 0. It computes the inner products of rows or the
// product itself, whichever is cheaper.
func (e *perExample) addProduct(b *normBound, n int, x, d strided, extra float64) {
	if n*(x.width+d.width) < x.width*d.width {
		e.addPaired(b, n, x, d, extra)
	} else {
		e.addFormed(b, n, x, d, extra)
	}
}

func (e *perExample) addPaired(b *normBound, n int, x, d strided, extra float64) {
	e.setInner(&e.left, n, x, x)
	e.setInner(&e.right, n, d, d)
	b.addTerms(b.addPairs(&e.left, &e.right, extra))
}

func (e *perExample) addFormed(b *normBound, n int, x, d strided, extra float64) {
	e.product = grow(e.product, x.width*d.width)
	kernels.Gemm(true, false, x.width, d.width, n, 1, x.values, x.stride, d.values, d.stride, 0, e.product, d.width)
	b.square += kernels.SquaredNorm(e.product)
	column := grow(e.product, d.width)
	clear(column)
	var norms float64
	for i := range n {
		kernels.Add(column, d.row(i))
		norms += math.Sqrt((kernels.SquaredNorm(x.row(i)) + extra) * kernels.SquaredNorm(d.row(i)))
	}
	b.square += float64(extra * kernels.SquaredNorm(column))
	b.addTerms(norms)
}

// normBound returns the bound for a sentence's gradient over all tensors, given the inner products
// of its logits' gradients.
func (t *Trainer) normBound(turn int, logits *gram) float64 {
	e, b := &t.each, normBound{}
	rows := e.of(turn)
	t.addVocabularyNorm(&b, turn, rows, logits)
	t.addLayersNorm(&b, e, rows)
	if t.encoder == nil {
		return b.upper(len(rows))
	}
	source := e.source.of(t.encoder.turns[turn])
	b.addTerms(t.encoder.addEmbeddingNorm(&b, e, source))
	t.encoder.addLayersNorm(&b, e, source)
	return b.upper(max(len(rows), len(source)))
}

// addLayersNorm adds the squared norm over the tensors of the layers.
func (s *stackTrace) addLayersNorm(b *normBound, e *perExample, rows []int) {
	for i := range s.layers {
		l := &s.layers[i]
		l.addNorm(b, e, rows, l.gradient)
	}
}

// addEmbeddingNorm adds the squared norm over the embedding as input, and returns the sum
// of the norms of the rows; see addVocabularyNorm. It leaves the gradients of the rows'
// vectors in e.x and their inner products in e.left.
func (s *stackTrace) addEmbeddingNorm(b *normBound, e *perExample, rows []int) (norms float64) {
	n, g := len(rows), &e.left
	e.x = grow(e.x, n*s.width)
	gatherRows(e.x, s.inputGradient, s.width, rows)
	u := strided{e.x, s.width, s.width}
	e.setInner(g, n, u, u)
	for i, r := range rows {
		norms += math.Sqrt(g.square(i))
		for j, r2 := range rows {
			if s.batch.inputs[r] == s.batch.inputs[r2] {
				b.square += g.products[i*n+j]
				b.short += float64(g.precision * math.Sqrt(g.square(i)*g.square(j)))
			}
		}
	}
	return norms
}

// logitGrams sets e.logits to the inner products of the gradients of the logits, for as many
// sentences from first on as fit into gramMemory, and returns the next sentence.
func (t *Trainer) logitGrams(first int) (last int) {
	e, o := &t.each, &t.output
	size := 0
	for last = first; last < len(t.batch.order); last++ {
		n := len(e.of(last))
		if size += n * n; size > gramMemory && last > first {
			break
		}
		if len(e.logits) <= last-first {
			e.logits = append(e.logits, gram{})
		}
		e.logits[last-first].reset(n, o.vocabulary)
	}
	for k := range tileCount(o.vocabulary) {
		from, to := tileBounds(o.vocabulary, k)
		for turn := first; turn < last; turn++ {
			g, d := &e.logits[turn-first], o.exps[from*o.stride+e.first[turn]:to*o.stride]
			e.block = grow(e.block, g.n*g.n)
			kernels.Gemm(true, false, g.n, g.n, to-from, 1, d, o.stride, d, o.stride, 0, e.block, g.n)
			addWide(g.products, e.block)
		}
	}
	for turn := first; turn < last; turn++ {
		g, factors := &e.logits[turn-first], o.factors[e.first[turn]:]
		for i := range g.products {
			g.products[i] *= float64(factors[i/g.n]) * float64(factors[i%g.n])
		}
	}
	return last
}

// gramMemory limits the inner products of logits that are kept at a time.
const gramMemory = 1 << 18

// addVocabularyNorm adds the squared norm over embedding, output weights and output bias. turn and
// rows identify the sentence; logits holds the inner products of its logits' gradients.
//
// With d the gradients of the logits, h the outputs, x the tokens fed and u the gradients
// of their vectors, the gradient of the output weights is the sum over targets of d h^T, and the
// gradient of the bias is the sum of d: see addPairs. The gradient of the embedding is the sum of
// e_x u^T, with e_x the one-hot vector of the token: pairs of equal tokens add u_s u_t. If both are
// one tensor, the squared norms add up, plus twice their inner product: the sum over pairs of
// d_t[x_s] (u_s h_t).
func (t *Trainer) addVocabularyNorm(b *normBound, turn int, rows []int, logits *gram) {
	e, width := &t.each, t.output.width
	n, h := len(rows), strided{e.outputs[e.first[turn]*width:], width, width}
	e.setInner(&e.right, n, h, h)
	output, input := b.addPairs(&e.right, logits, 1), t.addEmbeddingNorm(b, e, rows)
	if t.model.config.Untied {
		b.addTerms(output)
		b.addTerms(input)
		return
	}
	b.addTerms(output + input)
	e.setInner(&e.cross, n, strided{e.x, width, width}, h)
	for s, r := range rows {
		token := t.batch.inputs[r]
		for i := range n {
			d := t.output.logitGradient(int(token), e.first[turn]+i)
			b.square += 2 * float64(d*e.cross.products[s*n+i])
			b.short += float64(2 * e.cross.precision * math.Abs(d) * math.Sqrt(e.left.square(s)*e.right.square(i)))
		}
	}
}

// addNorm adds the squared norm over the layer's tensors.
func (c *cellTrace) addNorm(b *normBound, e *perExample, rows []int, outputGradient []float32) {
	n, joined, gates := len(rows), c.cell.joined(), c.cell.gates()
	e.x, e.d = grow(e.x, n*joined), grow(e.d, n*gates)
	gatherRows(e.x, c.joined, joined, rows)
	gatherRows(e.d, c.gateGradient, gates, rows)
	if c.kind.resets {
		e.more = grow(e.more, n*c.units)
		gatherRows(e.more, c.candidateGradient, c.units, rows)
		recalled := strided{e.x[c.in:], c.out, joined}
		e.addProduct(b, n, strided{e.x, c.in, joined}, strided{e.d, gates, gates}, 1)
		e.addProduct(b, n, recalled, strided{e.d, c.direct(), gates}, 0)
		e.addProduct(b, n, recalled, strided{e.more, c.units, c.units}, 1)
	} else {
		e.addProduct(b, n, strided{e.x, joined, joined}, strided{e.d, gates, gates}, 1)
	}
	if c.projected {
		e.x, e.d = grow(e.x, n*c.units), grow(e.d, n*c.out)
		gatherRows(e.x, c.emitted, c.units, rows)
		gatherRows(e.d, outputGradient, c.out, rows)
		e.addProduct(b, n, strided{e.x, c.units, c.units}, strided{e.d, c.out, c.out}, 0)
	}
}
