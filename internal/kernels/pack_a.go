package kernels

// blockA is a block of op(A): where it lies, or packed tile by tile.
type blockA struct {
	data      []float32
	row, step int // strides over rows and, if not packed, over k
	pitch     int // between packed tiles; 0 if not packed
}

// stack returns the tiles of a stack, and the strides between them and over k.
func (a blockA) stack(t tiles) (data []float32, tile, step int) {
	if a.pitch > 0 {
		return a.data[t.firstTile*a.pitch:], a.pitch, t.height
	}
	return a.data[t.firstRow*a.row:], t.height * a.row, a.step
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

// packTransposedA deals the stored rows of A out to tiles, column after column.
// The odd line between tiles spreads their starts over the sets of the cache, and
// takes the surplus of the last column.
func (s *set) packTransposedA(w *workspace, g product, rows, depth span, tiling [2]tiles) blockA {
	last := tiling[1]
	height := last.height
	if tiling[0].count > 0 {
		height = tiling[0].height
	}
	pitch := depth.length*height + cacheLine
	w.a = aligned(w.a, (last.firstTile+last.count)*pitch)
	for _, t := range tiling {
		if t.count > 0 {
			from := g.a[depth.start*g.lda+rows.start+t.firstRow:]
			s.packStack(w.a[t.firstTile*pitch:], pitch, from, g.lda, t, depth.length)
		}
	}
	return blockA{data: w.a, row: 1, pitch: pitch}
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
			copy(dst[i*pitch+p*t.height:][:t.height], from[p*stride+i*t.height:])
		}
	}
}
