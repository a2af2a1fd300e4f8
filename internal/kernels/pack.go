package kernels

import (
	"fmt"
	"sync"
	"unsafe"
)

// Packed is an op(B) laid out for the tiles: blocks of blockDepth rows, in
// each block panels of panelWidth columns, in each panel the rows one after
// the other, the last panel filled up with zeros. Every set reads the same
// layout. The zero value is an empty matrix. A Packed may be read by several
// goroutines, but not while PackB writes it.
type Packed struct {
	k, n int
	data []float32
}

// Shape returns the rows and columns of op(B).
func (p *Packed) Shape() (k, n int) { return p.k, p.n }

// PackB packs op(B), k x n (b itself, or its transpose if transB; ldb is the
// stride of the stored rows), into dst, whose memory it reuses.
func PackB(transB bool, k, n int, b []float32, ldb int, dst *Packed) {
	active.Load().packB(transB, k, n, b, ldb, dst)
}

func (s *set) packB(transB bool, k, n int, b []float32, ldb int, dst *Packed) {
	checkMatrix("b", b, k, n, ldb, transB)
	width := roundUp(n, panelWidth)
	dst.k, dst.n = k, n
	dst.data = aligned(dst.data, k*width)
	source := operandB{data: b, stride: ldb, trans: transB}
	for p0 := 0; p0 < k; p0 += blockDepth {
		depth := min(blockDepth, k-p0)
		s.packPanels(dst.data[p0*width:], source, span{p0, depth}, span{0, n})
	}
}

// panels is a block of op(B), panel after panel.
type panels struct {
	data []float32
	row  int // stride between the rows of a panel
	next int // stride between panels
	// direct panels lie in B itself; the tail, narrower than a tile reads,
	// is packed apart.
	tail      []float32
	tailStart int
}

// at returns the panel that holds column j, from that column on, and its stride.
func (p panels) at(j int) ([]float32, int) {
	if j >= p.tailStart {
		return p.tail[j%panelWidth:], panelWidth
	}
	return p.data[j/panelWidth*p.next+j%panelWidth:], p.row
}

// packingPays is the number of rows of A from which packing a plain B costs
// less than its scattered rows do.
const packingPays = 64

// panelsOf brings a block of op(B) into the form that tiles read.
func (s *set) panelsOf(w *workspace, b operandB, g product, p0, depth, j0, columns int) panels {
	if b.packed != nil {
		width := roundUp(b.packed.n, panelWidth)
		data := b.packed.data[p0*width+j0*depth:]
		return panels{data: data, row: panelWidth, next: panelWidth * depth, tailStart: columns}
	}
	if b.trans || g.m >= packingPays {
		w.b = aligned(w.b, depth*roundUp(columns, panelWidth))
		s.packPanels(w.b, b, span{p0, depth}, span{j0, columns})
		return panels{data: w.b, row: panelWidth, next: panelWidth * depth, tailStart: columns}
	}
	whole := columns / panelWidth * panelWidth
	w.b = aligned(w.b, depth*panelWidth)
	if whole < columns {
		s.packPanels(w.b, b, span{p0, depth}, span{j0 + whole, columns - whole})
	}
	return panels{data: b.data[p0*b.stride+j0:], row: b.stride, next: panelWidth, tail: w.b, tailStart: whole}
}

func (s *set) packPanels(dst []float32, b operandB, rows, columns span) {
	if !b.trans {
		packPlain(dst, b.data[rows.start*b.stride+columns.start:], b.stride, rows.length, columns.length)
		return
	}
	for j := 0; j < columns.length; j += panelWidth {
		width := min(panelWidth, columns.length-j)
		panel := dst[j*rows.length:][:panelWidth*rows.length]
		s.packTransposed(panel, b.data[(columns.start+j)*b.stride+rows.start:], b.stride, rows.length, width)
	}
}

// packPlain deals the rows of src out to the panels, in the order in which
// they lie in memory.
func packPlain(dst, src []float32, stride, depth, columns int) {
	for p := range depth {
		row := src[p*stride:][:columns]
		for j := 0; j < columns; j += panelWidth {
			part := dst[j*depth+p*panelWidth:][:panelWidth]
			clear(part[copy(part, row[j:]):])
		}
	}
}

// packTransposed copies the first width rows of src as columns of a panel.
func (s *set) packTransposed(panel, src []float32, stride, depth, width int) {
	s.transpose(panel, panelWidth, src, stride, width, depth)
	if width == panelWidth {
		return
	}
	for p := range depth {
		clear(panel[p*panelWidth+width : (p+1)*panelWidth])
	}
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
	for i := 0; i < rows8; i += 8 {
		for j := 0; j < columns8; j += 8 {
			s.transpose8(dst[j*dstRow+i:], dstRow, src[i*srcRow+j:], srcRow)
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

// blockA is a block of op(A): where it lies, or packed tile by tile.
type blockA struct {
	data      []float32
	row, step int // strides over rows and over k
	pitch     int // between packed tiles; 0 if not packed
}

// stack returns the tiles of a stack and the stride between them.
func (a blockA) stack(t tiles) (data []float32, tile int) {
	if a.pitch > 0 {
		return a.data[t.firstTile*a.pitch:], a.pitch
	}
	return a.data[t.firstRow*a.row:], t.height * a.row
}

// packingTransposedPays is the number of columns of B from which packing the
// strided columns of a transposed A costs less than reading them.
const packingTransposedPays = 64

func (s *set) viewA(w *workspace, g product, rows, depth span, tiling [2]tiles) blockA {
	switch {
	case !g.transA:
		return blockA{data: g.a[rows.start*g.lda+depth.start:], row: g.lda, step: 1}
	case g.n < packingTransposedPays:
		return blockA{data: g.a[depth.start*g.lda+rows.start:], row: 1, step: g.lda}
	}
	return s.packTransposedA(w, g, rows, depth, tiling)
}

// packTransposedA deals the stored rows of A out to tiles of maxTileRows
// elements in every column, of which a tile uses the first. The odd line
// between tiles spreads their starts over the sets of the cache.
func (s *set) packTransposedA(w *workspace, g product, rows, depth span, tiling [2]tiles) blockA {
	pitch := depth.length*maxTileRows + cacheLine
	last := tiling[1]
	w.a = aligned(w.a, (last.firstTile+last.count)*pitch)
	for _, t := range tiling {
		if t.count > 0 {
			from := g.a[depth.start*g.lda+rows.start+t.firstRow:]
			s.packStack(w.a[t.firstTile*pitch:], pitch, from, g.lda, t, depth.length)
		}
	}
	return blockA{data: w.a, row: 1, step: maxTileRows, pitch: pitch}
}

// packStack packs equal tiles: by the kernel, which reads past a row's end,
// as long as that stays within the slice, and the last rows one by one.
func (s *set) packStack(dst []float32, pitch int, from []float32, stride int, t tiles, depth int) {
	reach := (t.count-1)*t.height + maxTileRows
	whole := 0
	if reach <= len(from) {
		whole = min(depth, (len(from)-reach)/stride+1)
		s.dealTiles(dst, pitch, from, stride, t.height, t.count, whole)
	}
	for p := whole; p < depth; p++ {
		for i := range t.count {
			copy(dst[i*pitch+p*maxTileRows:][:t.height], from[p*stride+i*t.height:])
		}
	}
}

// workspace is the memory of one product at a time.
type workspace struct{ a, b []float32 }

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

// checkMatrix panics unless data holds a matrix of rows x columns (stored the
// other way round if trans) with the given stride.
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
