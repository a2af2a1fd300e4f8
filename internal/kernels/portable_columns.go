package kernels

import "coalmine/internal/kernels/ieee"

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
