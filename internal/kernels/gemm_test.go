package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func transposition(trans bool) blas.Transpose {
	if trans {
		return blas.Trans
	}
	return blas.NoTrans
}

// bound returns |alpha||A||B| + |beta||C|, which the rounding error is relative to.
func (g gemmCase) bound() []float64 {
	magnitudes := func(x []float32) []float64 {
		y := widen(x)
		for i := range y {
			y[i] = math.Abs(y[i])
		}
		return y
	}
	c := magnitudes(g.c)
	gonum.Implementation{}.Dgemm(transposition(g.transA), transposition(g.transB), g.m, g.n, g.k,
		math.Abs(float64(g.alpha)), magnitudes(g.a), g.lda, magnitudes(g.b), g.ldb, math.Abs(float64(g.beta)), c, g.ldc)
	return c
}

func TestGemmIsWithinTheErrorBound(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 4))
	for range 150 {
		if g := randomGemm(rng, 90); g.m > 0 && g.n > 0 && g.k > 0 {
			g.requireBound(t)
		}
	}
}

func TestGemmJoinsItsBlocks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 4))
	for _, m := range []int{blockRows - 7, blockRows + 7} {
		for _, n := range []int{onceColumns + 7, blockColumns + 7} {
			for _, transA := range []bool{false, true} {
				for _, transB := range []bool{false, true} {
					newGemm(rng, transA, transB, m, n, 30, 0.3, -0.7).requireBound(t)
				}
			}
		}
	}
}

// requireBound compares the fastest set with float64. The bound is that of k
// sequential roundings (Higham, "Accuracy and Stability of Numerical
// Algorithms", section 3.1).
func (g gemmCase) requireBound(t *testing.T) {
	t.Helper()
	want, bound := widen(g.c), g.bound()
	gonum.Implementation{}.Dgemm(transposition(g.transA), transposition(g.transB), g.m, g.n, g.k,
		float64(g.alpha), widen(g.a), g.lda, widen(g.b), g.ldb, float64(g.beta), want, g.ldc)
	got := g.on(available()[0])
	for i := range g.m {
		for j := range g.n {
			at := i*g.ldc + j
			if math.Abs(float64(got[at])-want[at]) > float64(g.k+3)*0x1p-24*bound[at] {
				t.Fatalf("%v: element %d,%d is %v, want %v", g, i, j, got[at], want[at])
			}
		}
	}
}

func TestGemmKeepsPaddingOfC(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 4))
	for range 50 {
		g := randomGemm(rng, 60)
		for i := range g.m {
			for j := g.n; j < g.ldc && i*g.ldc+j < len(g.c); j++ {
				g.c[i*g.ldc+j] = 12345
			}
		}
		for _, s := range available() {
			c := g.on(s)
			for i := range g.m {
				for j := g.n; j < g.ldc && i*g.ldc+j < len(c); j++ {
					if c[i*g.ldc+j] != 12345 {
						t.Fatalf("%s: %v: wrote to row %d beyond its end", s.name, g, i)
					}
				}
			}
		}
	}
}

// A row's bytes must not depend on the rows beside it, on their number or on
// B being packed: scoring compares rows that were computed in different company.
func TestRowsAreIndependent(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, transB := range []bool{false, true} {
		const m, n, k = 2*packingPays + 5, 77, blockDepth + 40
		g := newGemm(rng, false, transB, m, n, k, 1, 1)
		var p Packed
		PackB(transB, k, n, g.b, g.ldb, &p)
		whole := clone(g.c)
		Gemm(false, transB, m, n, k, 1, g.a, g.lda, g.b, g.ldb, 1, whole, g.ldc)
		for _, rows := range []int{1, 2, 5, 7, 16, packingPays} {
			start := rng.IntN(m - rows)
			part, packed := clone(g.c), clone(g.c)
			Gemm(false, transB, rows, n, k, 1, g.a[start*g.lda:], g.lda, g.b, g.ldb, 1, part[start*g.ldc:], g.ldc)
			GemmPacked(false, rows, 1, g.a[start*g.lda:], g.lda, &p, 1, packed[start*g.ldc:], g.ldc)
			for i := start; i < start+rows; i++ {
				row := span{i * g.ldc, n}
				mustEqual(t, fmt.Sprintf("row %d of %d", i, rows), row.of(part), row.of(whole))
				mustEqual(t, fmt.Sprintf("row %d of %d, packed", i, rows), row.of(packed), row.of(whole))
			}
		}
	}
}

func (s span) of(x []float32) []float32 { return x[s.start:][:s.length] }

// Columns must not depend on their company either: a vocabulary is computed in tiles.
func TestColumnsAreIndependent(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	const m, n, k = 9, 130, 33
	a, b := normal(rng, m*k), normal(rng, k*n)
	whole := make([]float32, m*n)
	Gemm(false, false, m, n, k, 1, a, k, b, n, 0, whole, n)
	for start := 0; start < n-40; start += 13 {
		part := make([]float32, m*40)
		Gemm(false, false, m, 40, k, 1, a, k, b[start:], n, 0, part, 40)
		for i := range m {
			mustEqual(t, fmt.Sprintf("columns from %d, row %d", start, i), part[i*40:][:40], whole[i*n+start:][:40])
		}
	}
}

// With beta 0 the old C is not read, with alpha 0 neither are A and B.
func TestZeroFactorsHideNaN(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	for _, s := range allSets() {
		c := []float32{nan}
		s.gemm(false, false, 1, 1, 1, 2, []float32{3}, 1, []float32{5}, 1, 0, c, 1)
		mustEqual(t, s.name+": beta 0", c, []float32{30})
		c = []float32{4}
		s.gemm(false, false, 1, 1, 1, 0, []float32{nan}, 1, []float32{nan}, 1, 0.5, c, 1)
		mustEqual(t, s.name+": alpha 0", c, []float32{2})
		c = []float32{nan}
		s.gemm(false, false, 1, 1, 0, 1, nil, 1, nil, 1, 0, c, 1)
		mustEqual(t, s.name+": k 0", c, []float32{0})
	}
}

func TestPackedReusesItsMemory(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 4))
	large, small := normal(rng, 100*70), normal(rng, 9*50)
	var p, fresh Packed
	PackB(false, 100, 70, large, 70, &p)
	PackB(true, 9, 50, small, 9, &p)
	PackB(true, 9, 50, small, 9, &fresh)
	if k, n := p.k, p.n; k != 9 || n != 50 {
		t.Errorf("shape %d x %d, want 9 x 50", k, n)
	}
	mustEqual(t, "packed over a larger one", p.data, fresh.data)
}

func TestGemmIsSafeInParallel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 4))
	g := newGemm(rng, true, true, 70, 60, 300, 1, 1)
	want := g.on(portable)
	var group sync.WaitGroup
	results := make([][]float32, 8)
	for i := range results {
		group.Go(func() { results[i] = g.on(active.Load()) })
	}
	group.Wait()
	for _, c := range results {
		mustEqual(t, "in parallel", c, want)
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4))
	g := newGemm(rng, true, true, 250, 60, 300, 1, 1)
	x, y := normal(rng, 100), normal(rng, 100)
	var p Packed
	if got := testing.AllocsPerRun(20, func() {
		PackB(g.transB, g.k, g.n, g.b, g.ldb, &p)
		GemmPacked(g.transA, g.m, g.alpha, g.a, g.lda, &p, 1, g.c, g.ldc)
		Gemm(g.transA, g.transB, g.m, g.n, g.k, 1, g.a, g.lda, g.b, g.ldb, 1, g.c, g.ldc)
		Exp(y, x)
		Dot(x, y)
		SoftmaxTile(x)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestPeakIsPositive(t *testing.T) {
	t.Parallel()
	for _, s := range available() {
		if got := s.peakGFLOPS(time.Millisecond); !(got > 0) || math.IsInf(got, 0) {
			t.Errorf("%s: %v GFLOP/s", s.name, got)
		}
	}
}

func TestPeakCountsItsOperations(t *testing.T) {
	t.Parallel()
	const rounds, chains = 3, 12
	for i, lanes := range []int{8, 16} {
		if got, want := emulatedSets[i].peak(rounds), 2*rounds*chains*lanes; got != want {
			t.Errorf("%s: %d operations, want %d", emulatedSets[i].name, got, want)
		}
	}
}

func TestBiasIsAddedToEveryRow(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 9))
	for i := range 60 {
		g := randomGemm(rng, 70)
		if i%20 == 0 {
			g = newGemm(rng, g.transA, g.transB, 5, 7, blockDepth+3, 1, 1) // the bias is added once
		}
		g.alpha, g.beta = 1, 1
		bias := randomVector(rng, g.n)
		for row := range g.m {
			copy(g.c[row*g.ldc:], bias)
		}
		want := g.on(portable)
		for _, s := range allSets() {
			c := unset(g.c, g.m, g.n, g.ldc)
			s.gemmBias(g.transA, g.transB, g.m, g.n, g.k, g.a, g.lda, g.b, g.ldb, bias, c, g.ldc)
			mustEqual(t, s.name+": "+g.String(), c, want)

			var packed Packed
			s.packB(g.transB, g.k, g.n, g.b, g.ldb, &packed)
			c = unset(g.c, g.m, g.n, g.ldc)
			s.gemmPackedBias(g.transA, g.m, g.a, g.lda, &packed, bias, c, g.ldc)
			mustEqual(t, s.name+" packed: "+g.String(), c, want)
		}
	}
}

// unset is c with NaN wherever the product belongs: the old C is not read.
func unset(c []float32, m, n, ldc int) []float32 {
	c = clone(c)
	for i := range m {
		for j := range n {
			c[i*ldc+j] = float32(math.NaN())
		}
	}
	return c
}

// A product that is computed the other way round, because its A is transposed
// and has more columns than B, has the bytes of one that is not.
func TestSwappedProductsMatch(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 9))
	for _, k := range []int{1, 9, blockDepth + 5} {
		g := newGemm(rng, true, false, 29, 13, k, 1.5, 0)
		want := g.packedOn(portable) // a packed B stays where it is
		for _, s := range allSets() {
			mustEqual(t, s.name+": "+g.String(), g.on(s), want)
		}
	}
}
