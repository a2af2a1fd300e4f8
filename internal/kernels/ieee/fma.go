// Package ieee computes fused multiply-adds of float32 in software, correctly rounded in every case, so
// that portable code agrees bit for bit with vector instructions.
package ieee

import "math"

// FMA32 returns a*b + c rounded once, to nearest, ties to even: the result of VFMADD213SS and its
// variants, including subnormals and overflow. Only the payload of a NaN may differ.
func FMA32(a, b, c float32) float32 {
	product := float64(a) * float64(b)
	if sum, ok := Add(product, c); ok {
		return float32(sum)
	}
	return AddSlowly(product, c)
}

// Add is the fast part of FMA32, separate so that loops can inline it: it returns product + c in
// float64, for an exact product of two float32, and whether the conversion of this sum to float32 rounds
// like the exact sum. Rounding twice errs only if the first rounding produces a tie for the second.
func Add(product float64, c float32) (sum float64, ok bool) {
	sum = product + float64(c)
	bits := math.Float64bits(sum)
	return sum, bits&(1<<29-1) != 1<<28 && bits<<1 >= smallestNormal<<53
}

// smallestNormal is the biased float64 exponent of 2^-126, below which float32
// has fewer bits and its ties are elsewhere.
const smallestNormal = 1023 - 126

// AddSlowly returns product + c, rounded once, in every case. It rounds the
// float64 sum to odd, whose conversion to float32 rounds like the exact sum
// (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
func AddSlowly(product float64, c float32) float32 {
	wide := float64(c)
	sum := product + wide
	// Knuth's TwoSum: residue is the exact rounding error.
	virtual := sum - product
	residue := (product - (sum - virtual)) + (wide - virtual)
	bits := math.Float64bits(sum)
	if bits&1 == 1 || residue == 0 || math.IsNaN(residue) {
		return float32(sum)
	}
	if (residue > 0) == (sum > 0) {
		return float32(math.Float64frombits(bits + 1))
	}
	return float32(math.Float64frombits(bits - 1))
}
