package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// roundedColumns is the width of a panel of rounded columns.
const roundedColumns = 16

// roundedTile emits the product of a few rows with panels of columns, both pairs
// of 16-bit integers, in 32-bit integers; the sums are scaled as float32.
func (s isa) roundedTile() {
	s.function("roundedTile", "(panels, depth int, a []float32, b []float32, c []float32, cRow int, scales []float32)")
	vectors := roundedColumns / s.lanes
	rows := 12 / vectors
	panels, depth := Load(Param("panels"), GP64()).(reg.GPVirtual), GP64()
	a, b, c, cRow := base("a"), base("b"), base("c"), stride("cRow")
	aRow := stride("depth")
	aRow3 := tripled(aRow)
	var at [3]reg.GPVirtual // of four rows each
	for i := range at {
		at[i] = GP64()
	}
	Label("panel")
	sums := make([]group, rows)
	for i := range sums {
		sums[i] = s.zeros(vectors)
	}
	MOVQ(a, at[0])
	for i := 1; i < (rows+3)/4; i++ {
		LEAQ(Mem{Base: at[i-1], Index: aRow, Scale: 4}, at[i])
	}
	Load(Param("depth"), depth)
	columns, product := s.group(vectors), s.vector()
	alignLoop()
	Label("product")
	for j, v := range columns {
		VMOVUPS(Mem{Base: b, Disp: j * s.bytes()}, v)
	}
	for i, row := range sums {
		x := s.vector()
		VBROADCASTSS(fourRows(at[i/4], at[i/4], aRow, aRow3, i%4), x)
		for j, sum := range row {
			VPMADDWD(columns[j], x, product)
			VPADDD(product, sum, sum)
		}
	}
	for i := range (rows + 3) / 4 {
		ADDQ(U8(4), at[i])
	}
	ADDQ(U8(4*roundedColumns), b)
	DECQ(depth)
	JNZ(LabelRef("product"))
	s.writeRounded(c, cRow, sums)
	ADDQ(U8(4*roundedColumns), c)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	finish()
}

// writeRounded stores the sums, each row times its scale.
func (s isa) writeRounded(c, cRow reg.GPVirtual, sums []group) {
	scales, to := base("scales"), GP64()
	MOVQ(c, to)
	for i, row := range sums {
		scale := s.vector()
		VBROADCASTSS(Mem{Base: scales, Disp: 4 * i}, scale)
		each(VCVTDQ2PS, row, row)
		each(VMULPS, scale, row, row)
		for j, sum := range row {
			VMOVUPS(sum, Mem{Base: to, Disp: j * s.bytes()})
		}
		ADDQ(cRow, to)
	}
}
