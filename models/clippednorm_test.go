package models

import (
	"math"
	"math/rand/v2"
	"testing"
)

// opposed returns n rows of x and d whose outer products nearly cancel in pairs.
func opposed(rng *rand.Rand, n, width, columns, stride int) (x, d strided) {
	x = strided{make([]float32, n*width), width, width}
	d = strided{make([]float32, n*stride), columns, stride}
	for i := range n {
		for j := range x.row(i) {
			x.row(i)[j] = float32(rng.NormFloat64())
			if i%2 == 1 {
				x.row(i)[j] = x.row(i - 1)[j]
			}
		}
		for j := range d.row(i) {
			d.row(i)[j] = float32(rng.NormFloat64())
			if i%2 == 1 {
				d.row(i)[j] = -d.row(i - 1)[j] * float32(1+1e-4*rng.NormFloat64())
			}
		}
	}
	return x, d
}

// exactNorm returns the norm of x^T d and of extra times the sum of the rows of d, in float64.
func exactNorm(n int, x, d strided, extra float64) float64 {
	var square float64
	for j := range x.width + 1 {
		for k := range d.width {
			var sum float64
			for i := range n {
				if j < x.width {
					sum += float64(x.row(i)[j]) * float64(d.row(i)[k])
				} else {
					sum += math.Sqrt(extra) * float64(d.row(i)[k])
				}
			}
			square += sum * sum
		}
	}
	return math.Sqrt(square)
}

// Without bounds on rounding the norm would be below the exact norm in many of the cases.
func TestRoundingDoesNotTakeABoundBelowTheExactNorm(t *testing.T) {
	t.Parallel()
	rng := testRand(41)
	var below [2]int
	for range 300 {
		n, width, columns := 2*(1+rng.IntN(15)), 1+rng.IntN(300), 1+rng.IntN(300)
		x, d := opposed(rng, n, width, columns, columns+rng.IntN(3))
		extra := float64(rng.IntN(2))
		exact := exactNorm(n, x, d, extra)
		for way, add := range [2]func(*perExample, *normBound){
			func(e *perExample, b *normBound) { e.addPaired(b, n, x, d, extra) },
			func(e *perExample, b *normBound) { e.addFormed(b, n, x, d, extra) },
		} {
			var b normBound
			add(new(perExample), &b)
			if b.upper(n) < exact {
				t.Errorf("way %d, %d rows of %d and %d: bound %v, want at least %v", way, n, width, columns, b.upper(n), exact)
			}
			if !(b.square >= exact*exact) {
				below[way]++
			}
			most := math.Sqrt(b.terms)
			if b.upper(n) > exact+0.01*most {
				t.Errorf("way %d, %d rows of %d and %d: bound %v, exact %v, terms of %v", way, n, width, columns, b.upper(n), exact, most)
			}
		}
	}
	if below[0] < 30 || below[1] < 30 {
		t.Errorf("%v of 300 norms are below the exact one before rounding is bounded: the test shows little", below)
	}
}
