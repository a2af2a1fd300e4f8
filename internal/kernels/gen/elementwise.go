package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"coalmine/internal/kernels/constant"
)

func (s isa) elementwise() {
	for _, f := range []struct {
		name string
		emit func(s isa) func(x group) group
	}{
		{"exp", isa.exp},
		{"sigmoid", isa.sigmoid},
		{"tanh", isa.tanh},
	} {
		s.function(f.name, "(dst, x []float32)")
		dst, x, n, index := base("dst"), base("x"), length("x"), zeroIndex()
		apply := f.emit(s)
		s.loop(n, unroll, indices{index}, func(s step) {
			s.write(apply(s.read(x, index)), dst, index)
		})
		finish()
	}
}

// expm1Reduced splits e^x into 2^n * (1 + q); it overwrites x. n still includes
// the constant that rounded it.
func (s isa) expm1Reduced(k numbers, x group) (q, n group) {
	n = s.reduceExp(k, x)
	q = s.like(x)
	last := len(k.expm1) - 1
	s.set(k.expm1[last], q)
	for i := last - 1; i >= 0; i-- {
		each(VFMADD213PS, k.expm1[i], x, q)
	}
	square := s.product(x, x)
	each(VFMADD213PS, x, square, q)
	return q, n
}

// reduceExp reduces x to its part beyond n*ln 2.
func (s isa) reduceExp(k numbers, x group) (n group) {
	n, whole := s.like(x), s.like(x)
	round := s.inRegister(k.round)
	s.set(round, n)
	each(VFMADD231PS, s.inRegister(k.log2E), x, n)
	each(VSUBPS, round, n, whole)
	each(VFMADD231PS, s.inRegister(k.negLn2High), whole, x)
	each(VFMADD231PS, s.inRegister(k.negLn2Low), whole, x)
	return n
}

// powerOfTwo converts integers n to 2^n. The shift drops a rounding constant.
func (s isa) powerOfTwo(k numbers, n group) {
	each(VPSLLD, U8(23), n, n)
	each(VPADDD, s.inRegister(k.one), n, n)
}

// expClamped computes e^x for clamped x, which it overwrites.
func (s isa) expClamped(k numbers, x group) group {
	q, n := s.expm1Reduced(k, x)
	return s.expScaled(k, q, n)
}

// expScaled combines the parts from expm1Reduced; it overwrites both.
func (s isa) expScaled(k numbers, q, n group) group {
	half := s.like(q)
	each(VPSUBD, k.round, n, n)
	each(VPSRAD, U8(1), n, half)
	each(VPSUBD, half, n, n)
	s.powerOfTwo(k, half)
	s.powerOfTwo(k, n)
	each(VADDPS, k.one, q, q)
	each(VMULPS, half, q, q)
	each(VMULPS, n, q, q)
	return q
}

// atLeast and atMost clamp x; a NaN stays, as the second source of the
// instruction.
func (s isa) atLeast(limit Op, x group) { each(VMAXPS, x, s.inRegister(limit), x) }
func (s isa) atMost(limit Op, x group)  { each(VMINPS, x, s.inRegister(limit), x) }

func (s isa) exp() func(x group) group {
	k := s.numbers()
	highest := s.constant("exp_highest", constant.ExpHighest)
	return func(x group) group {
		s.atMost(highest, x)
		s.atLeast(k.expLowest, x)
		return s.expClamped(k, x)
	}
}

func (s isa) sigmoid() func(x group) group {
	k := s.numbers()
	return func(x group) group {
		q, n := s.expm1Reduced(k, s.sigmoidExponent(k, x))
		return s.sigmoidOf(k, x, q, n)
	}
}

// sigmoidExponent returns -|x|, clamped.
func (s isa) sigmoidExponent(k numbers, x group) group {
	y := s.like(x)
	each(s.or, k.sign, x, y)
	s.atLeast(k.expLowest, y)
	return y
}

// sigmoidOf returns the sigmoid of x, given the exponential of its exponent in parts.
func (s isa) sigmoidOf(k numbers, x, q, n group) group {
	e := s.expScaled(k, q, n)
	numerator := s.like(x)
	s.choose(s.negative(x), e, k.one, numerator)
	each(VADDPS, k.one, e, e)
	each(VDIVPS, e, numerator, numerator)
	return numerator
}

func (s isa) tanh() func(x group) group {
	k := s.tanhNumbers()
	return func(x group) group {
		u, power := s.expm1Reduced(k, s.tanhExponent(k, x))
		return s.tanhOf(k, x, u, power)
	}
}

// tanhExponent returns -2|x|, clamped.
func (s isa) tanhExponent(k numbers, x group) group {
	y := s.like(x)
	each(s.or, k.sign, x, y)
	each(VADDPS, y, y, y)
	s.atLeast(k.tanhLowest, y)
	return y
}

// tanhOf returns the tanh of x, given the exponential of its exponent in parts.
func (s isa) tanhOf(k numbers, x, u, power group) group {
	s.powerOfTwo(k, power)
	less1 := s.like(x)
	each(VSUBPS, s.inRegister(k.one), power, less1)
	each(VFMADD213PS, less1, power, u) // e^y - 1
	denominator, sign := s.like(x), s.like(x)
	each(VADDPS, k.two, u, denominator)
	each(s.and, k.sign, x, sign)
	each(s.and, k.magnitude, u, u)
	each(s.or, sign, u, u)
	each(VDIVPS, denominator, u, u)
	return u
}
