package kernels

import "fmt"

// Exp writes e^x to dst, which may be x. The error is below 1 ulp over the
// whole range of float32, subnormal results included; exp(-Inf) is 0.
func Exp(dst, x []float32) {
	sameLength("dst", dst, x)
	active.Load().exp(dst, x)
}

// Sigmoid writes 1/(1+e^-x) to dst, which may be x. The error is below 2.5 ulp,
// even for tiny results.
func Sigmoid(dst, x []float32) {
	sameLength("dst", dst, x)
	active.Load().sigmoid(dst, x)
}

// Tanh writes tanh x to dst, which may be x. The error is below 3 ulp, also
// near 0.
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
