package pld

import (
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
)

// spread* describe the Gaussian that spreads a mass over the grid of the transform (Dutt and
// Rokhlin 1993; Greengard and Lee 2004, Accelerating the Nonuniform Fast Fourier Transform).
// Between the kept frequencies, a quarter of the grid, and their aliases the Gaussian falls by
// exp(-pi^2/2/spreadRate) = 5e-15, and it is truncated at the same height.
const (
	spreadRate = 0.1495 // the Gaussian is exp(-spreadRate x cells^2)
	spreadHalf = 16     // cells on either side
)

// spreadTable holds exp(-spreadRate x m^2).
var spreadTable = func() (table [spreadHalf + 1]float64) {
	for m := range table {
		table[m] = math.Exp(-spreadRate * float64(m*m))
	}
	return table
}()

// spectrum returns the mean of exp(i k spacing x offset) for k = 0 to n-1, given
// the masses of the offsets, which add up to 1. Its error is below transformError.
func spectrum(offsets, masses []float64, spacing float64, n int) []complex128 {
	size := smoothSize(4 * n)
	ring := make([]float64, size)
	cells := spacing / (2 * math.Pi) * float64(size)
	for i, m := range masses {
		if m > 1e-40 {
			spread(ring, math.Mod(offsets[i]*cells, float64(size)), m)
		}
	}
	out := fourier.NewFFT(size).Coefficients(nil, ring)[:n]
	for k, c := range out {
		f := math.Pi * float64(k) / float64(size)
		out[k] = cmplx.Conj(c) * complex(math.Exp(f*f/spreadRate)*math.Sqrt(spreadRate/math.Pi), 0)
	}
	return out
}

// transformError bounds the error of a value of spectrum: from the aliases and
// the truncation of the Gaussian, from the quadrature, and from rounding.
const transformError = 5e-14

// spread adds a mass to the ring, at a position in cells.
func spread(ring []float64, at, mass float64) {
	cell := math.Floor(at)
	rest := at - cell
	mass *= math.Exp(-spreadRate * rest * rest)
	ratio := math.Exp(2 * spreadRate * rest)
	size := len(ring)
	middle := modulo(int(cell), size)
	if middle < spreadHalf || middle >= size-spreadHalf {
		var part [2*spreadHalf + 1]float64
		spreadAround(&part, mass, ratio)
		for m, x := range part {
			ring[modulo(middle-spreadHalf+m, size)] += x
		}
		return
	}
	spreadAround((*[2*spreadHalf + 1]float64)(ring[middle-spreadHalf:]), mass, ratio)
}

// spreadAround adds a mass to the cells on either side of the middle cell.
func spreadAround(cells *[2*spreadHalf + 1]float64, mass, ratio float64) {
	up, down := mass, mass/ratio
	for m := range spreadHalf + 1 {
		cells[spreadHalf+m] += up * spreadTable[m]
		up *= ratio
	}
	for m := 1; m <= spreadHalf; m++ {
		cells[spreadHalf-m] += down * spreadTable[m]
		down /= ratio
	}
}

func modulo(k, n int) int {
	if k %= n; k < 0 {
		k += n
	}
	return k
}

// smoothSize returns the least 2^a, 3 x 2^a or 5 x 2^a not below n, at least
// 64: transforms of these lengths are fast.
func smoothSize(n int) int {
	size := 64
	for {
		for _, s := range []int{size, size / 4 * 5, size / 2 * 3} {
			if s >= n {
				return s
			}
		}
		size *= 2
	}
}
