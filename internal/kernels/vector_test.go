package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFunctionsAtTheirEdges(t *testing.T) {
	t.Parallel()
	inf, nan, negativeZero := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name    string
		apply   func(dst, x []float32)
		x, want float32
	}{
		{"exp", Exp, inf, inf}, {"exp", Exp, -inf, 0}, {"exp", Exp, nan, nan}, {"exp", Exp, 0, 1}, {"exp", Exp, negativeZero, 1},
		{"exp", Exp, 88.8, inf}, {"exp", Exp, 88.72, 3.3931806e38}, {"exp", Exp, -103.9, 1.4012985e-45}, {"exp", Exp, -104, 0},
		{"sigmoid", Sigmoid, inf, 1}, {"sigmoid", Sigmoid, -inf, 0}, {"sigmoid", Sigmoid, nan, nan}, {"sigmoid", Sigmoid, 0, 0.5},
		{"sigmoid", Sigmoid, -100, 3.8e-44}, {"sigmoid", Sigmoid, 100, 1},
		{"tanh", Tanh, inf, 1}, {"tanh", Tanh, -inf, -1}, {"tanh", Tanh, nan, nan}, {"tanh", Tanh, 0, 0}, {"tanh", Tanh, negativeZero, negativeZero},
		{"tanh", Tanh, 20, 1}, {"tanh", Tanh, -1e-40, -1e-40}, {"tanh", Tanh, 1e-20, 1e-20},
	} {
		got := []float32{c.x}
		c.apply(got, got)
		if !identical(got[0], c.want) {
			t.Errorf("%s(%v) = %v, want %v", c.name, c.x, got[0], c.want)
		}
	}
}

func TestTanhIsOddAndBounded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 3))
	x := anyBits(rng, 10_000)
	negated, y, z := clone(x), make([]float32, len(x)), make([]float32, len(x))
	Scale(-1, negated)
	Tanh(y, x)
	Tanh(z, negated)
	for i := range x {
		if !identical(y[i], -z[i]) || y[i] > 1 || y[i] < -1 {
			t.Fatalf("tanh(%x) = %x, tanh(%x) = %x", x[i], y[i], negated[i], z[i])
		}
	}
}

func TestReductionsAgainstFloat64(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 3))
	for n := range 200 {
		x, y := normal(rng, n), normal(rng, n)
		dot, squares, largest := 0.0, 0.0, float32(math.Inf(-1))
		for i := range x {
			dot += float64(x[i]) * float64(y[i])
			squares += float64(x[i]) * float64(x[i])
			largest = max(largest, x[i])
		}
		if !near(Dot(x, y), dot, 1e-14) || !near(SquaredNorm(x), squares, 1e-14) || Max(x) != largest {
			t.Fatalf("of %d elements: dot %v, squared norm %v, max %v, want %v, %v, %v", n, Dot(x, y), SquaredNorm(x), Max(x), dot, squares, largest)
		}
	}
}

func TestMaxPassesOverNaN(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	if got := Max([]float32{nan, 2, nan, 1}); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	x, y := []float32{1, 2, 3}, []float32{10, 20, 30}
	Axpy(2, x, y)
	mustEqual(t, "Axpy", y, []float32{12, 24, 36})
	Add(y, x)
	mustEqual(t, "Add", y, []float32{13, 26, 39})
	Scale(0.5, y)
	mustEqual(t, "Scale", y, []float32{6.5, 13, 19.5})
}

func TestLengthsMustMatch(t *testing.T) {
	t.Parallel()
	x, y := make([]float32, 3), make([]float32, 4)
	for name, call := range map[string]func(){
		"Exp":          func() { Exp(x, y) },
		"Axpy":         func() { Axpy(1, x, y) },
		"Dot":          func() { Dot(x, y) },
		"ExpSum":       func() { ExpSum(x, y, 0) },
		"CIFGForward":  func() { CIFGForward(make([]float32, 9), x, x, x, y) },
		"LSTMBackward": func() { LSTMBackward(make([]float32, 12), x, x, x, y, make([]float32, 12)) },
	} {
		mustPanic(t, name, call)
	}
}

func mustPanic(t *testing.T, name string, call func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	call()
}
