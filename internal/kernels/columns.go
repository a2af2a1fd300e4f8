package kernels

import "fmt"

// ColumnUnit divides the number of columns of ExpColumns and AddRowDots.
const ColumnUnit = 16

// ExpColumns replaces every element x[r][c] of a matrix, rows x columns with the
// given stride, by e^(x[r][c] + bias[r]), and adds the sum of each column to
// sums[c]. Exponents are clamped to -87.25 and 88.25, so that every result is a
// finite normal number; the error is below 1 ulp. A NaN stays NaN.
//
// Rows are added four by four, from the first on: (e0 + e1) + (e2 + e3) in
// float32, with a relative error of at most 2^-23, and that to the sum in
// float64. Remaining rows are added one by one.
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
