package kernels

import (
	"fmt"
	"math"

	"coalmine/internal/kernels/constant"
	"coalmine/internal/kernels/ieee"
)

// NormalizeRows normalizes each row of x to mean 0 and variance 1, multiplies it by scale, adds shift, and writes it
// to dst (Ba et al., "Layer Normalization", 2016, section 3):
//
//	(x - mean) / sqrt(variance + epsilon) * scale + shift
//
// All matrices have as many columns as scale and shift; dst may be x. Every operation is rounded to float64, sums are
// in the order of the columns, and the result is rounded to float32.
func NormalizeRows(dst, x, scale, shift []float32, epsilon float64) {
	sameLength("dst", dst, x)
	if len(scale) == 0 || len(shift) != len(scale) || len(x)%len(scale) != 0 {
		panic(fmt.Sprintf("kernels: x has %d elements, scale %d and shift %d; want rows as long as both", len(x), len(scale), len(shift)))
	}
	active.Load().normalizeRows(dst, x, scale, shift, epsilon)
}

const (
	// momentRows is the number of rows of one call of set.rowMoments.
	momentRows = 8
	// rowUnit divides the number of columns of set.rowMoments and set.normalizeRow.
	rowUnit = 8
)

func (s *set) normalizeRows(dst, x, scale, shift []float32, epsilon float64) {
	columns := len(scale)
	moments, apply, together := s.rowMoments, s.normalizeRow, momentRows
	if columns%rowUnit != 0 {
		moments, apply = rowMoments, normalizeRow
	}
	for len(x) > 0 {
		if len(x) < momentRows*columns {
			moments, together = rowMoments, 1
		}
		var zero, means, sums, squares [momentRows]float64
		moments(columns, columns, x, zero[:together], sums[:together], squares[:together])
		for i, sum := range sums[:together] {
			means[i] = sum / float64(columns)
		}
		moments(columns, columns, x, means[:together], sums[:together], squares[:together])
		for i, square := range squares[:together] {
			at := i * columns
			apply(dst[at:at+columns], x[at:at+columns], scale, shift, means[i], 1/math.Sqrt(square/float64(columns)+epsilon))
		}
		dst, x = dst[together*columns:], x[together*columns:]
	}
}

// SoftmaxRows replaces each row of x, a matrix with the given columns, by its softmax: the exponentials of SoftmaxTile
// times the inverse of their sum, which is rounded to float32.
func SoftmaxRows(columns int, x []float32) {
	if columns < 1 || len(x)%columns != 0 {
		panic(fmt.Sprintf("kernels: x has %d elements; want rows of %d", len(x), columns))
	}
	active.Load().softmaxRows(columns, x)
}

// softmaxRows computes the exponentials of short rows, which fill no register, by one call.
func (s *set) softmaxRows(columns int, x []float32) {
	if columns > lanes {
		for ; len(x) > 0; x = x[columns:] {
			_, sum := s.softmaxTile(x[:columns])
			s.scale(float32(1/sum), x[:columns])
		}
		return
	}
	for at := 0; at < len(x); at += columns {
		short := x[at : at+columns]
		largest := float32(math.Inf(-1))
		for _, v := range short {
			largest = larger(v, largest)
		}
		for i := range short {
			short[i] -= largest
		}
	}
	s.exp(x, x)
	for at := 0; at < len(x); at += columns {
		short := x[at : at+columns]
		weight := float32(1 / sumShort(short))
		for i := range short {
			short[i] *= weight
		}
	}
}

// sumShort adds up x, at most one element per lane and none negative, in the order of sumLanes. It skips the lanes
// without an element.
func sumShort(x []float32) float64 {
	var acc [lanes]float64
	for i, v := range x {
		acc[i] = float64(v)
	}
	half := lanes / 2
	for half > 1 && half >= len(x) {
		half /= 2
	}
	for ; half > 0; half /= 2 {
		for i := range half {
			acc[i] += acc[i+half]
		}
	}
	return acc[0]
}

// GELU writes x times the normal distribution function at x to dst, which may be x. It uses the approximation by tanh
// of Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2: x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)).
func GELU(dst, x []float32) {
	sameLength("dst", dst, x)
	active.Load().gelu(dst, x)
}

// The definitions of the kernels.

// rowMoments sets plain to the sums of the rows of x less their shift, and squares to the sums of the squares of these
// differences. There are as many rows as elements of shift; row is the stride between them.
func rowMoments(columns, row int, x []float32, shift, plain, squares []float64) {
	for i, from := range shift {
		plain[i], squares[i] = 0, 0
		for _, v := range x[i*row:][:columns] {
			d := float64(v) - from
			plain[i] += d
			squares[i] += float64(d * d)
		}
	}
}

func normalizeRow(dst, x, scale, shift []float32, mean, factor float64) {
	for i, v := range x {
		dst[i] = float32(float64(float64((float64(v)-mean)*factor)*float64(scale[i])) + float64(shift[i]))
	}
}

func gelu(x float32) float32 {
	cubic := float32(constant.GELUCubic * float32(float32(x*x)*x))
	return x * sigmoid(ieee.FMA32(constant.GELUSlope, x, cubic))
}
