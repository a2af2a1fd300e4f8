package kernels

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
