package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"coalmine/internal/kernels/constant"
)

// series returns a polynomial in the square of an argument that is a power of two
// times the argument of its coefficients, which scales them exactly.
func (s isa) series(name string, coefficients []float32, argument, result float64) []Op {
	operands := make([]Op, len(coefficients))
	for i, c := range coefficients {
		operands[i] = s.constant(fmt.Sprintf("rough_%s_%d", name, i), float32(float64(c)*result*math.Pow(argument, 2*float64(i))))
	}
	return operands
}

func (s isa) evaluate(series []Op, square group) group {
	p := s.like(square)
	last := len(series) - 1
	s.set(series[last], p)
	for i := last - 1; i >= 0; i-- {
		each(VFMADD213PS, series[i], square, p)
	}
	return p
}

// roughGate returns a function that returns tanh of x times the argument as numerator and denominator.
func (s isa) roughGate(name string, argument float64) func(x group) (numerator, denominator group) {
	over := s.series(name+"_numerator", constant.RoughNumerator[:], argument, argument)
	under := s.series(name+"_denominator", constant.RoughDenominator[:], argument, 1)
	lowest := s.constant(name+"_rough_lowest", float32(-constant.RoughLimit/argument))
	highest := s.constant(name+"_rough_highest", float32(constant.RoughLimit/argument))
	return func(x group) (numerator, denominator group) {
		s.atMost(highest, x)
		s.atLeast(lowest, x)
		square := s.product(x, x)
		numerator = s.evaluate(over, square)
		each(VMULPS, x, numerator, numerator)
		return numerator, s.evaluate(under, square)
	}
}

// cifgRoughDot follows the portable version. It also fetches memory for later
// steps, three vectors' length of ahead and one of later.
func (s isa) cifgRoughDot() {
	s.function("cifgRoughDot", "(input, recurrent, previous, x, y, ahead, later []float32) float32")
	input, recurrent, previous := base("input"), base("recurrent"), base("previous")
	x, y, ahead, later := base("x"), base("y"), base("ahead"), base("later")
	n := length("x")
	at := gateIndices(cifgGates, n)
	sigmoid, tanh := s.roughGate("sigmoid", 0.5), s.roughGate("tanh", 1)
	one := s.constant("one", 1)
	memoryTanh := s.series("memory", constant.RoughTanh[:], 0.5, 0.25)
	sum := s.zeros(s.perReduction(4))
	s.loop(n, len(sum), at, func(s step) {
		for _, index := range at {
			s.fetch(ahead, index)
		}
		s.fetch(later, at[0])
		gate := func(i int) group {
			v := s.read(input, at[i])
			each(VADDPS, s.read(recurrent, at[i]), v, v)
			return v
		}
		memory, under := s.roughMemory(sigmoid, tanh, gate, s.read(previous, at[0]))
		out, outUnder := sigmoid(gate(cifgOutput))
		each(VADDPS, outUnder, out, out)
		share := s.product(under, outUnder)
		each(VDIVPS, share, s.inRegister(one), share)
		each(VMULPS, outUnder, memory, memory)
		each(VMULPS, share, memory, memory)
		each(VMULPS, share, under, under)
		each(VMULPS, under, out, out)
		factor := s.evaluate(memoryTanh, s.product(memory, memory))
		each(VMULPS, out, memory, memory)
		each(VMULPS, factor, memory, memory)
		difference := s.read(x, at[0])
		each(VSUBPS, s.read(y, at[0]), difference, difference)
		each(VFMADD231PS, difference, memory, sum)
	})
	total := s.like(sum) // in registers that the loop's constants no longer use
	each(VMOVUPS, sum, total)
	result := s.combine(total, VADDPS, permuteSingles)
	VZEROUPPER()
	VMOVSS(result, address(ReturnIndex(0)))
	RET()
}

// roughMemory returns twice the new memory as numerator and denominator; it overwrites previous.
func (s isa) roughMemory(sigmoid, tanh func(group) (group, group), gate func(int) group, previous group) (numerator, denominator group) {
	in, inUnder := sigmoid(gate(inputGate))
	rest := s.like(in)
	each(VSUBPS, in, inUnder, rest)
	each(VADDPS, inUnder, in, in)
	each(VMULPS, rest, previous, previous)
	candidate, candidateUnder := tanh(gate(cifgCandidate))
	each(VMULPS, in, candidate, candidate)
	each(VFMADD213PS, candidate, candidateUnder, previous)
	each(VMULPS, inUnder, candidateUnder, candidateUnder)
	return previous, candidateUnder
}
