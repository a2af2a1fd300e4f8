package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// cifg emits the forward step of a CIFG-LSTM in two passes, with the operations of
// sigmoid, tanh, blend and mul. A single pass would be a chain of operations too
// long for the processor to overlap with the next one.
func (s isa) cifg() {
	s.cifgGates()
	s.mulTanh()
}

// cifgGates emits the gates: it stores the new memory in cell, the output gate in
// output. It also fetches memory for later steps, three vectors' length of ahead and
// one of later.
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
