package models

import (
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/memory"
)

// Tables hold the data common to the TreeScorers of one Scorer. They are immutable
// and safe for concurrent use.
type Tables struct {
	scorer *Scorer
	// inputs is [vocabulary, gates]: each token's share of the gates of the lowest layer, including
	// the bias. It is nil for a transformer, or if it would have more than maxInputs elements.
	inputs []float32
	// targets is [vocabulary, units]: the projection times each token's output vector, so
	// that its product with an emission is the token's logit, without the bias. It is nil
	// unless a look-ahead needs it.
	targets []float32
	coarse  *coarseBounds    // nil without targets, or if cells have no rational approximation
	output  *kernels.Rounded // the transposed output weights, quantised; only of a transformer
	// By token: its group of tokens with similar output vectors, for NormaliserBounds.
	outputGroupOf, emissionGroupOf []int
	rounding
}

// maxInputs is the largest number of elements of Tables.inputs: 256 MiB, three
// times the size for the paper's model. It changes no result.
const maxInputs = 1 << 26

// Tabulate prepares TreeScorers. The tables take Tables.Bytes of memory.
func (s *Scorer) Tabulate() *Tables {
	t := &Tables{scorer: s, rounding: roundingOf(s)}
	if s.blocks == nil && s.model.config.Vocabulary*s.layers[0].gates() <= maxInputs {
		t.inputs = memory.Floats(s.model.config.Vocabulary * s.layers[0].gates())
		s.inputGates(s.weights.embedding, t.inputs)
	}
	if t.inputs != nil && s.looksAhead() {
		t.targets = s.emissionVectors(s.weights.output)
	}
	t.coarse = t.newCoarseBounds()
	if s.blocks != nil {
		t.output = s.roundOutput()
	}
	t.outputGroupOf, t.emissionGroupOf = groupTokens(s, outputGroups), groupTokens(s, emissionGroups)
	return t
}

// Bytes returns the memory of the tables, including the scorer and its parameters, for caches.
func (t *Tables) Bytes() int64 {
	bytes := t.scorer.Bytes() + 4*int64(len(t.inputs)+len(t.targets)) + 8*int64(len(t.outputGroupOf)+len(t.emissionGroupOf))
	if t.coarse != nil {
		bytes += t.coarse.recurrent.Bytes() + 8*int64(len(t.coarse.sizes))
	}
	if t.output != nil {
		bytes += t.output.Bytes()
	}
	return bytes
}

// Scorer returns the scorer of the tables.
func (t *Tables) Scorer() *Scorer { return t.scorer }

// inputGates sets gates to the contributions of token vectors to the gates of
// the lowest layer, in the order of arithmetic of scorerLayer.step.
func (s *Scorer) inputGates(vectors, gates []float32) {
	l := &s.layers[0]
	kernels.GemmPackedBias(false, len(vectors)/l.in, vectors, l.in, &l.input, s.weights.layers[0].bias, gates, l.gates())
}

// looksAhead reports whether the surprisal of a token can be bounded from an emission: the emitting
// layer is projected and is the only layer.
func (s *Scorer) looksAhead() bool { return len(s.layers) == 1 && s.layers[0].projected }

// emissionVectors multiplies output vectors [n, out] by the projection. The product of a row with
// an emission equals the product of the vector with the emission's output.
func (s *Scorer) emissionVectors(vectors []float32) []float32 {
	l := &s.layers[0]
	n := len(vectors) / l.out
	carried := memory.Floats(n * l.units)
	kernels.Gemm(false, true, n, l.units, l.out, 1, vectors, l.out, s.weights.layers[0].projection, l.out, 0, carried, l.units)
	return carried
}

// rounding bounds the roundings between the bound of a surprisal and the surprisal as
// LogProbs computes it.
type rounding struct {
	width int // of an output
	// longest is the largest length of an output vector; offset bounds every bias
	// and the entropies.
	longest, offset float64
	// units is the number of terms of a projection, and projection its
	// Frobenius norm; 0 without look-ahead.
	units      int
	projection float64
}

func roundingOf(s *Scorer) rounding {
	r := rounding{width: s.model.config.outputWidth()}
	largest := 0.0
	for w, b := range s.weights.outputBias {
		if b < Absent/2 {
			continue // exponential is 0 in any order of arithmetic
		}
		largest = max(largest, math.Abs(float64(b)))
		r.longest = max(r.longest, kernels.SquaredNorm(row(s.weights.output, w, r.width)))
	}
	r.longest, r.offset = math.Sqrt(r.longest), math.Log(float64(len(s.weights.outputBias)))+largest
	if s.looksAhead() {
		r.units, r.projection = s.layers[0].units, math.Sqrt(kernels.SquaredNorm(s.weights.layers[0].projection))
	}
	return r
}

// roundoff is half a unit in the last place of 1 in float32: the largest relative
// error of one rounding.
const roundoff = 1.0 / (1 << 24)

// margin returns the largest distance by which rounding may put a bound beyond the log probability
// that LogProbs computes, after an output of the given length. With A the largest magnitude that
// the sum of absolute values of a logit can reach, including the vector and bias of a merged token,
// and g the number of roundings in a logit, in units of roundoff:
//
//	3 g A   the logits of the vocabulary, of the merged tokens, of the target
//	8 A + 8 two log-sum-exps: the difference to the peak, of a logit from its
//	        tile's and of a tile's from the row's, at most 2 A each, and the two
//	        exponentials, at most 2 each; sums are in float64
//	2 A     a merged token's vector and bias, rounded to float32
//	3 A     the log probability, rounded to float32
//
// plus an allowance for higher orders.
func (r *rounding) margin(length float64) float64 {
	largest := length*r.longest + r.offset
	return roundoff * ((3*r.sums(r.width)+16)*largest + 16)
}

// emissionMargin is margin for a bound from an emission of the given length. By Cauchy and Schwarz
// its length times the projection's norm is at least the length of the output and, times longest,
// at least the sum B of the absolute values in a logit, in any order. Let g and G be the roundings
// in sums over the output and over the units. In addition to margin there are 2 G B for the output
// as LogProbs projects it, in the logits of a merged token and of the target; g B for the vector of
// each, multiplied by the projection; and G B for the merged token's logit. (The target's is summed
// in float64.)
func (r *rounding) emissionMargin(length float64) float64 {
	output := length * r.projection
	return r.margin(output) + roundoff*(3*r.sums(r.units)+2*r.sums(r.width)+16)*output*r.longest
}

func (r *rounding) sums(products int) float64 { return float64(products + products/128 + 8) }
