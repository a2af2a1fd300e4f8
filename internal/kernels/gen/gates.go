package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The gates of a cell, in the order in which they lie in memory.
const (
	inputGate = 0

	cifgCandidate = 1
	cifgOutput    = 2
	cifgGates     = 3

	lstmForget    = 1
	lstmCandidate = 2
	lstmOutput    = 3
	lstmGates     = 4
)

const (
	forwardSignature  = "(gates, previous, cell, tanhCell, output []float32)"
	backwardSignature = "(gates, previous, tanhCell, dOutput, dCell, dGates []float32)"
)

// gates emits the cells of recurrent networks.
func (s isa) gates() {
	s.forward("cifgForward", cifgGates, cifgCandidate, cifgOutput, isa.cifgCell)
	s.backward("cifgBackward", cifgGates, isa.cifgGradient)
	s.forward("lstmForward", lstmGates, lstmCandidate, lstmOutput, isa.lstmCell)
	s.backward("lstmBackward", lstmGates, isa.lstmGradient)
}

// gateIndices returns the byte offsets of the same unit in every gate, for
// rows of n units. The first serves the other vectors too.
func gateIndices(count int, n reg.GPVirtual) []reg.GPVirtual {
	indices := []reg.GPVirtual{zeroIndex()}
	for i := 1; i < count; i++ {
		next := GP64()
		LEAQ(Mem{Base: indices[i-1], Index: n, Scale: 4}, next)
		indices = append(indices, next)
	}
	return indices
}

// forward emits a cell's step. cell computes the new cell from the activated
// gates and the previous cell, and may overwrite its arguments.
func (s isa) forward(name string, count, candidate, output int, cell func(s isa, gates []reg.VecVirtual, previous reg.VecVirtual) reg.VecVirtual) {
	s.function(name, forwardSignature)
	gates, previous, next := base("gates"), base("previous"), base("cell")
	tanhCell, out, n := base("tanhCell"), base("output"), length("output")
	indices := gateIndices(count, n)
	k := s.tanhNumbers()
	s.loop(n, 1, indices, func(s step) {
		activated := make([]reg.VecVirtual, count)
		for i := range activated {
			if i == candidate {
				activated[i] = s.tanhOf(k, s.read(gates, indices[i]))
			} else {
				activated[i] = s.sigmoidOf(k, s.read(gates, indices[i]))
			}
			s.write(activated[i], gates, indices[i])
		}
		c := cell(s.isa, activated, s.read(previous, indices[0]))
		s.write(c, next, indices[0])
		t := s.tanhOf(k, c)
		s.write(t, tanhCell, indices[0])
		VMULPS(t, activated[output], t)
		s.write(t, out, indices[0])
	})
	finish()
}

// cifgCell is previous + i*(z - previous).
func (s isa) cifgCell(gates []reg.VecVirtual, previous reg.VecVirtual) reg.VecVirtual {
	z := gates[cifgCandidate]
	VSUBPS(previous, z, z)
	VFMADD231PS(z, gates[inputGate], previous)
	return previous
}

// lstmCell is f*previous + i*z.
func (s isa) lstmCell(gates []reg.VecVirtual, previous reg.VecVirtual) reg.VecVirtual {
	z := gates[lstmCandidate]
	VMULPS(z, gates[inputGate], z)
	VFMADD213PS(z, gates[lstmForget], previous)
	return previous
}

// cellState is what the gradient of a cell is computed from.
type cellState struct {
	one      Op
	gates    []reg.VecVirtual
	previous reg.VecVirtual
	tanh     reg.VecVirtual
	dOutput  reg.VecVirtual
	dCell    reg.VecVirtual
}

// backward emits a cell's gradient. The function returns the gradients of the
// gates, and leaves that of the previous cell in dCell.
func (s isa) backward(name string, count int, gradient func(s isa, c cellState) []reg.VecVirtual) {
	s.function(name, backwardSignature)
	gates, previous, tanhCell := base("gates"), base("previous"), base("tanhCell")
	dOutput, dCell, dGates, n := base("dOutput"), base("dCell"), base("dGates"), length("dOutput")
	indices := gateIndices(count, n)
	one := s.constant("one", 1)
	s.loop(n, 1, indices, func(s step) {
		c := cellState{one: s.inRegister(one)}
		for i := range count {
			c.gates = append(c.gates, s.read(gates, indices[i]))
		}
		c.previous, c.tanh = s.read(previous, indices[0]), s.read(tanhCell, indices[0])
		c.dOutput, c.dCell = s.read(dOutput, indices[0]), s.read(dCell, indices[0])
		for i, d := range gradient(s.isa, c) {
			s.write(d, dGates, indices[i])
		}
		s.write(c.dCell, dCell, indices[0])
	})
	finish()
}

// carried turns dCell into the gradient of the cell itself.
func (s isa) carried(c cellState, output reg.VecVirtual) {
	through := s.vector()
	VMULPS(output, c.dOutput, through)
	slope := s.tanhSlope(c.one, c.tanh)
	VFMADD231PS(slope, through, c.dCell)
}

// tanhSlope is 1 - t*t.
func (s isa) tanhSlope(one Op, t reg.VecVirtual) reg.VecVirtual {
	slope := s.vector()
	VMOVUPS(one, slope)
	VFNMADD231PS(t, t, slope)
	return slope
}

// logistic is (d*gate)*(1-gate); it overwrites d.
func (s isa) logistic(one Op, d, gate reg.VecVirtual) reg.VecVirtual {
	rest := s.vector()
	VMULPS(gate, d, d)
	VSUBPS(gate, s.inRegister(one), rest)
	VMULPS(rest, d, d)
	return d
}

// product is a*b in a new register.
func (s isa) product(a, b reg.VecVirtual) reg.VecVirtual {
	p := s.vector()
	VMULPS(b, a, p)
	return p
}

func (s isa) cifgGradient(c cellState) []reg.VecVirtual {
	i, z, o := c.gates[inputGate], c.gates[cifgCandidate], c.gates[cifgOutput]
	s.carried(c, o)
	dOut := s.logistic(c.one, s.product(c.dOutput, c.tanh), o)
	VSUBPS(c.previous, z, c.previous)
	dIn := s.logistic(c.one, s.product(c.dCell, c.previous), i)
	dCandidate := s.product(c.dCell, i)
	VMULPS(s.tanhSlope(c.one, z), dCandidate, dCandidate)
	keep := s.vector()
	VSUBPS(i, s.inRegister(c.one), keep)
	VMULPS(keep, c.dCell, c.dCell)
	return []reg.VecVirtual{dIn, dCandidate, dOut}
}

func (s isa) lstmGradient(c cellState) []reg.VecVirtual {
	i, f, z, o := c.gates[inputGate], c.gates[lstmForget], c.gates[lstmCandidate], c.gates[lstmOutput]
	s.carried(c, o)
	dOut := s.logistic(c.one, s.product(c.dOutput, c.tanh), o)
	dIn := s.logistic(c.one, s.product(c.dCell, z), i)
	dForget := s.logistic(c.one, s.product(c.dCell, c.previous), f)
	dCandidate := s.product(c.dCell, i)
	VMULPS(s.tanhSlope(c.one, z), dCandidate, dCandidate)
	VMULPS(f, c.dCell, c.dCell)
	return []reg.VecVirtual{dIn, dForget, dCandidate, dOut}
}
