package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The definition of GemmBias: Gemm on a C that holds the bias.
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
func TestTurnedProductsAreTheSame(t *testing.T) {
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
