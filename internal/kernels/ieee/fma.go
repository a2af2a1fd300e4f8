// Package ieee computes fused multiply-adds of float32 without the help of
// the processor, correctly rounded in every case, so that portable code can
// agree bit for bit with vector instructions.
package ieee

import "math"

// FMA32 returns a*b + c rounded once, to nearest, ties to even: the result of
// VFMADD213SS and its kin, subnormals and overflow included. Only the payload
// of a NaN may differ.
//
// The product of two float32 is exact in float64. Rounding the sum to float64
// and then to float32 errs only when the first rounding lands on a tie of the
// second, which the fast path excludes.
func FMA32(a, b, c float32) float32 {
	product := float64(a) * float64(b)
	sum := product + float64(c)
	bits := math.Float64bits(sum)
	if bits&(1<<29-1) != 1<<28 && bits<<1 >= smallestNormal<<53 {
		return float32(sum)
	}
	return roundOnce(product, float64(c), sum)
}

// smallestNormal is the biased float64 exponent of 2^-126, below which
// float32 has fewer bits and its ties lie elsewhere.
const smallestNormal = 1023 - 126

// roundOnce turns sum, the float64 nearest to product + c, into the float64
// rounded to odd, whose conversion to float32 rounds like the exact sum
// (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
//
//go:noinline
func roundOnce(product, c, sum float64) float32 {
	// Knuth's TwoSum: residue is the exact rounding error.
	virtual := sum - product
	residue := (product - (sum - virtual)) + (c - virtual)
	bits := math.Float64bits(sum)
	if bits&1 == 1 || residue == 0 || math.IsNaN(residue) {
		return float32(sum)
	}
	if (residue > 0) == (sum > 0) {
		return float32(math.Float64frombits(bits + 1))
	}
	return float32(math.Float64frombits(bits - 1))
}
