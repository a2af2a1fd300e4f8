package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reductionLanes is the width of every reduction, for registers of any width: element i belongs to lane
// i mod reductionLanes, each lane adds its elements in order, and the lanes are combined by halves.
const reductionLanes = 16

// reductions emits the kernels that reduce vectors to one number.
func (s isa) reductions() {
	s.max()
	s.expSum("expSum", "(dst, x []float32, max float32) float64", true)
	s.expSum("sumExp", "(x []float32, max float32) float64", false)
	s.dot()
	s.moments()
}

// perReduction returns the number of registers that the lanes of a reduction
// fill with elements of the given size in bytes.
func (s isa) perReduction(bytes int) int { return reductionLanes * bytes / s.bytes() }

func (s isa) max() {
	s.function("max", "(x []float32) float32")
	x, n, index := base("x"), length("x"), zeroIndex()
	lowest := s.constantWord("minus_inf", math.Float32bits(float32(math.Inf(-1))))
	acc := s.group(s.perReduction(4))
	s.set(lowest, acc)
	s.loop(n, unroll, indices{index}, func(s step) {
		for i, v := range s.read(x, index) {
			s.keep(s.masks[i], lowest, v)
			a := acc[i%len(acc)]
			VMAXPS(a, v, a)
		}
	})
	result := s.combine(acc, VMAXPS, permuteSingles)
	VZEROUPPER()
	VMOVSS(result, address(ReturnIndex(0)))
	RET()
}

// expSum emits the sum of e^(x-max), and stores the terms if stored.
func (s isa) expSum(name, signature string, stored bool) {
	s.function(name, signature)
	x, n, index := base("x"), length("x"), zeroIndex()
	dst := x
	if stored {
		dst = base("dst")
	}
	max := s.splat("max")
	exp, zero := s.exp(), s.constant("zero", 0)
	acc := s.zeros(s.perReduction(8))
	s.loop(n, unroll, indices{index}, func(s step) {
		v := s.read(x, index)
		each(VSUBPS, max, v, v)
		e := exp(v)
		if stored {
			s.write(e, dst, index)
		}
		for i, v := range e {
			s.keep(s.masks[i], zero, v)
			lanes := s.doubles(v)
			into := acc.lanesOf(i)
			VADDPD(lanes[0], into[0], into[0])
			VADDPD(lanes[1], into[1], into[1])
		}
	})
	s.returnSum(acc)
}

// lanesOf returns the two registers of float64 lanes that register i of a step adds to.
func (g group) lanesOf(i int) group {
	first := 2 * i % len(g)
	return g[first : first+2]
}

// doubles converts the lower and the upper lanes of v to float64.
func (s isa) doubles(v reg.VecVirtual) group {
	d := s.group(2)
	VCVTPS2PD(s.lowerHalf(v), d[0])
	VCVTPS2PD(s.upperHalf(v), d[1])
	return d
}

// dot adds products that are exact in float64.
func (s isa) dot() {
	s.function("dot", "(x, y []float32) float64")
	x, y, n, index := base("x"), base("y"), length("x"), zeroIndex()
	acc := s.zeros(s.perReduction(8))
	s.loop(n, unroll, indices{index}, func(s step) {
		v, w := s.read(x, index), s.read(y, index)
		for i := range v {
			each(VFMADD231PD, s.doubles(v[i]), s.doubles(w[i]), acc.lanesOf(i))
		}
	})
	s.returnSum(acc)
}

// moments stores the sums of e*y and of e*y^2 to sums, where y = x-max. The products e*y are exact
// in float64.
func (s isa) moments() {
	s.function("moments", "(e, x []float32, max float32, sums []float64)")
	e, x, n, index := base("e"), base("x"), length("e"), zeroIndex()
	max := s.splat("max")
	first, second := s.zeros(s.perReduction(8)), s.zeros(s.perReduction(8))
	s.loop(n, unroll, indices{index}, func(s step) {
		v, w := s.read(e, index), s.read(x, index)
		each(VSUBPS, max, w, w)
		for i := range v {
			for half, of := range []func(reg.VecVirtual) reg.Register{s.lowerHalf, func(v reg.VecVirtual) reg.Register { return s.upperHalf(v) }} {
				p, y := s.vector(), s.vector()
				VCVTPS2PD(of(v[i]), p)
				VCVTPS2PD(of(w[i]), y)
				a, b := first.lanesOf(i)[half], second.lanesOf(i)[half]
				VFMADD231PD(p, y, a)
				VMULPD(y, p, p)
				VFMADD231PD(p, y, b)
			}
		}
	})
	sums := base("sums")
	for i, acc := range []group{first, second} {
		VMOVSD(s.combine(acc, VADDPD, permuteDoubles), Mem{Base: sums, Disp: 8 * i})
	}
	finish()
}

func (s isa) returnSum(acc group) {
	result := s.combine(acc, VADDPD, permuteDoubles)
	VZEROUPPER()
	VMOVSD(result, address(ReturnIndex(0)))
	RET()
}

// combine folds registers, then the halves of the last one, until one lane is left: lane i is
// always combined with lane i + half. The lower lane is the second source.
func (s isa) combine(acc group, fold func(ops ...Op), permute []func(x, to reg.Register)) reg.Register {
	for half := len(acc) / 2; half > 0; half /= 2 {
		for i := range half {
			fold(acc[i], acc[i+half], acc[i])
		}
	}
	last := acc[0]
	if s.wide() {
		fold(last.AsY(), s.upperHalf(last), last.AsY())
	}
	x := last.AsX()
	fold(x, avx2.upperHalf(last.AsY()), x)
	for _, p := range permute {
		upper := XMM()
		p(x, upper)
		fold(x, upper, x)
	}
	return x
}

// The permutations move the upper half of the remaining lanes down.
var (
	permuteSingles = []func(x, to reg.Register){
		func(x, to reg.Register) { VPERMILPS(U8(0b1110), x, to) },
		func(x, to reg.Register) { VPERMILPS(U8(0b01), x, to) },
	}
	permuteDoubles = []func(x, to reg.Register){
		func(x, to reg.Register) { VPERMILPD(U8(0b1), x, to) },
	}
)

// group is one value of a vector function: registers that hold consecutive
// elements. Each instruction is emitted for all registers before the next
// begins, so that their chains of dependent instructions overlap.
type group []reg.VecVirtual

// unroll is the usual size of a group.
const unroll = 2

func (s isa) group(n int) group {
	g := make(group, n)
	for i := range g {
		g[i] = s.vector()
	}
	return g
}

// like returns a new group of the same size.
func (s isa) like(g group) group { return s.group(len(g)) }

func (s isa) zeros(n int) group {
	g := s.group(n)
	each(s.xor, g, g, g)
	return g
}

// each emits an instruction for every register of the groups among its
// operands; the other operands are the same for all.
func each(instruction func(ops ...Op), operands ...any) {
	for i := range groupSize(operands) {
		ops := make([]Op, len(operands))
		for j, o := range operands {
			if g, ok := o.(group); ok {
				ops[j] = g[i]
			} else {
				ops[j] = o.(Op)
			}
		}
		instruction(ops...)
	}
}

func groupSize(operands []any) int {
	for _, o := range operands {
		if g, ok := o.(group); ok {
			return len(g)
		}
	}
	panic("no group among the operands")
}

// set copies an operand to every register of a group.
func (s isa) set(from Op, to group) { each(VMOVUPS, from, to) }

// product returns x*y in a new group.
func (s isa) product(x, y group) group {
	p := s.like(x)
	each(VMULPS, y, x, p)
	return p
}
