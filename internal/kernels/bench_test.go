package kernels

import (
	"fmt"
	"math"
	"strings"
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

// BenchmarkLoops runs the inner loops of a training step on data in the
// first-level cache. The time of an element is given in multiply-adds of whole
// registers at the peak, which leaves the clock out; bench/static/static.py computes it.
func BenchmarkLoops(b *testing.B) {
	s := active.Load()
	peak := s.peakGFLOPS(300 * time.Millisecond)
	for _, loop := range hotLoops(s) {
		b.Run(loop.kernel+strings.ToUpper(s.name), func(b *testing.B) {
			const runs = 16
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				start := time.Now()
				for range runs {
					loop.run()
				}
				best = min(best, time.Since(start))
			}
			elements := float64(runs * loop.elements)
			b.ReportMetric(float64(best.Nanoseconds())/elements*peak/float64(2*s.tileLanes), "fma/element")
		})
	}
}

// hotLoop runs a kernel's loop over n elements.
type hotLoop struct {
	kernel   string
	elements int
	run      func()
}

func hotLoops(s *set) []hotLoop {
	const n = 512
	x, y, z := numbered(n), numbered(n), numbered(n)
	long, other, sums := numbered(3*n), numbered(3*n), make([]float64, n)
	return append(tileLoops(s),
		hotLoop{"exp", 3 * n, func() { s.exp(other, long) }},
		hotLoop{"sigmoid", 3 * n, func() { s.sigmoid(other, long) }},
		hotLoop{"tanh", 3 * n, func() { s.tanh(other, long) }},
		hotLoop{"expSum", 3 * n, func() { s.expSum(other, long, 3) }},
		hotLoop{"sumExp", 3 * n, func() { s.sumExp(long, 3) }},
		hotLoop{"moments", 3 * n, func() { s.moments(other, long, 3, sums) }},
		hotLoop{"dot", 3 * n, func() { s.dot(long, other) }},
		hotLoop{"axpy", 3 * n, func() { s.axpy(0.5, long, other) }},
		hotLoop{"scale", 3 * n, func() { s.scale(1, long) }},
		hotLoop{"add", 3 * n, func() { s.add(other, long) }},
		hotLoop{"mulTanh", 3 * n, func() { s.mulTanh(other, long) }},
		hotLoop{"cifgGates", n, func() { s.cifgGates(long, other, x, y, z, long, x) }},
		hotLoop{"cifgBackward", n, func() { s.cifgBackward(long, x, y, z, x, other) }},
		hotLoop{"expColumns4", n / 2, func() { s.expColumns(other, n/2, n/2, x, sums) }},
		hotLoop{"dotRows4", 3 * n, func() { s.dotRows(y, long, 0, 3*n, other) }},
		hotLoop{"transpose8", 3 * n / 64, func() { s.transpose8(other, 8, long, 3*n/8, 3*n/64) }},
	)
}

// tileLoops are tiles of the heights and widths that a step has most of. They
// read the same row of B for every k, and store C once in a long while.
func tileLoops(s *set) (loops []hotLoop) {
	const depth = 4096
	a, b, c := numbered(maxTileRows), numbered(panelWidth), numbered(maxTileRows*panelWidth)
	for rows := s.tileRows; rows >= s.tileRows-1; rows-- {
		for vectors := s.tileColumns / s.tileLanes; vectors > 0; vectors-- {
			tile := s.tiles[vectors][rows]
			loops = append(loops, hotLoop{fmt.Sprintf("tile%dx%d", rows, vectors), depth, func() {
				tile(1, depth, a, 1, 0, b, 0, c, panelWidth, vectors*s.tileLanes, 1, false, nil)
			}})
		}
	}
	return loops
}

// numbered returns a vector that repeats -3 to 3.
func numbered(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	return x
}
