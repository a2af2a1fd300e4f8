package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"coalmine/internal/kernels/constant"
)

// step is one pass of a loop over vectors: over whole registers, or over the
// first lanes of them at the end.
type step struct {
	isa
	masks []reg.Register // nil elements: all lanes
}

// at addresses register v of this step in an array.
func (s step) at(base, index reg.Register, v int) Mem {
	return Mem{Base: base, Index: index, Scale: 1, Disp: v * s.bytes()}
}

func (s step) read(base, index reg.Register) reg.VecVirtual {
	v := s.vector()
	s.load(s.at(base, index, 0), s.masks[0], v)
	return v
}

func (s step) write(v reg.VecVirtual, base, index reg.Register) {
	s.store(v, s.masks[0], s.at(base, index, 0))
}

// loop runs body over n elements, count registers at a time, and then once
// more over the rest. The indices, in bytes, advance together.
func (s isa) loop(n reg.GPVirtual, count int, indices []reg.GPVirtual, body func(step)) {
	width := count * s.lanes
	SUBQ(U8(width), n)
	JLT(LabelRef("rest"))
	Label("whole")
	body(step{s, make([]reg.Register, count)})
	for _, index := range indices {
		ADDQ(Imm(uint64(count*s.bytes())), index)
	}
	SUBQ(U8(width), n)
	JGE(LabelRef("whole"))
	Label("rest")
	ADDQ(U8(width), n)
	JZ(LabelRef("done"))
	body(step{s, s.masks(n, count)})
	Label("done")
}

// finish ends a kernel that has no result.
func finish() {
	VZEROUPPER()
	RET()
}

func zeroIndex() reg.GPVirtual {
	index := GP64()
	XORQ(index, index)
	return index
}

func base(name string) reg.GPVirtual { return Load(Param(name).Base(), GP64()).(reg.GPVirtual) }

func length(name string) reg.GPVirtual { return Load(Param(name).Len(), GP64()).(reg.GPVirtual) }

// elementwise emits the functions of one argument.
func (s isa) elementwise() {
	for _, f := range []struct {
		name string
		of   func(s isa) func(x reg.VecVirtual) reg.VecVirtual
	}{{"exp", isa.exp}, {"log", isa.log}, {"sigmoid", isa.sigmoid}, {"tanh", isa.tanh}} {
		s.function(f.name, "(dst, x []float32)")
		dst, x, n, index := base("dst"), base("x"), length("x"), zeroIndex()
		apply := f.of(s)
		s.loop(n, 1, []reg.GPVirtual{index}, func(s step) {
			s.write(apply(s.read(x, index)), dst, index)
		})
		finish()
	}
}

// expm1Reduced splits e^x into 2^n * (1 + q); it overwrites x.
func (s isa) expm1Reduced(k numbers, x reg.VecVirtual) (q, n reg.VecVirtual) {
	n = s.vector()
	VMOVUPS(k.round, n)
	VFMADD231PS(k.log2E, x, n)
	whole := s.vector()
	VSUBPS(k.round, n, whole)
	VFMADD231PS(k.negLn2High, whole, x)
	VFMADD231PS(k.negLn2Low, whole, x)
	q = s.vector()
	last := len(k.expm1) - 1
	VMOVUPS(k.expm1[last], q)
	for i := last - 1; i >= 0; i-- {
		VFMADD213PS(k.expm1[i], x, q)
	}
	square := s.vector()
	VMULPS(x, x, square)
	VFMADD213PS(x, square, q)
	VPSUBD(k.round, n, n)
	return q, n
}

// powerOfTwo turns integers n into 2^n.
func (s isa) powerOfTwo(k numbers, n reg.VecVirtual) {
	VPSLLD(U8(23), n, n)
	VPADDD(k.one, n, n)
}

// expClamped computes e^x for clamped x, which it overwrites.
func (s isa) expClamped(k numbers, x reg.VecVirtual) reg.VecVirtual {
	q, n := s.expm1Reduced(k, x)
	half := s.vector()
	VPSRAD(U8(1), n, half)
	VPSUBD(half, n, n)
	s.powerOfTwo(k, half)
	s.powerOfTwo(k, n)
	VADDPS(k.one, q, q)
	VMULPS(half, q, q)
	VMULPS(n, q, q)
	return q
}

// atLeast and atMost clamp x; a NaN stays, as the second source of the
// instruction.
func (s isa) atLeast(limit Op, x reg.VecVirtual) { VMAXPS(x, s.inRegister(limit), x) }
func (s isa) atMost(limit Op, x reg.VecVirtual)  { VMINPS(x, s.inRegister(limit), x) }

func (s isa) exp() func(x reg.VecVirtual) reg.VecVirtual {
	k := s.numbers()
	highest := s.constant("exp_highest", constant.ExpHighest)
	return func(x reg.VecVirtual) reg.VecVirtual {
		s.atMost(highest, x)
		s.atLeast(k.expLowest, x)
		return s.expClamped(k, x)
	}
}

func (s isa) sigmoid() func(x reg.VecVirtual) reg.VecVirtual {
	k := s.numbers()
	return func(x reg.VecVirtual) reg.VecVirtual { return s.sigmoidOf(k, x) }
}

// sigmoidOf keeps x.
func (s isa) sigmoidOf(k numbers, x reg.VecVirtual) reg.VecVirtual {
	y := s.vector()
	s.or(k.sign, x, y) // -|x|
	s.atLeast(k.expLowest, y)
	e := s.expClamped(k, y)
	numerator := s.vector()
	s.choose(s.negative(x), e, k.one, numerator)
	VADDPS(k.one, e, e)
	VDIVPS(e, numerator, numerator)
	return numerator
}

func (s isa) tanh() func(x reg.VecVirtual) reg.VecVirtual {
	k := s.tanhNumbers()
	return func(x reg.VecVirtual) reg.VecVirtual { return s.tanhOf(k, x) }
}

// tanhOf keeps x.
func (s isa) tanhOf(k numbers, x reg.VecVirtual) reg.VecVirtual {
	y := s.vector()
	s.or(k.sign, x, y)
	VADDPS(y, y, y)
	s.atLeast(k.tanhLowest, y)
	q, power := s.expm1Reduced(k, y)
	s.powerOfTwo(k, power)
	less1 := s.vector()
	VSUBPS(k.one, power, less1)
	VFMADD213PS(less1, power, q) // q*power + less1: e^y - 1
	denominator, sign := s.vector(), s.vector()
	VADDPS(k.two, q, denominator)
	s.and(k.sign, x, sign)
	s.and(k.magnitude, q, q)
	s.or(sign, q, q)
	VDIVPS(denominator, q, q)
	return q
}

// log returns the logarithm; see the portable version for the method.
func (s isa) log() func(x reg.VecVirtual) reg.VecVirtual {
	c := s.logNumbers()
	return func(x reg.VecVirtual) reg.VecVirtual {
		subnormal := s.compare(less, x, c.smallest)
		y, exponent := s.vector(), s.vector()
		VMULPS(c.scale, x, y)
		s.choose(subnormal, y, x, y)
		s.choose(subnormal, c.lifted, c.zero, exponent)

		bits, whole := s.vector(), s.vector()
		VPSUBD(c.sqrtHalf, y, bits)
		VPSRAD(U8(23), bits, whole)
		VCVTDQ2PS(whole, whole)
		VADDPS(whole, exponent, exponent)
		f := s.vector()
		s.and(c.mantissa, bits, f)
		VPADDD(c.sqrtHalf, f, f)
		VSUBPS(c.one, f, f)
		return s.logSpecial(c, x, s.logReduced(c, f, exponent))
	}
}

// logReduced computes ln(1+f) + exponent*ln 2.
func (s isa) logReduced(c logNumbers, f, exponent reg.VecVirtual) reg.VecVirtual {
	p := s.vector()
	last := len(c.log) - 1
	VMOVUPS(c.log[last], p)
	for i := last - 1; i >= 0; i-- {
		VFMADD213PS(c.log[i], f, p)
	}
	square := s.vector()
	VMULPS(f, f, square)
	VMULPS(f, p, p)
	VMULPS(square, p, p)
	VFMADD231PS(c.ln2Low, exponent, p)
	VFMADD231PS(c.minusHalf, square, p)
	VADDPS(p, f, p)
	VFMADD231PS(c.ln2High, exponent, p)
	return p
}

// logSpecial puts in the results for arguments that are not positive numbers.
func (s isa) logSpecial(c logNumbers, x, result reg.VecVirtual) reg.VecVirtual {
	s.choose(s.compare(equal, x, c.zero), c.minusInf, result, result)
	s.choose(s.compare(less, x, c.zero), c.nan, result, result)
	s.choose(s.compare(notLessOrEqual, x, c.greatest), x, result, result)
	return result
}
