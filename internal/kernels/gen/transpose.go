package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose8 emits the transpose of adjacent 8x8 blocks, which both sets use:
// it moves data and computes nothing.
func transpose8() {
	avx2.function("transpose8", "(dst []float32, dstRow int, src []float32, srcRow, count int)")
	src, dst := base("src"), base("dst")
	srcRow, dstRow := stride("srcRow"), stride("dstRow")
	count := Load(Param("count"), GP64()).(reg.GPVirtual)
	srcRow3, half, dstRow3 := tripled(srcRow), GP64(), tripled(dstRow)
	Label("block")
	LEAQ(Mem{Base: src, Index: srcRow, Scale: 4}, half)
	rows := avx2.group(8)
	for i, v := range rows {
		VMOVUPS(fourRows(src, half, srcRow, srcRow3, i), v)
	}
	LEAQ(Mem{Base: dst, Index: dstRow, Scale: 4}, half)
	for i, v := range joinHalves(interleaveQuads(interleavePairs(rows))) {
		VMOVUPS(v, fourRows(dst, half, dstRow, dstRow3, i))
	}
	ADDQ(U8(4*8), src)
	LEAQ(Mem{Base: dst, Index: dstRow, Scale: 8}, dst)
	DECQ(count)
	JNZ(LabelRef("block"))
	finish()
}

// interleavePairs merges rows 2i and 2i+1 element by element.
func interleavePairs(rows group) group {
	out := avx2.group(8)
	for i := 0; i < 8; i += 2 {
		VUNPCKLPS(rows[i+1], rows[i], out[i])
		VUNPCKHPS(rows[i+1], rows[i], out[i+1])
	}
	return out
}

// interleaveQuads merges pairs of four rows each: out[4q+r] holds, in each
// half, column r (lower) or 4+r (upper) of rows 4q to 4q+3.
func interleaveQuads(pairs group) group {
	out := avx2.group(8)
	for q := 0; q < 8; q += 4 {
		VUNPCKLPD(pairs[q+2], pairs[q], out[q])
		VUNPCKHPD(pairs[q+2], pairs[q], out[q+1])
		VUNPCKLPD(pairs[q+3], pairs[q+1], out[q+2])
		VUNPCKHPD(pairs[q+3], pairs[q+1], out[q+3])
	}
	return out
}

// joinHalves joins the columns of the upper four rows with those of the lower four.
func joinHalves(quads group) group {
	out := avx2.group(8)
	for r := range 4 {
		VPERM2F128(U8(0x20), quads[4+r], quads[r], out[r])
		VPERM2F128(U8(0x31), quads[4+r], quads[r], out[4+r])
	}
	return out
}
