package kernels

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
	if n == 0 {
		return
	}
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

// nearStride is the distance up to which rows share pages of memory.
const nearStride = 256

// scattered tells whether rows of a plain B are better packed: those far apart
// each lie in a page of their own, and those an even number of cache lines
// apart crowd into every second set of the cache.
func scattered(stride int) bool { return stride > nearStride || stride%(2*cacheLine) == 0 }

// panelsOf brings a block of op(B) into the form that tiles read.
func (s *set) panelsOf(w *workspace, b operandB, g product, p0, depth, j0, columns int) panels {
	if b.packed != nil {
		width := roundUp(b.packed.n, panelWidth)
		data := b.packed.data[p0*width+j0*depth:]
		return panels{data: data, row: panelWidth, next: panelWidth * depth, tailStart: columns}
	}
	if b.trans || g.m >= packingPays && scattered(b.stride) {
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
