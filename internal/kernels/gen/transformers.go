package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"coalmine/internal/kernels/constant"
)

// transformers emits the kernels of transformers, besides gelu.
func (s isa) transformers() {
	s.rowMoments()
	s.normalizeRow()
}

// gelu computes the operations of its approximation one after another.
func (s isa) gelu() func(x group) group {
	sigmoid := s.sigmoid()
	cubic, slope := s.constant("gelu_cubic", constant.GELUCubic), s.constant("gelu_slope", constant.GELUSlope)
	return func(x group) group {
		y := s.product(x, x)
		each(VMULPS, x, y, y)
		each(VMULPS, cubic, y, y)
		each(VFMADD231PS, s.inRegister(slope), x, y)
		y = sigmoid(y)
		each(VMULPS, y, x, x)
		return x
	}
}

// rowMoments emits the sums of eight rows, less a shift, and of the squares. Blocks of eight columns are
// transposed, so that each lane adds the elements of a row in their order.
func (s isa) rowMoments() {
	s.function("rowMoments", "(columns, row int, x []float32, shift, plain, squares []float64)")
	columns, row, x := Load(Param("columns"), GP64()).(reg.GPVirtual), stride("row"), base("x")
	row3, half := tripled(row), GP64()
	LEAQ(Mem{Base: x, Index: row, Scale: 4}, half)
	count := 8 * 8 / s.bytes() // registers of eight float64
	shift, plain, squares := s.group(count), s.zeros(count), s.zeros(count)
	from := base("shift")
	for i, v := range shift {
		VMOVUPD(Mem{Base: from, Disp: i * s.bytes()}, v)
	}
	Label("block")
	pairs := avx2.group(8)
	for i := 0; i < 8; i += 2 {
		first, second := YMM(), fourRows(x, half, row, row3, i+1)
		VMOVUPS(fourRows(x, half, row, row3, i), first)
		VUNPCKLPS(second, first, pairs[i])
		VUNPCKHPS(second, first, pairs[i+1])
	}
	for _, column := range joinHalves(interleaveQuads(pairs)) {
		d := s.eightDoubles(column)
		each(VSUBPD, shift, d, d)
		each(VADDPD, d, plain, plain)
		each(VMULPD, d, d, d)
		each(VADDPD, d, squares, squares)
	}
	ADDQ(U8(4*8), x)
	ADDQ(U8(4*8), half)
	SUBQ(U8(8), columns)
	JNZ(LabelRef("block"))
	s.storeAll(plain, base("plain"))
	s.storeAll(squares, base("squares"))
	finish()
}

// storeAll stores the registers of a group one after another.
func (s isa) storeAll(g group, to reg.GPVirtual) {
	for i, v := range g {
		VMOVUPD(v, Mem{Base: to, Disp: i * s.bytes()})
	}
}

// eightDoubles converts eight float32 to float64.
func (s isa) eightDoubles(x reg.VecVirtual) group {
	if !s.wide() {
		return s.doubles(x)
	}
	d := s.group(1)
	VCVTPS2PD(x, d[0])
	return d
}

// normalizeRow emits (x-mean)*factor*scale + shift in float64, for a multiple of eight columns.
func (s isa) normalizeRow() {
	s.function("normalizeRow", "(dst, x, scale, shift []float32, mean, factor float64)")
	dst, x, scale, shift, n, index := base("dst"), base("x"), base("scale"), base("shift"), length("x"), zeroIndex()
	mean, factor := s.vector(), s.vector()
	VBROADCASTSD(address(Param("mean")), mean)
	VBROADCASTSD(address(Param("factor")), factor)
	Label("columns")
	for i := range 8 * 8 / s.bytes() {
		of := func(base reg.GPVirtual) Mem { return Mem{Base: base, Index: index, Scale: 1, Disp: i * s.bytes() / 2} }
		v, by, plus := s.vector(), s.vector(), s.vector()
		VCVTPS2PD(of(x), v)
		VCVTPS2PD(of(scale), by)
		VCVTPS2PD(of(shift), plus)
		VSUBPD(mean, v, v)
		VMULPD(factor, v, v)
		VMULPD(by, v, v)
		VADDPD(plus, v, v)
		if s.wide() {
			VCVTPD2PS(v, v.AsY())
		} else {
			VCVTPD2PSY(v, v.AsX())
		}
		VMOVUPS(s.lowerHalf(v), of(dst))
	}
	ADDQ(U8(4*8), index)
	SUBQ(U8(8), n)
	JNZ(LabelRef("columns"))
	finish()
}
