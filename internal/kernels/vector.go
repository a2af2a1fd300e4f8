package kernels

import "fmt"

// Exp writes e^x to dst, which may be x. The error is below 1 ulp over the
// whole range of float32, subnormal results included; exp(-Inf) is 0.
func Exp(dst, x []float32) {
	sameLength("dst", dst, x)
	active.Load().exp(dst, x)
}

// Sigmoid writes 1/(1+e^-x) to dst, which may be x. The error is below 2.5 ulp, even for tiny results.
func Sigmoid(dst, x []float32) {
	sameLength("dst", dst, x)
	active.Load().sigmoid(dst, x)
}

// Tanh writes tanh x to dst, which may be x. The error is below 3 ulp, also near 0.
func Tanh(dst, x []float32) {
	sameLength("dst", dst, x)
	active.Load().tanh(dst, x)
}

// Max returns the largest element of x, -Inf for an empty x. It ignores NaNs.
func Max(x []float32) float32 { return active.Load().max(x) }

// ExpSum writes e^(x-max) to dst, which may be x, and returns the sum of the
// written values, added in float64.
func ExpSum(dst, x []float32, max float32) float64 {
	sameLength("dst", dst, x)
	return active.Load().expSum(dst, x, max)
}

// Axpy computes y = alpha*x + y with one rounding.
func Axpy(alpha float32, x, y []float32) {
	sameLength("y", y, x)
	active.Load().axpy(alpha, x, y)
}

// Scale computes x = alpha*x.
func Scale(alpha float32, x []float32) { active.Load().scale(alpha, x) }

// Add computes dst = dst + x.
func Add(dst, x []float32) {
	sameLength("dst", dst, x)
	active.Load().add(dst, x)
}

// Mul writes the elementwise product x*y to dst, which may be x or y.
func Mul(dst, x, y []float32) {
	sameLength("dst", dst, x)
	sameLength("y", y, x)
	active.Load().mul(dst, x, y)
}

// Dot returns the inner product of x and y, of exact products added in float64.
func Dot(x, y []float32) float64 {
	sameLength("y", y, x)
	return active.Load().dot(x, y)
}

// SquaredNorm returns the sum of the squares of x, added in float64.
func SquaredNorm(x []float32) float64 { return active.Load().dot(x, x) }

func sameLength(name string, got, x []float32) {
	if len(got) != len(x) {
		panic(fmt.Sprintf("kernels: %s has %d elements, x has %d", name, len(got), len(x)))
	}
}

// ColumnUnit divides the number of columns of ExpColumns and AddRowDots.
const ColumnUnit = 16

// ExpColumns replaces every element x[r][c] of a matrix, rows x columns with the given stride, by
// e^(x[r][c] + bias[r]), and adds the sum of each column to sums[c]. Exponents are clamped to -87.25 and
// 88.25, so that every result is a finite normal number; the error is below 1 ulp. A NaN stays NaN.
//
// Rows are added four by four, from the first on: (e0 + e1) + (e2 + e3) in float32, with a relative
// error of at most 2^-23, and that to the sum in float64. Remaining rows are added one by one.
//
// A column depends only on its elements and bias.
func ExpColumns(x []float32, stride, rows, columns int, bias []float32, sums []float64) {
	checkColumns(x, stride, rows, columns)
	if len(bias) != rows || len(sums) != columns {
		panic(fmt.Sprintf("kernels: bias has %d elements and sums %d, x is %d x %d", len(bias), len(sums), rows, columns))
	}
	active.Load().expAllColumns(x, stride, rows, columns, bias, sums)
}

func (s *set) expAllColumns(x []float32, stride, rows, columns int, bias []float32, sums []float64) {
	if columns == 0 {
		return
	}
	r := 0
	for ; r+4 <= rows; r += 4 {
		s.expColumns(x[r*stride:], stride, columns, bias[r:], sums)
	}
	for ; r < rows; r++ {
		s.expColumns1(x[r*stride:], stride, columns, bias[r:], sums)
	}
}

// AddRowDots adds to dst[r] the inner product of row r of a matrix, rows x
// columns with the given stride, with y. It is summed in float32, by the lanes
// of the package comment, each a chain of multiply-adds.
func AddRowDots(dst, x []float32, stride, rows, columns int, y []float32) {
	checkColumns(x, stride, rows, columns)
	if len(dst) != rows || len(y) != columns {
		panic(fmt.Sprintf("kernels: dst has %d elements and y %d, x is %d x %d", len(dst), len(y), rows, columns))
	}
	active.Load().addRowDots(dst, x, stride, rows, columns, y)
}

func (s *set) addRowDots(dst, x []float32, stride, rows, columns int, y []float32) {
	if columns == 0 {
		return
	}
	r := 0
	for ; r+4 <= rows; r += 4 {
		s.dotRows(dst[r:], x[r*stride:], stride, columns, y)
	}
	for ; r < rows; r++ {
		s.dotRows1(dst[r:], x[r*stride:], stride, columns, y)
	}
}

func checkColumns(x []float32, stride, rows, columns int) {
	checkMatrix("x", x, rows, columns, stride, false)
	if columns%ColumnUnit != 0 {
		panic(fmt.Sprintf("kernels: %d columns; want a multiple of %d", columns, ColumnUnit))
	}
}

// Sizes of ChaCha8.
const (
	// ChaCha8Rows is the number of rows of a block, and ChaCha8State the number of its input rows.
	ChaCha8Rows, ChaCha8State = 16, 9
	// ChaCha8Lanes divides the number of blocks.
	ChaCha8Lanes = 16
)

// ChaCha8 computes blocks of the stream cipher ChaCha with eight rounds (Bernstein 2008), one in
// each lane: rows has 16 rows of one number per lane, one after another, and state has rows 4 to 12
// of the initial block, eight words of the key and the counter. Rows 13 to 15 begin with 0. As in
// math/rand/v2, the initial block is added only to its key's rows.
func ChaCha8(rows, state []uint32) {
	lanes := len(rows) / ChaCha8Rows
	if lanes == 0 || lanes%ChaCha8Lanes != 0 || len(rows) != ChaCha8Rows*lanes || len(state) != ChaCha8State*lanes {
		panic(fmt.Sprintf("kernels: blocks of ChaCha8 have %d words and a state of %d; expected %d and %d for each of a multiple of %d lanes",
			len(rows), len(state), ChaCha8Rows, ChaCha8State, ChaCha8Lanes))
	}
	active.Load().chaCha8(rows, state)
}
