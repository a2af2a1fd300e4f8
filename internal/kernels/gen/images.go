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
}

// square holds the offsets of the four pixels of a square, and its number of channels.
type square struct {
	at       indices
	channels reg.GPVirtual
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

// copies is a group of n times the same register, to be read only.
func (s isa) copies(v reg.VecVirtual, n int) group {
	g := make(group, n)
	for i := range g {
		g[i] = v
	}
	return g
}

// unequal returns masks of the lanes in which x, which it overwrites, is not y.
func (s isa) unequal(x, y group, zero reg.VecVirtual) []reg.Register {
	each(s.xor, y, x, x)
	negated := s.like(x)
	each(VPSUBD, x, zero, negated)
	each(s.or, negated, x, x)
	return s.negative(x)
}

// sumRows emits the sums of columns, each a chain in the order of the rows.
func (s isa) sumRows() {
	s.function("sumRows", "(rows int, dst, x []float32)")
	dst, x, n, index := base("dst"), base("x"), length("dst"), zeroIndex()
	row := stride4(length("dst"))
	rows, at := GP64(), GP64()
	labels := []string{"row", "last_row"}
	s.loop(n, s.lanes/4, indices{index}, func(s step) {
		label := labels[0]
		labels = labels[1:]
		sums := s.zeros(len(s.masks))
		MOVQ(x, at)
		Load(Param("rows"), rows)
		Label(label)
		each(VADDPS, s.read(at, index), sums, sums)
		ADDQ(row, at)
		DECQ(rows)
		JNZ(LabelRef(label))
		s.write(sums, dst, index)
	})
	finish()
}

func stride4(v reg.GPVirtual) reg.GPVirtual {
	SHLQ(U8(2), v)
	return v
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
