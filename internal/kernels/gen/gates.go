package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The gates of a cell, in memory order.
const (
	inputGate = 0

	cifgCandidate = 1
	cifgOutput    = 2
	cifgGates     = 3

	lstmForget    = 1
	lstmCandidate = 2
	lstmOutput    = 3
	lstmGates     = 4

	gruReset     = 0
	gruUpdate    = 1
	gruCandidate = 2
	gruGates     = 3
)

// gates emits the gradients of recurrent cells.
func (s isa) gates() {
	s.backward("cifgBackward", cifgGates, isa.cifgGradient)
	s.backward("lstmBackward", lstmGates, isa.lstmGradient)
	s.gruBackward()
}

// gateIndices returns the byte offsets of the same unit in every gate, for rows
// of n units. The first also serves the other vectors.
func gateIndices(count int, n reg.GPVirtual) indices {
	at := indices{zeroIndex()}
	for i := 1; i < count; i++ {
		next := GP64()
		LEAQ(Mem{Base: at[i-1], Index: n, Scale: 4}, next)
		at = append(at, next)
	}
	return at
}

// cellState is the input of the gradient of a cell.
type cellState struct {
	one                            Op
	gates                          []group
	previous, tanh, dOutput, dCell group
}

// backward emits a cell's gradient. gradient returns the gradients of the
// gates, and changes dCell to the gradient of the previous cell.
func (s isa) backward(name string, count int, gradient func(s isa, c cellState) []group) {
	s.function(name, "(gates, previous, tanhCell, dOutput, dCell, dGates []float32)")
	gates, previous, tanhCell := base("gates"), base("previous"), base("tanhCell")
	dOutput, dCell, dGates, n := base("dOutput"), base("dCell"), base("dGates"), length("dOutput")
	at := gateIndices(count, n)
	one := s.inRegister(s.constant("one", 1))
	s.loop(n, 1, at, func(s step) {
		c := cellState{
			one:      one,
			previous: s.read(previous, at[0]), tanh: s.read(tanhCell, at[0]),
			dOutput: s.read(dOutput, at[0]), dCell: s.read(dCell, at[0]),
		}
		for _, index := range at {
			c.gates = append(c.gates, s.read(gates, index))
		}
		for i, d := range gradient(s.isa, c) {
			s.write(d, dGates, at[i])
		}
		s.write(c.dCell, dCell, at[0])
	})
	finish()
}

// carryThrough adds the gradient of o*tanh(c), the output, to dCell.
func (s isa) carryThrough(c cellState, output group) {
	slope := s.tanhSlope(c.one, c.tanh)
	each(VFMADD231PS, slope, s.product(c.dOutput, output), c.dCell)
}

func (s isa) tanhSlope(one Op, t group) group {
	slope := s.like(t)
	s.set(one, slope)
	each(VFNMADD231PS, t, t, slope)
	return slope
}

// logistic returns (d*gate)*(1-gate); it overwrites d.
func (s isa) logistic(one Op, d, gate group) group {
	each(VMULPS, gate, d, d)
	each(VMULPS, s.rest(one, gate), d, d)
	return d
}

func (s isa) cifgGradient(c cellState) []group {
	i, z, o := c.gates[inputGate], c.gates[cifgCandidate], c.gates[cifgOutput]
	s.carryThrough(c, o)
	dOut := s.logistic(c.one, s.product(c.dOutput, c.tanh), o)
	each(VSUBPS, c.previous, z, c.previous)
	dIn := s.logistic(c.one, s.product(c.dCell, c.previous), i)
	dCandidate := s.product(c.dCell, i)
	each(VMULPS, s.tanhSlope(c.one, z), dCandidate, dCandidate)
	each(VMULPS, s.rest(c.one, i), c.dCell, c.dCell)
	return []group{dIn, dCandidate, dOut}
}

func (s isa) lstmGradient(c cellState) []group {
	i, f, z, o := c.gates[inputGate], c.gates[lstmForget], c.gates[lstmCandidate], c.gates[lstmOutput]
	s.carryThrough(c, o)
	dOut := s.logistic(c.one, s.product(c.dOutput, c.tanh), o)
	dIn := s.logistic(c.one, s.product(c.dCell, z), i)
	dForget := s.logistic(c.one, s.product(c.dCell, c.previous), f)
	dCandidate := s.product(c.dCell, i)
	each(VMULPS, s.tanhSlope(c.one, z), dCandidate, dCandidate)
	each(VMULPS, f, c.dCell, c.dCell)
	return []group{dIn, dForget, dCandidate, dOut}
}

// gruBackward follows the portable version.
func (s isa) gruBackward() {
	s.function("gruBackward", "(gates, candidate, previous, dOutput, dCell, dGates, dCandidate []float32)")
	n := length("dOutput")
	at := gateIndices(gruGates, n)
	one := s.inRegister(s.constant("one", 1))
	s.loop(n, 1, at, func(s step) {
		read := func(name string) group { return s.read(base(name), at[0]) }
		gates := base("gates")
		u, z := s.read(gates, at[gruUpdate]), s.read(gates, at[gruCandidate])
		d, dCell := read("dOutput"), read("dCell")
		each(VADDPS, dCell, d, d)
		dGates := base("dGates")

		difference := read("previous")
		each(VSUBPS, z, difference, difference)
		s.write(s.product(s.product(d, difference), s.slope(one, u)), dGates, at[gruUpdate])

		each(VMULPS, d, u, dCell)
		s.write(dCell, base("dCell"), at[0])

		dz, flat := s.rest(one, u), s.product(z, z)
		each(VMULPS, d, dz, dz)
		dz = s.product(dz, s.rest(one, flat))
		s.write(dz, dGates, at[gruCandidate])

		r := s.read(gates, at[gruReset])
		s.write(s.product(s.product(dz, read("candidate")), s.slope(one, r)), dGates, at[gruReset])
		s.write(s.product(dz, r), base("dCandidate"), at[0])
	})
	finish()
}

// rest returns 1 - x in a new group.
func (s isa) rest(one Op, x group) group {
	rest := s.like(x)
	each(VSUBPS, x, one, rest)
	return rest
}

func (s isa) slope(one Op, x group) group { return s.product(x, s.rest(one, x)) }

// cifg emits the forward step of a CIFG-LSTM in two passes, with the operations of
// sigmoid, tanh, blend and mul. A single pass would be a chain of operations too
// long for the processor to overlap with the next one.
func (s isa) cifg() {
	s.cifgGates()
	s.mulTanh()
}

// cifgGates emits the gates: it stores the new memory in cell, the output gate in output. It also
// fetches memory for later steps, three vectors' length of ahead and one of later.
func (s isa) cifgGates() {
	s.function("cifgGates", "(input, recurrent, previous, cell, output, ahead, later []float32)")
	input, recurrent, previous := base("input"), base("recurrent"), base("previous")
	cell, output, ahead, later := base("cell"), base("output"), base("ahead"), base("later")
	n := length("output")
	at := gateIndices(cifgGates, n)
	k := s.tanhNumbers()
	s.loop(n, 1, at, func(s step) {
		gate := func(i int) group {
			x := s.read(input, at[i])
			each(VADDPS, s.read(recurrent, at[i]), x, x)
			return x
		}
		switches := func() group { return append(gate(inputGate), gate(cifgOutput)...) }
		for _, index := range at {
			s.fetch(ahead, index)
		}
		s.fetch(later, at[0])
		// One exponential for all gates, so that their chains of operations overlap.
		// It uses nearly all registers, so the sums are recomputed after it.
		q, n := s.expm1Reduced(k, append(s.sigmoidExponent(k, switches()), s.tanhExponent(k, gate(cifgCandidate))...))
		gates := s.sigmoidOf(k, switches(), q[:2], n[:2])
		z, c := s.tanhOf(k, gate(cifgCandidate), q[2:], n[2:]), s.read(previous, at[0])
		each(VSUBPS, c, z, z)
		each(VFMADD231PS, z, gates[:1], c)
		s.write(c, cell, at[0])
		s.write(gates[1:], output, at[0])
	})
	finish()
}

// mulTanh emits dst = dst*tanh(x).
func (s isa) mulTanh() {
	s.function("mulTanh", "(dst, x []float32)")
	dst, x, n, index := base("dst"), base("x"), length("x"), zeroIndex()
	tanh := s.tanh()
	s.loop(n, unroll, indices{index}, func(s step) {
		t := tanh(s.read(x, index))
		s.write(s.product(s.read(dst, index), t), dst, index)
	})
	finish()
}

// fetch loads the memory of a step of one register into the cache.
func (s step) fetch(base, index reg.Register) { PREFETCHT0(s.at(base, index, 0)) }
