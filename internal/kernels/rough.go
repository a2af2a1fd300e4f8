package kernels

import (
	"fmt"

	"coalmine/internal/kernels/constant"
	"coalmine/internal/kernels/ieee"
)

// CIFGRoughDot returns roughly the inner product of CIFGCell's output with x - y, at
// a fraction of its cost: the error of every element of the output is at most
// CIFGRoughError if those of previous are at most 1 in magnitude. It sums in
// float32, by the lanes of the package comment. ahead and later are as for CIFGCell.
// NaN gives NaN.
func CIFGRoughDot(input, recurrent, previous, x, y, ahead, later []float32) float32 {
	n := len(x)
	if len(input) != 3*n || len(recurrent) != 3*n || len(ahead) != 3*n || len(previous) != n || len(y) != n || len(later) != n {
		panic(fmt.Sprintf("kernels: CIFGRoughDot on %d units: input, recurrent, ahead, previous, y, later have %d, %d, %d, %d, %d, %d elements; want %d three times, then %d each",
			n, len(input), len(recurrent), len(ahead), len(previous), len(y), len(later), 3*n, n))
	}
	return active.Load().cifgRoughDot(input, recurrent, previous, x, y, ahead, later)
}

// CIFGRoughError is a bound on the error of an element in CIFGRoughDot. The rough
// tanh of a gate is off by at most 4.6e-5, a sigmoid by half of that. The memory
// moves towards the candidate, at a distance of at most 2, by a share of at most 1:
// it is off by 9.2e-5, its tanh by 3.4e-5 more, and the output gate, which scales at
// most tanh 1, adds 1.8e-5. That is 1.44e-4, and the remainder is for rounding.
const CIFGRoughError = 1.5e-4

// cifgRoughDot has one division for each unit. With sigmoid(i) = (D+N) / 2D and
// 1-sigmoid(i) = (D-N) / 2D, where N/D is tanh(i/2), and tanh(z) = M/E, twice the
// memory c + sigmoid(i) (tanh(z)-c) is (c (D-N) E + (D+N) M) / DE.
func cifgRoughDot(input, recurrent, previous, x, y, _, _ []float32) float32 {
	n := len(x)
	gate := func(i, j int) float32 { return input[i*n+j] + recurrent[i*n+j] }
	var acc [lanes]float32
	for j, c := range previous {
		in, inUnder := roughGate(gate(0, j), 0.5)
		candidate, under := roughGate(gate(1, j), 1)
		out, outUnder := roughGate(gate(2, j), 0.5)
		memory := ieee.FMA32(under, float32(c*(inUnder-in)), float32(candidate*(in+inUnder)))
		under *= inUnder
		share := 1 / float32(under*outUnder)
		memory = float32(float32(memory*outUnder) * share)
		open := float32((out + outUnder) * float32(under*share)) // twice the output gate
		tanh := roughSeries(constant.RoughTanh[:], float32(memory*memory), 0.5, 0.25)
		emission := float32(float32(memory*open) * tanh)
		acc[j%lanes] = ieee.FMA32(emission, x[j]-y[j], acc[j%lanes])
	}
	for half := lanes / 2; half > 0; half /= 2 {
		for l := range half {
			acc[l] += acc[l+half]
		}
	}
	return acc[0]
}

// roughGate returns tanh(argument * x) as numerator and denominator.
func roughGate(x, argument float32) (numerator, denominator float32) {
	limit := constant.RoughLimit / argument
	if x > limit {
		x = limit
	}
	if x < -limit {
		x = -limit
	}
	square := float32(x * x)
	numerator = float32(x * roughSeries(constant.RoughNumerator[:], square, argument, argument))
	return numerator, roughSeries(constant.RoughDenominator[:], square, argument, 1)
}

// roughSeries is result times the polynomial at argument^2 times the square. Both
// are powers of two, so that scaling the coefficients by them is exact.
func roughSeries(coefficients []float32, square, argument, result float32) float32 {
	scale := func(i int) float32 {
		c := float32(coefficients[i] * result)
		for range 2 * i {
			c *= argument
		}
		return c
	}
	last := len(coefficients) - 1
	p := scale(last)
	for i := last - 1; i >= 0; i-- {
		p = ieee.FMA32(p, square, scale(i))
	}
	return p
}
