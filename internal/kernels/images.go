package kernels

import (
	"fmt"
	"math"
)

// MaxPool writes the largest of each 2 x 2 pixels to y, in each channel: count squares side by side in two
// rows of pixels, the second of which begins below elements after the first. x has channels innermost.
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

// SumRows sets dst to the sum of the rows of x, each as long as dst, from 0 in their order.
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

func rectify(alpha float32, x, y []float32) {
	for i, v := range y {
		slope := float32(1)
		if bits := math.Float32bits(v); (bits|(bits-1))>>31 == 1 {
			slope = alpha
		}
		x[i] *= slope
	}
}
