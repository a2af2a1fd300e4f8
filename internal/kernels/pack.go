package kernels

import (
	"sync"
	"unsafe"
)

// Packed is an op(B) laid out for the tiles: blocks of blockDepth rows, in each block panels of as many
// columns as the set's tiles, in each panel the rows in order, the last panel padded with zeros. So a
// tile reads its part of B as one stream. The zero value is an empty matrix. A Packed is safe for
// concurrent reads, but not while PackB writes it, and only with the set that packed it.
type Packed struct {
	k, n  int
	width int // of a panel
	data  []float32
}

// Bytes returns the memory of the matrix.
func (p *Packed) Bytes() int64 { return 4 * int64(cap(p.data)) }

// PackB packs op(B), k x n (b itself, or its transpose if transB; ldb is the
// stride of the stored rows), into dst, whose memory it reuses.
func PackB(transB bool, k, n int, b []float32, ldb int, dst *Packed) {
	active.Load().packB(transB, k, n, b, ldb, dst)
}

func (s *set) packB(transB bool, k, n int, b []float32, ldb int, dst *Packed) {
	checkMatrix("b", b, k, n, ldb, transB)
	dst.k, dst.n, dst.width = k, n, s.tileColumns
	whole := roundUp(n, dst.width)
	dst.data = aligned(dst.data, k*whole)
	if n == 0 {
		return
	}
	source := operandB{data: b, stride: ldb, trans: transB}
	for p0 := 0; p0 < k; p0 += blockDepth {
		depth := min(blockDepth, k-p0)
		s.packPanels(dst.data[p0*whole:], dst.width, source, span{p0, depth}, span{0, n})
	}
}

// panels is a block of op(B), panel after panel.
type panels struct {
	data  []float32
	width int // of a panel
	row   int // stride between the rows of a panel
	next  int // stride between panels
	// Panels are direct if they are B's own memory; the tail, narrower than the
	// width of a tile's reads, is packed separately.
	tail      []float32
	tailStart int
}

// at returns the panel from column j on, and its stride.
func (p panels) at(j int) ([]float32, int) {
	if j >= p.tailStart {
		return p.tail[j-p.tailStart:], p.width
	}
	return p.data[j/p.width*p.next+j%p.width:], p.row
}

func packedPanels(data []float32, width int, depth, columns int) panels {
	return panels{data: data, width: width, row: width, next: width * depth, tailStart: columns}
}

// packingPays is the number of rows of A from which packing a plain B costs less
// than reading its distant rows, and packingNearPays than reading near rows in few sets of the cache.
const (
	packingPays     = 64
	packingNearPays = 192
)

// nearStride is the distance up to which rows share pages of memory.
const nearStride = 416

// scattered reports whether packing a plain B pays for that many rows of A: distant rows are in separate pages, and
// rows an even number of cache lines apart use only every second set of the cache.
func scattered(stride, rows int) bool {
	return rows >= packingPays && stride > nearStride || rows >= packingNearPays && stride%(2*cacheLine) == 0
}

// panelsOf converts a block of op(B) to the form that tiles read.
func (s *set) panelsOf(w *workspace, b operandB, g product, depth, columns span) panels {
	if b.packed != nil {
		p := b.packed
		if p.width%s.tileColumns != 0 {
			panic("kernels: b was packed by another set of kernels than " + s.name)
		}
		return packedPanels(p.data[depth.start*roundUp(p.n, p.width)+columns.start*depth.length:], p.width, depth.length, columns.length)
	}
	if b.trans || scattered(b.stride, g.m) {
		w.b = aligned(w.b, depth.length*roundUp(columns.length, panelWidth))
		s.packPanels(w.b, panelWidth, b, depth, columns)
		return packedPanels(w.b, panelWidth, depth.length, columns.length)
	}
	whole := columns.length / panelWidth * panelWidth
	w.b = aligned(w.b, depth.length*panelWidth)
	if whole < columns.length {
		s.packPanels(w.b, panelWidth, b, depth, span{columns.start + whole, columns.length - whole})
	}
	return panels{
		data: b.data[depth.start*b.stride+columns.start:], width: panelWidth, row: b.stride, next: panelWidth,
		tail: w.b, tailStart: whole,
	}
}

// packPanels packs a part of op(B) in panels of the given width.
func (s *set) packPanels(dst []float32, width int, b operandB, rows, columns span) {
	if !b.trans {
		packPlain(dst, width, b.data[rows.start*b.stride+columns.start:], b.stride, rows.length, columns.length)
		return
	}
	for j := 0; j < columns.length; j += width {
		panel := dst[j*rows.length:][:width*rows.length]
		from := b.data[(columns.start+j)*b.stride+rows.start:]
		s.packTransposed(panel, width, from, b.stride, rows.length, min(width, columns.length-j))
	}
}

// packPlain distributes the rows of src to the panels, in memory order.
func packPlain(dst []float32, width int, src []float32, stride, depth, columns int) {
	for p := range depth {
		row, at := src[p*stride:][:columns], p*width
		for ; len(row) >= width; row = row[width:] {
			copyLines(dst[at:at+width], row)
			at += depth * width
		}
		if len(row) > 0 {
			part := dst[at : at+width]
			clear(part[copy(part, row):])
		}
	}
}

// copyLines fills dst, a number of cache lines. The variable lets the compiler see that nothing overlaps
// and move a line in place; calls of copy for short lines take longer.
func copyLines(dst, src []float32) {
	for i := 0; i < len(dst); i += cacheLine {
		line := *(*[cacheLine]float32)(src[i:])
		*(*[cacheLine]float32)(dst[i:]) = line
	}
}

// packTransposed copies the first rows of src as columns of a panel.
func (s *set) packTransposed(panel []float32, width int, src []float32, stride, depth, rows int) {
	s.transpose(panel, width, src, stride, rows, depth)
	if rows == width {
		return
	}
	for p := range depth {
		clear(panel[p*width+rows : (p+1)*width])
	}
}

// blockA is a block of op(A): its position, and its strides over rows and over k.
type blockA struct {
	data      []float32
	row, step int
}

// packingTransposedPays is the number of columns of B from which packing the
// strided columns of a transposed A costs less than reading them: two tiles of AVX-512 read 64 columns in less time
// than packing takes.
const packingTransposedPays = 65

func (s *set) viewA(w *workspace, g product, rows, depth span) blockA {
	switch {
	case !g.transA:
		return blockA{data: g.a[rows.start*g.lda+depth.start:], row: g.lda, step: 1}
	case g.n < packingTransposedPays:
		return blockA{data: g.a[depth.start*g.lda+rows.start:], row: 1, step: g.lda}
	}
	return s.packTransposedA(w, g, rows, depth)
}

// packTransposedA packs a transposed A row by row. The stride is an odd number of
// cache lines, so that the rows of a tile are in different sets of the cache.
func (s *set) packTransposedA(w *workspace, g product, rows, depth span) blockA {
	stride := (roundUp(depth.length, cacheLine)/cacheLine | 1) * cacheLine
	w.a = aligned(w.a, rows.length*stride)
	s.transpose(w.a, stride, g.a[depth.start*g.lda+rows.start:], g.lda, depth.length, rows.length)
	return blockA{data: w.a, row: stride, step: 1}
}

// multiplyTurned computes a product with a transposed A and a plain B as the transpose of Bᵀ * A: the
// operand that must be packed, because its columns are read, is then B, the smaller one. Every element
// is the same chain of multiply-adds, so the bytes are equal. It requires beta 0 and no bias.
func (s *set) multiplyTurned(g product, b []float32, ldb int) {
	checkMatrix("a", g.a, g.m, g.k, g.lda, true)
	checkMatrix("c", g.c, g.m, g.n, g.ldc, false)
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	w.turned = aligned(w.turned, g.n*g.m)
	turned := product{transA: true, m: g.n, n: g.m, k: g.k, alpha: g.alpha, a: b, lda: ldb, c: w.turned, ldc: g.m}
	s.multiply(turned, operandB{data: g.a, stride: g.lda})
	s.transpose(g.c, g.ldc, w.turned, g.m, g.n, g.m)
}

// Transpose writes the transpose of src, rows x columns with a stride of
// srcRow, to dst, columns x rows with a stride of dstRow. They must not overlap.
func Transpose(dst []float32, dstRow int, src []float32, srcRow, rows, columns int) {
	checkMatrix("src", src, rows, columns, srcRow, false)
	checkMatrix("dst", dst, columns, rows, dstRow, false)
	active.Load().transpose(dst, dstRow, src, srcRow, rows, columns)
}

func (s *set) transpose(dst []float32, dstRow int, src []float32, srcRow, rows, columns int) {
	rows8, columns8 := rows&^7, columns&^7
	if columns8 > 0 {
		for i := 0; i < rows8; i += 8 {
			s.transpose8(dst[i:], dstRow, src[i*srcRow:], srcRow, columns8/8)
		}
	}
	transposeEach(dst, dstRow, src, srcRow, span{0, rows8}, span{columns8, columns - columns8})
	transposeEach(dst, dstRow, src, srcRow, span{rows8, rows - rows8}, span{0, columns})
}

func transposeEach(dst []float32, dstRow int, src []float32, srcRow int, rows, columns span) {
	for i := rows.start; i < rows.start+rows.length; i++ {
		for j := columns.start; j < columns.start+columns.length; j++ {
			dst[j*dstRow+i] = src[i*srcRow+j]
		}
	}
}

// workspace is the memory of one product at a time.
type workspace struct {
	a, b, turned []float32
	rounded      RoundedRows
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// cacheLine in float32.
const cacheLine = 64 / 4

// aligned returns n floats that begin at a cache line, in buffer if it has room.
func aligned(buffer []float32, n int) []float32 {
	if cap(buffer) >= n {
		return buffer[:n]
	}
	buffer = make([]float32, n+cacheLine-1)
	past := int(uintptr(unsafe.Pointer(unsafe.SliceData(buffer))) / 4 % cacheLine)
	start := (cacheLine - past) % cacheLine
	return buffer[start : start+n : start+n]
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
