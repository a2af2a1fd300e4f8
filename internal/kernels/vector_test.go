package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// Calls whose operands do not fit each other panic, and read and write nothing beyond them.
func TestShapesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	zeros := func(n int) []float32 { return make([]float32, n) }
	sums := func(n int) []float64 { return make([]float64, n) }
	words := func(n int) []uint32 { return make([]uint32, n) }
	b := RoundB(2, 40, zeros(80), 40)
	var rows, others RoundedRows
	rows.Set(1, zeros(2), b, sums(1))
	others.Set(1, zeros(5), RoundB(5, 1, zeros(5), 1), sums(1))
	for name, call := range map[string]func(){
		"Exp":          func() { Exp(zeros(3), zeros(4)) },
		"Axpy":         func() { Axpy(1, zeros(3), zeros(4)) },
		"Dot":          func() { Dot(zeros(3), zeros(4)) },
		"ExpSum":       func() { ExpSum(zeros(3), zeros(4), 0) },
		"CIFGForward":  func() { CIFGForward(zeros(9), zeros(3), zeros(3), zeros(3), zeros(4)) },
		"LSTMBackward": func() { LSTMBackward(zeros(12), zeros(3), zeros(3), zeros(3), zeros(4), zeros(12)) },
		"GRUForward":   func() { GRUForward(zeros(8), zeros(4), zeros(4), zeros(4)) }, // two thirds of its gates
		"CIFGRoughDot": func() { CIFGRoughDot(zeros(3), zeros(3), zeros(1), zeros(1), nil, zeros(3), zeros(1)) },

		"Gemm, short a":    func() { Gemm(false, false, 3, 1, 4, 1, zeros(11), 4, zeros(11), 1, 0, zeros(11), 1) },
		"Gemm, short b":    func() { Gemm(false, false, 1, 4, 3, 1, zeros(11), 3, zeros(11), 4, 0, zeros(11), 4) },
		"Gemm, short c":    func() { Gemm(false, false, 3, 4, 1, 1, zeros(11), 1, zeros(11), 4, 0, zeros(11), 4) },
		"Gemm, stride":     func() { Gemm(false, false, 2, 2, 2, 1, zeros(11), 1, zeros(11), 2, 0, zeros(11), 2) },
		"Gemm, negative":   func() { Gemm(false, false, -1, 2, 2, 1, zeros(11), 2, zeros(11), 2, 0, zeros(11), 2) },
		"Gemm, transposed": func() { Gemm(true, false, 4, 1, 3, 1, zeros(11), 4, zeros(11), 1, 0, zeros(11), 1) },
		"PackB":            func() { PackB(true, 3, 4, zeros(11), 3, new(Packed)) },

		"GemmRounded, sums":          func() { GemmRounded(1, zeros(2), RoundB(2, 1, zeros(2), 1), zeros(1), sums(1)) },
		"RoundedRows, sums":          func() { rows.Set(1, zeros(2), b, nil) },
		"GemmRoundedColumns, from 8": func() { GemmRoundedColumns(&rows, b, 8, 40, zeros(12*48), 48) },
		"GemmRoundedColumns, to 41":  func() { GemmRoundedColumns(&rows, b, 16, 41, zeros(12*48), 48) },
		"GemmRoundedColumns, rows":   func() { GemmRoundedColumns(&others, b, 0, 40, zeros(12*48), 48) },
		"GemmRoundedColumns, stride": func() { GemmRoundedColumns(&rows, b, 0, 40, zeros(12*48), 40) },
		"GemmRoundedColumns, c":      func() { GemmRoundedColumns(&rows, b, 0, 40, zeros(48), 48) },

		"MaxPool, rows that overlap":       func() { MaxPool(2, 1, 3, zeros(9), zeros(2)) },
		"MaxPool, short image":             func() { MaxPool(2, 1, 4, zeros(7), zeros(2)) },
		"MaxPoolBackward, short gradient":  func() { MaxPoolBackward(2, 1, 4, zeros(8), zeros(2), zeros(7)) },
		"SumRows, half a row":              func() { SumRows(zeros(2), zeros(3)) },
		"ColumnMoments, half a row":        func() { ColumnMoments(zeros(3), zeros(3), sums(2), sums(2)) },
		"NormalizeColumns, other means":    func() { NormalizeColumns(zeros(4), zeros(2), zeros(1)) },
		"NormalizeColumnsBackward, no sum": func() { NormalizeColumnsBackward(zeros(4), zeros(4), zeros(4), zeros(2), zeros(2), nil) },
		"Rectify":                          func() { Rectify(0, zeros(2), zeros(3)) },
		"NormalizeRows, half a row":        func() { NormalizeRows(zeros(3), zeros(3), zeros(2), zeros(2), 0) },
		"NormalizeRows, another shift":     func() { NormalizeRows(zeros(4), zeros(4), zeros(2), zeros(1), 0) },
		"NormalizeRows, another dst":       func() { NormalizeRows(zeros(2), zeros(4), zeros(2), zeros(2), 0) },
		"SoftmaxRows, no columns":          func() { SoftmaxRows(0, nil) },
		"SoftmaxRows, half a row":          func() { SoftmaxRows(2, zeros(3)) },
		"GELU":                             func() { GELU(zeros(2), zeros(3)) },

		"ExpColumns, 17 columns":    func() { ExpColumns(zeros(64), 17, 2, 17, zeros(2), sums(17)) },
		"ExpColumns, short sum":     func() { ExpColumns(zeros(64), 16, 2, 16, zeros(2), sums(15)) },
		"ExpColumns, long bias":     func() { ExpColumns(zeros(64), 16, 1, 16, zeros(2), sums(16)) },
		"AddRowDots, short x":       func() { AddRowDots(zeros(2), zeros(31), 16, 2, 16, zeros(16)) },
		"AddRowDots, short y":       func() { AddRowDots(zeros(2), zeros(64), 16, 2, 16, zeros(15)) },
		"AddRowDots, one dot more":  func() { AddRowDots(zeros(2), zeros(64), 16, 1, 16, zeros(16)) },
		"AddRowDots, a near stride": func() { AddRowDots(zeros(2), zeros(64), 15, 2, 16, zeros(16)) },

		"ChaCha8, nothing":     func() { ChaCha8(words(0), words(0)) },
		"ChaCha8, one lane":    func() { ChaCha8(words(ChaCha8Rows), words(ChaCha8State)) },
		"ChaCha8, one state":   func() { ChaCha8(words(ChaCha8Rows*ChaCha8Lanes), words(ChaCha8State)) },
		"ChaCha8, a word more": func() { ChaCha8(words(ChaCha8Rows*ChaCha8Lanes+1), words(ChaCha8State*ChaCha8Lanes)) },
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

func TestSetsAgreeOnChaCha8(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(12, 0))
	for _, lanes := range []int{ChaCha8Lanes, 3 * ChaCha8Lanes} {
		state := words(rng, ChaCha8State*lanes)
		want := make([]uint32, ChaCha8Rows*lanes)
		portable.chaCha8(want, state)
		for _, s := range allSets() {
			got := words(rng, len(want)) // the bytes there before must not matter
			if s.chaCha8(got, state); !slices.Equal(got, want) {
				t.Errorf("%s: blocks in %d lanes differ", s.name, lanes)
			}
		}
	}
}

// The first numbers of a generator of math/rand/v2 are rows of the blocks 0 to 3, each of two numbers.
func TestChaCha8MatchesStandardLibrary(t *testing.T) {
	t.Parallel()
	var key [32]byte
	for i := range key {
		key[i] = byte(7 * i)
	}
	state, rows := make([]uint32, ChaCha8State*ChaCha8Lanes), make([]uint32, ChaCha8Rows*ChaCha8Lanes)
	for lane := range ChaCha8Lanes {
		for i := range 8 {
			state[i*ChaCha8Lanes+lane] = binary.LittleEndian.Uint32(key[4*i:])
		}
		state[8*ChaCha8Lanes+lane] = uint32(lane)
	}
	ChaCha8(rows, state)
	source := rand.NewChaCha8(key)
	for row := range ChaCha8Rows {
		for pair := range 2 {
			low, high := rows[row*ChaCha8Lanes+2*pair], rows[row*ChaCha8Lanes+2*pair+1]
			if got, want := uint64(high)<<32|uint64(low), source.Uint64(); got != want {
				t.Fatalf("row %d, number %d: %x, want %x", row, pair, got, want)
			}
		}
	}
}

func words(rng *rand.Rand, n int) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = rng.Uint32()
	}
	return w
}
