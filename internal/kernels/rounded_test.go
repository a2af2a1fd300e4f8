package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestSetsAgreeOnRoundedProducts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(41, 0))
	for range 30 {
		panels, depth := 1+rng.IntN(3), 1+rng.IntN(20)
		vector := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = math.Float32frombits(rng.Uint32())
			}
			return x
		}
		a, b, scales := vector(roundedRows*depth), vector(panels*depth*roundedColumns), normal(rng, roundedRows)
		product := func(s *set) []float32 {
			stride := panels*roundedColumns + 3
			c := make([]float32, roundedRows*stride)
			for i := 0; i < roundedRows; i += s.roundedRows {
				s.roundedTile(panels, depth, a[i*depth:], b, c[i*stride:], stride, scales[i:])
			}
			return c
		}
		want := product(portable)
		for _, s := range allSets() {
			mustEqual(t, fmt.Sprintf("%s: %d panels of %d pairs", s.name, panels, depth), product(s), want)
		}
	}
}

// The bound of the error holds for every element, and is not much too wide: errors
// of hundreds of roundings, seldom all of one sign, stay within a twentieth of it to
// half.
func TestRoundedProductsKeepErrorBound(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(42, 0))
	for _, k := range []int{1, 2, 3, 14, 96, 97, 384} {
		const m, n = 29, 37
		for _, scale := range []float64{1e-20, 1e-3, 1, 1e6} {
			a, b := normal(rng, m*k), normal(rng, k*n)
			for i := range a {
				a[i] *= float32(scale)
			}
			rounded := RoundB(k, n, b, n)
			c, errors := make([]float32, rounded.Room(m)), make([]float64, m)
			GemmRounded(m, a, rounded, c, errors)
			exact := make([]float32, m*n)
			Gemm(false, false, m, n, k, 1, a, k, b, n, 0, exact, n)
			worst := 0.0
			for i := range m {
				for j := range n {
					off := math.Abs(float64(c[i*rounded.Stride()+j]) - float64(exact[i*n+j]))
					if !(off <= errors[i]) {
						t.Fatalf("depth %d, scale %v: %v for %v; want an error of at most %v", k, scale, c[i*rounded.Stride()+j], exact[i*n+j], errors[i])
					}
					worst = max(worst, off/errors[i])
				}
			}
			if worst < 0.05 {
				t.Errorf("depth %d, scale %v: the largest error is %.3f of its bound", k, scale, worst)
			}
		}
	}
}

// Integers at the limit add up without overflow.
func TestRoundedProductsDoNotOverflow(t *testing.T) {
	t.Parallel()
	for _, k := range []int{1, 2, 3, 48, 96, 384} {
		a, b := make([]float32, k), make([]float32, k)
		for i := range a {
			a[i], b[i] = -1, 1
		}
		rounded := RoundB(k, 1, b, 1)
		c, errors := make([]float32, rounded.Room(1)), make([]float64, 1)
		GemmRounded(1, a, rounded, c, errors)
		if math.Abs(float64(c[0])+float64(k)) > errors[0] {
			t.Errorf("%d products of -1 add up to %v", k, c[0])
		}
	}
}

func TestRoundedProductsReportNonFinite(t *testing.T) {
	t.Parallel()
	for _, broken := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for at := range 5 {
			a, b := []float32{1, 2}, []float32{3, 4}
			if at < 2 {
				a[at] = broken
			} else {
				b[at%2] = broken
			}
			rounded := RoundB(2, 1, b, 1)
			c, errors := make([]float32, rounded.Room(1)), make([]float64, 1)
			GemmRounded(1, a, rounded, c, errors)
			if errors[0] <= math.MaxFloat64 {
				t.Errorf("%v times %v has an error of at most %v", a, b, errors[0])
			}
		}
	}
	c, errors := make([]float32, 12*16), []float64{1}
	GemmRounded(1, []float32{0, 0}, RoundB(2, 1, []float32{3, 4}, 1), c, errors)
	if c[0] != 0 || errors[0] != 0 {
		t.Errorf("nothing times a matrix is %v, with an error of %v", c[0], errors[0])
	}
}

// BenchmarkRounded is the recurrent product of the paper's model for a block.
func BenchmarkRounded(b *testing.B) {
	const m, n, k = 24, 2010, 96
	rng := rand.New(rand.NewPCG(43, 0))
	x, y := normal(rng, m*k), normal(rng, k*n)
	rounded := RoundB(k, n, y, n)
	var packed Packed
	PackB(false, k, n, y, n, &packed)
	c, errors := make([]float32, rounded.Room(m)), make([]float64, m)
	b.Run("rounded", func(b *testing.B) {
		for b.Loop() {
			GemmRounded(m, x, rounded, c, errors)
		}
	})
	b.Run("exact", func(b *testing.B) {
		for b.Loop() {
			GemmPacked(false, m, 1, x, k, &packed, 0, c, n)
		}
	})
}

func TestRoundedColumnsMatchWholeProduct(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(45, 0))
	const k, n, stride = 7, 150, 112
	b := RoundB(k, n, normal(rng, k*n), n)
	for _, m := range []int{0, 1, 12, 13} {
		a, errors := normal(rng, m*k), make([]float64, m)
		whole := make([]float32, b.Room(m))
		GemmRounded(m, a, b, whole, errors)
		var rows RoundedRows
		rows.Set(m, a, b, errors)
		part := make([]float32, rows.Room(stride))
		for _, columns := range [][2]int{{0, 112}, {112, n}, {16, 16}} {
			from, to := columns[0], columns[1]
			GemmRoundedColumns(&rows, b, from, to, part, stride)
			for i := range m {
				mustEqual(t, fmt.Sprintf("columns %d to %d of row %d", from, to, i), part[i*stride:][:to-from], whole[i*b.Stride()+from:][:to-from])
			}
		}
	}
}
