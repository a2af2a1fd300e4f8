package kernels

import (
	"fmt"
	"math"
)

// MaxPool writes the largest of each 2 x 2 pixels to y, in each channel: count squares side by side in two
// rows of pixels, the second of which begins at x[below]. x has channels innermost.
// Values are ordered as integers of their bits, so that 0 is above -0.
func MaxPool(count, channels, below int, x, y []float32) {
	checkSquares(count, channels, below, x, y)
	if count > 0 && channels > 0 {
		active.Load().maxPool(count, channels, below, x, y)
	}
}

// MaxPoolBackward writes the gradient dx of the pixels x of MaxPool from the gradient dy of the squares: all of
// it belongs to the first of the largest pixels, from left to right in the first row, then in the second. dx
// has the layout of x, and may be x.
func MaxPoolBackward(count, channels, below int, x, dy, dx []float32) {
	checkSquares(count, channels, below, x, dy)
	checkSquares(count, channels, below, dx, dy)
	if count > 0 && channels > 0 {
		active.Load().maxPoolBackward(count, channels, below, x, dy, dx)
	}
}

func checkSquares(count, channels, below int, x, y []float32) {
	row := 2 * count * channels
	if count < 0 || channels < 0 || below < row || len(x) < below+row || len(y) < count*channels {
		panic(fmt.Sprintf("kernels: %d squares of %d channels, rows %d apart: x has %d elements and y %d; want %d and %d",
			count, channels, below, len(x), len(y), below+row, count*channels))
	}
}

// SumRows sets dst to the sum of the rows of x, each as long as dst. They are added to 0 in their order.
func SumRows(dst, x []float32) {
	if len(dst) == 0 || len(x)%len(dst) != 0 {
		panic(fmt.Sprintf("kernels: x has %d elements; want rows of %d", len(x), len(dst)))
	}
	if len(x) == 0 {
		clear(dst)
		return
	}
	active.Load().sumRows(len(x)/len(dst), dst, x)
}

// ColumnMoments sets plain to the sums of the columns of x, and product to those of x*y. The matrices x and y have
// len(plain) columns. Each sum is in float64, from 0 in the order of the rows.
func ColumnMoments(x, y []float32, plain, product []float64) {
	sameLength("y", y, x)
	if len(plain) == 0 || len(product) != len(plain) || len(x)%len(plain) != 0 {
		panic(fmt.Sprintf("kernels: x has %d elements, plain %d and product %d; want rows as long as both", len(x), len(plain), len(product)))
	}
	rows, whole := len(x)/len(plain), len(plain)/ColumnUnit*ColumnUnit
	if rows == 0 || whole == 0 {
		columnMoments(rows, len(plain), len(plain), x, y, plain, product)
		return
	}
	active.Load().columnMoments(rows, whole, len(plain), x, y, plain, product)
	columnMoments(rows, len(plain)-whole, len(plain), x[whole:], y[whole:], plain[whole:], product[whole:])
}

// NormalizeColumns replaces each element of x, a matrix with as many columns as mean, by (x - mean) * inverse
// of its column.
func NormalizeColumns(x, mean, inverse []float32) {
	if len(mean) == 0 || len(inverse) != len(mean) || len(x)%len(mean) != 0 {
		panic(fmt.Sprintf("kernels: x has %d elements, mean %d and inverse %d; want rows as long as both", len(x), len(mean), len(inverse)))
	}
	if len(x) > 0 {
		active.Load().normalizeColumns(len(x)/len(mean), x, mean, inverse)
	}
}

// NormalizeColumnsBackward sets each element of dst to inverse * (v - plain - x*product); every operation is
// rounded. The matrices dst, v and x have len(plain) columns. dst may be v.
func NormalizeColumnsBackward(dst, v, x, inverse, plain, product []float32) {
	sameLength("dst", dst, x)
	sameLength("v", v, x)
	if len(plain) == 0 || len(product) != len(plain) || len(inverse) != len(plain) || len(x)%len(plain) != 0 {
		panic(fmt.Sprintf("kernels: x has %d elements, inverse, plain and product %d, %d, %d; want rows as long as each", len(x), len(inverse), len(plain), len(product)))
	}
	if len(x) > 0 {
		active.Load().normalizeColumnsBackward(len(x)/len(plain), dst, v, x, inverse, plain, product)
	}
}

// Rectify multiplies x by a slope: 1 where y is above 0, and alpha elsewhere. y may be x.
func Rectify(alpha float32, x, y []float32) {
	sameLength("y", y, x)
	active.Load().rectify(alpha, x, y)
}

// The definitions of the kernels.

func maxPool(count, channels, below int, x, y []float32) {
	eachSquare(count, channels, below, func(at int, pixels [4]int) { y[at] = x[pixels[largestOf(x, pixels)]] })
}

func maxPoolBackward(count, channels, below int, x, dy, dx []float32) {
	eachSquare(count, channels, below, func(at int, pixels [4]int) {
		chosen := largestOf(x, pixels)
		for i, pixel := range pixels {
			dx[pixel] = 0
			if i == chosen {
				dx[pixel] = dy[at]
			}
		}
	})
}

// eachSquare calls do with the position of each value in y and those of its four pixels in x.
func eachSquare(count, channels, below int, do func(at int, pixels [4]int)) {
	for at := range count * channels {
		first := at + at/channels*channels
		do(at, [4]int{first, first + channels, first + below, first + below + channels})
	}
}

// largestOf returns the first of the largest of four pixels.
func largestOf(x []float32, pixels [4]int) int {
	best := 0
	for i, pixel := range pixels {
		if ordered(x[pixel]) > ordered(x[pixels[best]]) {
			best = i
		}
	}
	return best
}

// ordered maps float32 to integers of the same order.
func ordered(x float32) int32 {
	bits := int32(math.Float32bits(x))
	return bits ^ (bits >> 31 & math.MaxInt32)
}

func sumRows(rows int, dst, x []float32) {
	clear(dst)
	for i := range rows {
		add(dst, x[i*len(dst):][:len(dst)])
	}
}

func columnMoments(rows, columns, row int, x, y []float32, plain, product []float64) {
	clear(plain[:columns])
	clear(product[:columns])
	for i := range rows {
		for j := range columns {
			v, w := float64(x[i*row+j]), float64(y[i*row+j])
			plain[j] += v
			product[j] += float64(v * w)
		}
	}
}

func normalizeColumns(rows int, x, mean, inverse []float32) {
	for i := range rows {
		for j, m := range mean {
			x[i*len(mean)+j] = (x[i*len(mean)+j] - m) * inverse[j]
		}
	}
}

func normalizeColumnsBackward(rows int, dst, v, x, inverse, plain, product []float32) {
	for i := range rows {
		for j, m := range plain {
			at := i*len(plain) + j
			dst[at] = inverse[j] * (v[at] - m - float32(x[at]*product[j]))
		}
	}
}

func rectify(alpha float32, x, y []float32) {
	for i, v := range y {
		slope := float32(1)
		if bits := math.Float32bits(v); (bits|(bits-1))>>31 == 1 {
			slope = alpha
		}
		x[i] *= slope
	}
}
