package kernels

import (
	"fmt"
	"testing"
	"time"
)

func BenchmarkGemm(b *testing.B) {
	peak := PeakGFLOPS(300 * time.Millisecond)
	for _, g := range []struct {
		transA, transB bool
		m, n, k        int
		packed         bool
	}{
		{false, false, 512, 512, 512, false},
		{false, true, 512, 512, 512, false},
		{true, false, 512, 512, 512, false},
		{false, false, 320, 2010, 96, false},
		{false, false, 16, 2010, 96, true},
		{false, false, 16, 96, 670, true},
		{false, false, 16, 96, 2010, true},
		{false, false, 16, 670, 96, true},
		{false, true, 320, 240, 96, false},
		{false, false, 320, 96, 240, false},
		{true, false, 240, 96, 320, false},
		{true, false, 670, 96, 320, false},
		{true, false, 96, 2010, 320, false},
		{false, true, 320, 96, 2010, false},
		{false, true, 320, 10004, 96, false},
		{false, false, 16, 2010, 96, false},
	} {
		b.Run(fmt.Sprintf("transA=%v/transB=%v/%dx%dx%d/packed=%v", g.transA, g.transB, g.m, g.n, g.k, g.packed), func(b *testing.B) {
			x := make([]float32, g.m*g.k)
			y := make([]float32, g.n*g.k)
			c := make([]float32, g.m*g.n)
			for _, matrix := range [][]float32{x, y, c} {
				for i := range matrix { // memory never written is one page over and over, which reads slower
					matrix[i] = float32(i % 7)
				}
			}
			lda, ldb := g.k, g.n
			if g.transA {
				lda = g.m
			}
			if g.transB {
				ldb = g.k
			}
			var p Packed
			PackB(g.transB, g.k, g.n, y, ldb, &p)
			for b.Loop() {
				if g.packed {
					GemmPacked(g.transA, g.m, 1, x, lda, &p, 1, c, g.n)
				} else {
					Gemm(g.transA, g.transB, g.m, g.n, g.k, 1, x, lda, y, ldb, 1, c, g.n)
				}
			}
			gflops := 2 * float64(g.m) * float64(g.n) * float64(g.k) / float64(b.Elapsed().Nanoseconds()) * float64(b.N)
			b.ReportMetric(gflops, "GFLOP/s")
			b.ReportMetric(100*gflops/peak, "%peak")
		})
	}
}
