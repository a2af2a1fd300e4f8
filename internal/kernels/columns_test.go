package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// columnsCase is a matrix for ExpColumns and AddRowDots, with its other operands.
type columnsCase struct {
	rows, columns, stride int
	x, bias, dots, y      []float32
	sums                  []float64
}

func newColumnsCase(rng *rand.Rand, vector func(*rand.Rand, int) []float32, rows, columns int) columnsCase {
	c := columnsCase{rows: rows, columns: columns, stride: columns + rng.IntN(3)}
	c.x = vector(rng, rows*c.stride)
	c.bias, c.dots, c.y = vector(rng, rows), vector(rng, rows), vector(rng, columns)
	c.sums = make([]float64, columns)
	for i := range c.sums {
		c.sums[i] = rng.Float64()
	}
	return c
}

// on returns all that a set makes of the case.
func (c columnsCase) on(s *set) (x, dots []float32, sums []float64) {
	x, dots, sums = clone(c.x), clone(c.dots), append([]float64(nil), c.sums...)
	s.addRowDots(dots, x, c.stride, c.rows, c.columns, c.y)
	s.expAllColumns(x, c.stride, c.rows, c.columns, c.bias, sums)
	return x, dots, sums
}

func TestSetsAgreeOnColumns(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 0))
	for rows := range 10 {
		for _, columns := range []int{0, 16, 48} {
			for _, vector := range []func(*rand.Rand, int) []float32{randomVector, anyBits} {
				c := newColumnsCase(rng, vector, rows, columns)
				wantX, wantDots, wantSums := c.on(portable)
				for _, s := range allSets() {
					what := fmt.Sprintf("%s: %d x %d", s.name, rows, columns)
					x, dots, sums := c.on(s)
					mustEqual(t, what+": exponentials", x, wantX)
					mustEqual(t, what+": dots", dots, wantDots)
					for j, sum := range sums {
						if !identical64(sum, wantSums[j]) {
							t.Fatalf("%s: sum %d is %x, want %x", what, j, sum, wantSums[j])
						}
					}
				}
			}
		}
	}
}

// The error that the documentation states: below 1 ulp of each exponential, and
// of the sum, of positive numbers, 2^-23 for the two additions in float32.
func TestExpColumnsIsAccurate(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(12, 0))
	worst := 0.0
	for range 200 {
		const rows, columns = 27, 16
		x, bias := make([]float32, rows*columns), make([]float32, rows)
		for i := range x {
			x[i] = float32(rng.Float64()*175 - 87)
		}
		exponents, sums := clone(x), make([]float64, columns)
		ExpColumns(x, columns, rows, columns, bias, sums)
		for j := range columns {
			exact := 0.0
			for i := range rows {
				e := x[i*columns+j]
				worst = max(worst, ulps(e, math.Exp(float64(exponents[i*columns+j]))))
				exact += float64(e)
			}
			if math.Abs(sums[j]-exact) > 0x1p-23*exact {
				t.Fatalf("sum %v, want %v", sums[j], exact)
			}
		}
	}
	t.Logf("largest error %.3f ulp", worst)
	if worst > 1 {
		t.Errorf("error of %.3f ulp", worst)
	}
}

func TestExpColumnsBoundsItsResults(t *testing.T) {
	t.Parallel()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, s := range available() {
		x := []float32{-inf, -1000, 1000, inf, nan, 14: 0, 15: 0}
		sums := make([]float64, len(x))
		s.expAllColumns(x, len(x), 1, len(x), []float32{0}, sums)
		for j, want := range []float64{math.Exp(-87.25), math.Exp(-87.25), math.Exp(88.25), math.Exp(88.25), math.NaN(), 1} {
			if !near(float64(x[j]), want, 1e-6) && !(x[j] != x[j] && want != want) {
				t.Errorf("%s: element %d is %v, want %v", s.name, j, x[j], want)
			}
			if !identical64(sums[j], float64(x[j])) {
				t.Errorf("%s: sum %d is %v, want %v", s.name, j, sums[j], x[j])
			}
		}
	}
}

func TestAddRowDots(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(13, 0))
	c := newColumnsCase(rng, normal, 11, 320)
	dst := clone(c.dots)
	AddRowDots(dst, c.x, c.stride, c.rows, c.columns, c.y)
	for i := range dst {
		want := float64(c.dots[i])
		for j, y := range c.y {
			want += float64(c.x[i*c.stride+j]) * float64(y)
		}
		if !near(float64(dst[i]), want, 1e-4) {
			t.Errorf("row %d: %v, want %v", i, dst[i], want)
		}
	}
}

func TestColumnsMustFit(t *testing.T) {
	t.Parallel()
	x, y := make([]float32, 64), make([]float32, 2)
	for name, call := range map[string]func(){
		"17 columns":    func() { ExpColumns(x, 17, 2, 17, y, make([]float64, 17)) },
		"a short sum":   func() { ExpColumns(x, 16, 2, 16, y, make([]float64, 15)) },
		"a long bias":   func() { ExpColumns(x, 16, 1, 16, y, make([]float64, 16)) },
		"a short x":     func() { AddRowDots(y, x[:31], 16, 2, 16, x[:16]) },
		"a short y":     func() { AddRowDots(y, x, 16, 2, 16, x[:15]) },
		"one dot more":  func() { AddRowDots(y, x, 16, 1, 16, x[:16]) },
		"a near stride": func() { AddRowDots(y, x, 15, 2, 16, x[:16]) },
	} {
		mustPanic(t, name, call)
	}
}
