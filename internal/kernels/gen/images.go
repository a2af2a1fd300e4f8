package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// images emits the kernels of convolutional networks.
func (s isa) images() {
	s.maxPool()
	s.maxPoolBackward()
	s.sumRows()
	s.columnMoments()
	s.normalizeColumns()
}

// squares emits a loop over the squares of 2 x 2 pixels in two rows of pixels, and in it one over their
// channels. wide advances by two pixels after each square, narrow by one.
func (s isa) squares(wide, narrow []reg.GPVirtual, body func(s step, at indices)) {
	count, pixel := Load(Param("count"), GP64()).(reg.GPVirtual), stride("channels")
	n, at := GP64(), indices{GP64(), GP64(), GP64(), GP64()}
	Label("square")
	Load(Param("channels"), n)
	XORQ(at[0], at[0])
	MOVQ(pixel, at[1])
	Load(Param("below"), at[2])
	SHLQ(U8(2), at[2])
	LEAQ(Mem{Base: at[2], Index: pixel, Scale: 1}, at[3])
	s.loop(n, s.lanes/8, at, func(s step) { body(s, at) })
	for _, p := range wide {
		LEAQ(Mem{Base: p, Index: pixel, Scale: 2}, p)
	}
	for _, p := range narrow {
		ADDQ(pixel, p)
	}
	DECQ(count)
	JNZ(LabelRef("square"))
	finish()
}

// ordered maps float32 to integers of the same order, and back.
func (s isa) ordered(x group) group {
	y := s.like(x)
	each(VPSRAD, U8(31), x, y)
	each(VPSRLD, U8(1), y, y)
	each(s.xor, x, y, y)
	return y
}

// largest returns the pixels of a square as ordered integers, and the largest of them.
func (s step) largest(x reg.Register, at indices) (pixels [4]group, best group) {
	for i := range pixels {
		pixels[i] = s.ordered(s.read(x, at[i]))
	}
	best = s.like(pixels[0])
	each(VPMAXSD, pixels[0], pixels[1], best)
	each(VPMAXSD, pixels[2], best, best)
	each(VPMAXSD, pixels[3], best, best)
	return pixels, best
}

func (s isa) maxPool() {
	s.function("maxPool", "(count, channels, below int, x, y []float32)")
	x, y := base("x"), base("y")
	s.squares([]reg.GPVirtual{x}, []reg.GPVirtual{y}, func(s step, at indices) {
		_, best := s.largest(x, at)
		s.write(s.ordered(best), y, at[0])
	})
}

// maxPoolBackward gives the gradient of a square to the first of its largest pixels, and 0 to the others.
func (s isa) maxPoolBackward() {
	s.function("maxPoolBackward", "(count, channels, below int, x, dy, dx []float32)")
	x, dy, dx := base("x"), base("dy"), base("dx")
	zero := s.inRegister(s.constant("zero", 0)).(reg.VecVirtual)
	s.squares([]reg.GPVirtual{x, dx}, []reg.GPVirtual{dy}, func(s step, at indices) {
		pixels, best := s.largest(x, at)
		rest := s.read(dy, at[0])
		for i, pixel := range pixels[:3] {
			smaller := s.unequal(pixel, best, zero)
			given := s.like(rest)
			s.choose(smaller, s.copies(zero, len(rest)), rest, given)
			s.write(given, dx, at[i])
			s.choose(smaller, rest, zero, rest)
		}
		s.write(rest, dx, at[3])
	})
}

// copies returns a group that has one register n times, and so must not be written.
func (s isa) copies(v reg.VecVirtual, n int) group {
	g := make(group, n)
	for i := range g {
		g[i] = v
	}
	return g
}

// unequal returns masks of the lanes in which x is not y. It overwrites x.
func (s isa) unequal(x, y group, zero reg.VecVirtual) []reg.Register {
	each(s.xor, y, x, x)
	negated := s.like(x)
	each(VPSUBD, x, zero, negated)
	each(s.or, negated, x, x)
	return s.negative(x)
}

// sumRows emits the sums of columns, each added in the order of the rows.
func (s isa) sumRows() {
	s.function("sumRows", "(rows int, dst, x []float32)")
	dst, x, n, index := base("dst"), base("x"), length("dst"), zeroIndex()
	row := rowBytes("dst")
	s.loop(n, s.lanes/4, indices{index}, func(s step) {
		sums := s.zeros(len(s.masks))
		s.rows(index, row, func(at reg.GPVirtual) { each(VADDPS, s.read(x, at), sums, sums) })
		s.write(sums, dst, index)
	})
	finish()
}

func rowBytes(name string) reg.GPVirtual {
	row := length(name)
	SHLQ(U8(2), row)
	return row
}

// rows emits a loop over rows that are row bytes apart, at the columns from index on.
func (s step) rows(index, row reg.GPVirtual, body func(at reg.GPVirtual)) {
	label := "row"
	if s.masks[0] != nil {
		label = "last_row"
	}
	rows, at := Load(Param("rows"), GP64()).(reg.GPVirtual), GP64()
	MOVQ(index, at)
	Label(label)
	body(at)
	ADDQ(row, at)
	DECQ(rows)
	JNZ(LabelRef(label))
}

// columnMoments emits the sums of the columns of x and of x times y, whose products are exact in float64.
// The number of columns is a multiple of reductionLanes.
func (s isa) columnMoments() {
	s.function("columnMoments", "(rows, columns, row int, x, y []float32, plain, product []float64)")
	x, y, n, index := base("x"), base("y"), Load(Param("columns"), GP64()).(reg.GPVirtual), zeroIndex()
	row := stride("row")
	Label("columns")
	whole := step{s, make([]reg.Register, s.perReduction(4))}
	sums, products := s.zeros(s.perReduction(8)), s.zeros(s.perReduction(8))
	whole.rows(index, row, func(at reg.GPVirtual) {
		v, w := whole.read(x, at), whole.read(y, at)
		for i := range v {
			of, by := s.doubles(v[i]), s.doubles(w[i])
			each(VADDPD, of, sums.lanesOf(i), sums.lanesOf(i))
			each(VFMADD231PD, of, by, products.lanesOf(i))
		}
	})
	s.writeDoubles(sums, base("plain"), index)
	s.writeDoubles(products, base("product"), index)
	ADDQ(U32(4*reductionLanes), index)
	SUBQ(U8(reductionLanes), n)
	JNZ(LabelRef("columns"))
	finish()
}

// writeDoubles stores float64 at the place of the float32 at index.
func (s isa) writeDoubles(g group, to, index reg.GPVirtual) {
	for i, v := range g {
		VMOVUPD(v, Mem{Base: to, Index: index, Scale: 2, Disp: i * s.bytes()})
	}
}

// normalizeColumns emits (x-mean)*inverse, and normalizeColumnsBackward inverse*(v-plain-x*product).
func (s isa) normalizeColumns() {
	s.function("normalizeColumns", "(rows int, x, mean, inverse []float32)")
	x, n, index := base("x"), length("mean"), zeroIndex()
	row := rowBytes("mean")
	s.loop(n, unroll, indices{index}, func(s step) {
		mean, inverse := s.read(base("mean"), index), s.read(base("inverse"), index)
		s.rows(index, row, func(at reg.GPVirtual) {
			v := s.read(x, at)
			each(VSUBPS, mean, v, v)
			each(VMULPS, inverse, v, v)
			s.write(v, x, at)
		})
	})
	finish()

	s.function("normalizeColumnsBackward", "(rows int, dst, v, x, inverse, plain, product []float32)")
	dst, v, x, n, index := base("dst"), base("v"), base("x"), length("plain"), zeroIndex()
	row = rowBytes("plain")
	s.loop(n, unroll, indices{index}, func(s step) {
		inverse, plain, product := s.read(base("inverse"), index), s.read(base("plain"), index), s.read(base("product"), index)
		s.rows(index, row, func(at reg.GPVirtual) {
			d, share := s.read(v, at), s.read(x, at)
			each(VMULPS, product, share, share)
			each(VSUBPS, plain, d, d)
			each(VSUBPS, share, d, d)
			each(VMULPS, inverse, d, d)
			s.write(d, dst, at)
		})
	})
	finish()
}

// rectified multiplies x by a slope: 1 where y is above 0, or a NaN without sign, and alpha elsewhere.
func rectified(s isa, alpha Op, in []group) []group {
	x, y := in[0], in[1]
	less := s.like(y)
	each(VPADDD, s.inRegister(s.constantWord("minus_1_bits", math.MaxUint32)), y, less)
	each(s.or, less, y, y)
	slope := s.like(y)
	s.set(alpha, slope)
	s.choose(s.negative(y), slope, s.constant("one", 1), slope)
	each(VMULPS, slope, x, x)
	return []group{x}
}
