package kernels

// blockA is a block of op(A): its position, and its strides over rows and over k.
type blockA struct {
	data      []float32
	row, step int
}

// packingTransposedPays is the number of columns of B from which packing the
// strided columns of a transposed A costs less than reading them.
const packingTransposedPays = 64

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
