package kernels

import (
	"fmt"
	"time"
)

// The blocks of a product. blockDepth is part of the arithmetic (see the package
// comment); the others affect only the use of the caches.
const (
	blockDepth   = BlockDepth
	blockRows    = 192 // m; a multiple of every set's tile
	blockColumns = 480 // n; a multiple of panelWidth
	onceColumns  = 144 // the same if A is a single block, so that B is read only once, soon after packing
	panelWidth   = 48  // columns that a product packs together; a multiple of every set's tile
	maxTileRows  = 8
)

// BlockDepth is the number of values of k in one sum of a product. Up to it, C =
// C + A*B rounds like adding a separately computed product.
const BlockDepth = 384

// tileFunc computes count tiles of C, one below the other, each of a fixed
// number of rows R and of columns up to the width of set.tiles registers:
//
//	C[t*R+i][j] = alpha * sum_p A[t][i][p]*B[p][j]  (+ bias[j], or else + C[t*R+i][j] if accumulate)
//
// where A[t][i][p] is a[(t*R+i)*aRow+p*aStep], B[p][j] is b[p*bRow+j] and
// C[i][j] is c[i*cRow+j]. b must hold whole registers in every row.
type tileFunc func(count, depth int, a []float32, aRow, aStep int, b []float32, bRow int,
	c []float32, cRow, columns int, alpha float32, accumulate bool, bias []float32)

// Gemm computes C = alpha*op(A)*op(B) + beta*C on row-major matrices, where op(A) is m x k, op(B) is k x
// n and C is m x n. op(X) is X, or its transpose if transX; lda, ldb and ldc are the strides between
// stored rows. With beta 0 the old C is not read; with alpha 0 neither are A and B. C must not overlap A
// or B.
//
// An element of C depends only on its row of op(A) and column of op(B), not on m or n: rows may be
// computed together or one by one. Gemm allocates nothing in the steady state (its workspaces are
// pooled) and is safe for concurrent use. It panics if a slice is too short for its shape.
func Gemm(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	active.Load().gemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

// GemmPacked is Gemm with op(B) packed by PackB, which fixes n and k. It gives the same bytes as Gemm.
func GemmPacked(transA bool, m int, alpha float32, a []float32, lda int, b *Packed, beta float32, c []float32, ldc int) {
	active.Load().gemmPacked(transA, m, alpha, a, lda, b, beta, c, ldc)
}

func (s *set) gemm(transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	checkMatrix("b", b, k, n, ldb, transB)
	g := product{transA: transA, m: m, n: n, k: k, alpha: alpha, a: a, lda: lda, beta: beta, c: c, ldc: ldc}
	if transA && !transB && beta == 0 && lda <= nearStride && m > n {
		s.multiplyTurned(g, b, ldb)
		return
	}
	s.multiply(g, operandB{data: b, stride: ldb, trans: transB})
}

func (s *set) gemmPacked(transA bool, m int, alpha float32, a []float32, lda int, b *Packed, beta float32, c []float32, ldc int) {
	s.multiply(product{transA: transA, m: m, n: b.n, k: b.k, alpha: alpha, a: a, lda: lda, beta: beta, c: c, ldc: ldc}, operandB{packed: b})
}

// product holds the arguments of Gemm except B.
type product struct {
	transA  bool
	m, n, k int
	alpha   float32
	a       []float32
	lda     int
	beta    float32
	bias    []float32 // nil without bias; otherwise beta is 0
	c       []float32
	ldc     int
}

// operandB is op(B): a plain matrix, or a packed one.
type operandB struct {
	data   []float32
	stride int
	trans  bool
	packed *Packed
}

// multiply iterates over the blocks of a product: depth outermost, so that every
// element of C gets its blocks of k in order.
func (s *set) multiply(g product, b operandB) {
	checkMatrix("a", g.a, g.m, g.k, g.lda, g.transA)
	checkMatrix("c", g.c, g.m, g.n, g.ldc, false)
	if g.m == 0 || g.n == 0 {
		return
	}
	empty := g.k == 0 || g.alpha == 0
	s.prescale(g, empty)
	if empty {
		return
	}
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	for p0 := 0; p0 < g.k; p0 += blockDepth {
		if p0 > 0 {
			g.bias, g.beta = nil, 1
		}
		s.multiplyDepth(w, g, b, span{p0, min(blockDepth, g.k-p0)})
	}
}

// multiplyDepth iterates over the blocks of one depth.
func (s *set) multiplyDepth(w *workspace, g product, b operandB, depth span) {
	once, most := g.m <= blockRows, blockColumns
	if once {
		most = onceColumns
	}
	var a blockA
	for j0 := 0; j0 < g.n; j0 += most {
		columns := span{j0, min(most, g.n-j0)}
		panels := s.panelsOf(w, b, g, depth, columns)
		for i0 := 0; i0 < g.m; i0 += blockRows {
			rows := span{i0, min(blockRows, g.m-i0)}
			tiling := splitRows(rows.length, s.tileRows)
			if j0 == 0 || !once {
				a = s.viewA(w, g, rows, depth)
			}
			s.block(g, a, tiling, panels, rows, columns, depth.length)
		}
	}
}

// prescale applies beta if the tiles, which store or accumulate, do not, and always to an empty product.
func (s *set) prescale(g product, empty bool) {
	if g.beta == 1 || g.beta == 0 && !empty {
		return
	}
	for i := range g.m {
		row := g.c[i*g.ldc:][:g.n]
		if g.bias != nil {
			copy(row, g.bias)
		} else if g.beta == 0 {
			clear(row)
		} else {
			s.scale(g.beta, row)
		}
	}
}

// span is a range of rows, columns or depth.
type span struct{ start, length int }

func (s *set) block(g product, a blockA, tiling [2]tiles, b panels, rows, columns span, depth int) {
	for j := 0; j < columns.length; j += s.tileColumns {
		width := min(s.tileColumns, columns.length-j)
		panel, panelRow := b.at(j)
		tile := s.tiles[(width+s.tileLanes-1)/s.tileLanes]
		var bias []float32
		if g.bias != nil {
			bias = g.bias[columns.start+j:]
		}
		for _, t := range tiling {
			if t.count == 0 {
				continue
			}
			c := g.c[(rows.start+t.firstRow)*g.ldc+columns.start+j:]
			tile[t.height](t.count, depth, a.data[t.firstRow*a.row:], a.row, a.step, panel, panelRow, c, g.ldc, width, g.alpha, g.beta != 0, bias)
		}
	}
}

// tiles is a stack of equal tiles.
type tiles struct{ height, count, firstRow int }

// splitRows cuts rows into tall tiles and then tiles shorter by one: a tile of
// few rows cannot hide the latency of its multiply-adds.
func splitRows(rows, most int) [2]tiles {
	count := (rows + most - 1) / most
	height, tall := rows/count, rows%count
	return [2]tiles{
		{height: height + 1, count: tall},
		{height: height, count: count - tall, firstRow: tall * (height + 1)},
	}
}

// checkMatrix panics unless data holds a matrix of rows x columns (stored
// transposed if trans) with the given stride.
func checkMatrix(name string, data []float32, rows, columns, stride int, trans bool) {
	if trans {
		rows, columns = columns, rows
	}
	if rows < 0 || columns < 0 {
		panic(fmt.Sprintf("kernels: %s has negative shape %d x %d", name, rows, columns))
	}
	if rows == 0 || columns == 0 {
		return
	}
	if stride < columns {
		panic(fmt.Sprintf("kernels: %s has a stride of %d, shorter than its rows of %d", name, stride, columns))
	}
	if need := (rows-1)*stride + columns; len(data) < need {
		panic(fmt.Sprintf("kernels: %s holds %d elements; %d rows of %d with a stride of %d need %d", name, len(data), rows, columns, stride, need))
	}
}

// GemmBias computes C = op(A)*op(B) + bias, which has n elements and is added to every row. It gives the
// same bytes as Gemm with alpha and beta 1 on a C that holds the bias, and does not read C.
func GemmBias(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, bias, c []float32, ldc int) {
	active.Load().gemmBias(transA, transB, m, n, k, a, lda, b, ldb, bias, c, ldc)
}

// GemmPackedBias is GemmBias with op(B) packed by PackB.
func GemmPackedBias(transA bool, m int, a []float32, lda int, b *Packed, bias, c []float32, ldc int) {
	active.Load().gemmPackedBias(transA, m, a, lda, b, bias, c, ldc)
}

func (s *set) gemmBias(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, bias, c []float32, ldc int) {
	checkMatrix("b", b, k, n, ldb, transB)
	checkBias(bias, n)
	g := product{transA: transA, m: m, n: n, k: k, alpha: 1, a: a, lda: lda, bias: bias, c: c, ldc: ldc}
	s.multiply(g, operandB{data: b, stride: ldb, trans: transB})
}

func (s *set) gemmPackedBias(transA bool, m int, a []float32, lda int, b *Packed, bias, c []float32, ldc int) {
	checkBias(bias, b.n)
	g := product{transA: transA, m: m, n: b.n, k: b.k, alpha: 1, a: a, lda: lda, bias: bias, c: c, ldc: ldc}
	s.multiply(g, operandB{packed: b})
}

func checkBias(bias []float32, n int) {
	if len(bias) != n {
		panic(fmt.Sprintf("kernels: bias has %d elements; C has %d columns", len(bias), n))
	}
}

// PeakGFLOPS returns the number of 10^9 floating-point operations per second of this core
// with the set in use: independent multiply-adds in registers, run for about the given time
// or longer if other processes use the core meanwhile. It is the upper bound for Gemm.
func PeakGFLOPS(duration time.Duration) float64 { return active.Load().peakGFLOPS(duration) }

func (s *set) peakGFLOPS(duration time.Duration) float64 {
	const rounds, least = 10_000, 20 // many short tries are interrupted less often than one
	best := 0.0
	for start, tries := time.Now(), 0; time.Since(start) < duration || tries < least || best == 0; tries++ {
		begin := time.Now()
		operations := s.peak(rounds)
		if seconds := time.Since(begin).Seconds(); seconds > 0 {
			best = max(best, float64(operations)/seconds/1e9)
		}
	}
	return best
}
