package kernels

import (
	"math"

	"coalmine/internal/kernels/ieee"
)

// lanes is the width of a reduction: element i of a vector belongs to lane
// i % lanes, and the lanes are combined by halves.
const lanes = 16

func largest(x []float32) float32 {
	var acc [lanes]float32
	for i := range acc {
		acc[i] = float32(math.Inf(-1))
	}
	for i, v := range x {
		acc[i%lanes] = larger(v, acc[i%lanes])
	}
	for half := lanes / 2; half > 0; half /= 2 {
		for i := range half {
			acc[i] = larger(acc[i+half], acc[i])
		}
	}
	return acc[0]
}

// larger is VMAXPS: it returns the second number if both are equal or one is NaN.
func larger(a, b float32) float32 {
	if a > b {
		return a
	}
	return b
}

func sumLanes(acc *[lanes]float64) float64 {
	for half := lanes / 2; half > 0; half /= 2 {
		for i := range half {
			acc[i] += acc[i+half]
		}
	}
	return acc[0]
}

func expSum(dst, x []float32, max float32) float64 {
	var acc [lanes]float64
	for i, v := range x {
		e := exp(v - max)
		dst[i] = e
		acc[i%lanes] += float64(e)
	}
	return sumLanes(&acc)
}

func sumExp(x []float32, max float32) float64 {
	var acc [lanes]float64
	for i, v := range x {
		acc[i%lanes] += float64(exp(v - max))
	}
	return sumLanes(&acc)
}

// moments fuses the last multiply-add: e*y is exact in float64, but e*y^2 is not.
func moments(e, x []float32, max float32, sums []float64) {
	var first, second [lanes]float64
	for i, v := range x {
		y := float64(v - max)
		p := float64(e[i]) * y
		first[i%lanes] += p
		second[i%lanes] = math.FMA(p, y, second[i%lanes])
	}
	sums[0], sums[1] = sumLanes(&first), sumLanes(&second)
}

// dot adds exact products, so that fusing them could not change a sum.
func dot(x, y []float32) float64 {
	var acc [lanes]float64
	for i, v := range x {
		acc[i%lanes] += float64(v) * float64(y[i])
	}
	return sumLanes(&acc)
}

func axpy(alpha float32, x, y []float32) {
	for i, v := range x {
		y[i] = ieee.FMA32(alpha, v, y[i])
	}
}

func scale(alpha float32, x []float32) {
	for i := range x {
		x[i] *= alpha
	}
}

func add(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

func mul(dst, x, y []float32) {
	for i, v := range x {
		dst[i] = v * y[i]
	}
}

func blend(dst, w, x, y []float32) {
	for i, v := range x {
		dst[i] = ieee.FMA32(w[i], v-y[i], y[i])
	}
}

func mulAdd(dst, v, w, x, y []float32) {
	for i := range x {
		dst[i] = ieee.FMA32(v[i], w[i], float32(x[i]*y[i]))
	}
}

func expColumns(rows int) func(x []float32, row, columns int, bias []float32, sums []float64) {
	return func(x []float32, row, columns int, bias []float32, sums []float64) {
		for j := range columns {
			var e [4]float32
			for i := range rows {
				e[i] = boundedExp(x[i*row+j] + bias[i])
				x[i*row+j] = e[i]
			}
			sums[j] += float64((e[0] + e[1]) + (e[2] + e[3]))
		}
	}
}

func dotRows(rows int) func(dst, x []float32, row, columns int, y []float32) {
	return func(dst, x []float32, row, columns int, y []float32) {
		for i := range rows {
			var acc [lanes]float32
			for j, v := range x[i*row:][:columns] {
				acc[j%lanes] = ieee.FMA32(v, y[j], acc[j%lanes])
			}
			for half := lanes / 2; half > 0; half /= 2 {
				for l := range half {
					acc[l] += acc[l+half]
				}
			}
			dst[i] += acc[0]
		}
	}
}
