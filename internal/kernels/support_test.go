package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// allSets are the sets to compare: those of this processor and, on any
// processor, the assembly of both instruction sets, interpreted.
func allSets() []*set { return append(available(), emulatedSets...) }

// randomVector has elements of many magnitudes, zeros and repeated values.
func randomVector(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch rng.IntN(10) {
		case 0:
			x[i] = 0
		case 1:
			x[i] = float32(rng.IntN(7) - 3)
		default:
			x[i] = float32(rng.NormFloat64() * math.Exp(3*rng.NormFloat64()))
		}
	}
	return x
}

// anyBits has every kind of float32: subnormals, infinities and NaNs too.
func anyBits(rng *rand.Rand, n int) []float32 {
	special := []float32{
		0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126,
		88, 88.73, 89, 128, -87.33, -87.34, -103.9, -104, -105, 9, -9.1, 0x1p-13, math.Sqrt2, math.Sqrt2 / 2,
	}
	x := make([]float32, n)
	for i := range x {
		switch rng.IntN(3) {
		case 0:
			x[i] = math.Float32frombits(rng.Uint32())
		case 1:
			x[i] = special[rng.IntN(len(special))]
		default:
			x[i] = float32(rng.NormFloat64() * 20)
		}
	}
	return x
}

func clone(x []float32) []float32 { return append([]float32(nil), x...) }

// identical compares bit for bit, but for the payload of NaNs.
func identical(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func identical64(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

func mustEqual(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !identical(got[i], want[i]) {
			t.Fatalf("%s: element %d of %d is %x, want %x", what, i, len(got), got[i], want[i])
		}
	}
}

func mustEqual64(t *testing.T, name string, got, want []float64) {
	t.Helper()
	if !slices.EqualFunc(got, want, identical64) {
		t.Fatalf("%s: %v, want %v", name, got, want)
	}
}

// setsAgree fails unless all sets give the results of the definitions.
func setsAgree(t *testing.T, name string, results func(*set) [][]float32) {
	t.Helper()
	want := results(portable)
	for _, s := range allSets() {
		for i, got := range results(s) {
			mustEqual(t, fmt.Sprintf("%s: %s, result %d", s.name, name, i), got, want[i])
		}
	}
}

type gemmCase struct {
	transA, transB bool
	m, n, k        int
	alpha, beta    float32
	lda, ldb, ldc  int
	a, b, c        []float32
}

// newGemm makes a case with random operands whose rows end in up to 4 unused
// elements, and whose slices end with the last element.
func newGemm(rng *rand.Rand, transA, transB bool, m, n, k int, alpha, beta float32) gemmCase {
	g := gemmCase{transA: transA, transB: transB, m: m, n: n, k: k, alpha: alpha, beta: beta}
	matrix := func(rows, columns int, trans bool) ([]float32, int) {
		if trans {
			rows, columns = columns, rows
		}
		stride := columns + rng.IntN(5)
		if rows == 0 || columns == 0 {
			return nil, stride
		}
		return randomVector(rng, (rows-1)*stride+columns), stride
	}
	g.a, g.lda = matrix(m, k, transA)
	g.b, g.ldb = matrix(k, n, transB)
	g.c, g.ldc = matrix(m, n, false)
	return g
}

func randomGemm(rng *rand.Rand, most int) gemmCase {
	m, n, k := rng.IntN(most), rng.IntN(most), rng.IntN(most)
	if rng.IntN(8) == 0 {
		k += blockDepth
	}
	alpha := []float32{0, 1, -1, 0.3}[rng.IntN(4)]
	beta := []float32{0, 1, -0.7}[rng.IntN(3)]
	return newGemm(rng, rng.IntN(2) == 0, rng.IntN(2) == 0, m, n, k, alpha, beta)
}

func (g gemmCase) String() string {
	return fmt.Sprintf("transA %v transB %v m %d n %d k %d alpha %v beta %v strides %d %d %d",
		g.transA, g.transB, g.m, g.n, g.k, g.alpha, g.beta, g.lda, g.ldb, g.ldc)
}

func (g gemmCase) on(s *set) []float32 {
	c := clone(g.c)
	s.gemm(g.transA, g.transB, g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, c, g.ldc)
	return c
}

func (g gemmCase) packedOn(s *set) []float32 {
	c := clone(g.c)
	var p Packed
	s.packB(g.transB, g.k, g.n, g.b, g.ldb, &p)
	s.gemmPacked(g.transA, g.m, g.alpha, g.a, g.lda, &p, g.beta, c, g.ldc)
	return c
}
