package kernels

import (
	"fmt"

	"coalmine/internal/kernels/ieee"
)

// CIFGForward runs the cell of a CIFG-LSTM, whose forget gate is 1 - input gate (Greff et al., "LSTM: A
// Search Space Odyssey", 2017), on one row of n units, n = len(output). gates holds the pre-activations
// of input gate, candidate and output gate, n each, and receives the activations i, z, o:
//
//	i = sigmoid(gates[:n]);  z = tanh(gates[n:2n]);  o = sigmoid(gates[2n:])
//	cell = previous + i*(z - previous);  tanhCell = tanh(cell);  output = o*tanhCell
//
// cell may be previous.
func CIFGForward(gates, previous, cell, tanhCell, output []float32) {
	checkForward("CIFGForward", 3, gates, previous, cell, tanhCell, output)
	active.Load().cifgForward(gates, previous, cell, tanhCell, output)
}

func (s *set) cifgForward(gates, previous, cell, tanhCell, output []float32) {
	n := len(output)
	in, candidate, out := gates[:n], gates[n:2*n], gates[2*n:]
	s.sigmoid(in, in)
	s.tanh(candidate, candidate)
	s.sigmoid(out, out)
	s.blend(cell, in, candidate, previous)
	s.tanh(tanhCell, cell)
	s.mul(output, out, tanhCell)
}

// CIFGBackward is the gradient of CIFGForward. Given the activations in gates, the previous cell,
// tanhCell and the gradient dOutput of the output, it writes the gradient of the pre-activations to
// dGates (which may be gates), and changes dCell from the gradient of the cell that later steps
// contribute to the gradient of the previous cell.
func CIFGBackward(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
	checkBackward("CIFGBackward", 3, gates, previous, tanhCell, dOutput, dCell, dGates)
	active.Load().cifgBackward(gates, previous, tanhCell, dOutput, dCell, dGates)
}

// LSTMForward is CIFGForward for the plain LSTM: gates holds input gate,
// forget gate, candidate and output gate, in this order.
//
//	cell = f*previous + i*z;  tanhCell = tanh(cell);  output = o*tanhCell
func LSTMForward(gates, previous, cell, tanhCell, output []float32) {
	checkForward("LSTMForward", 4, gates, previous, cell, tanhCell, output)
	active.Load().lstmForward(gates, previous, cell, tanhCell, output)
}

func (s *set) lstmForward(gates, previous, cell, tanhCell, output []float32) {
	n := len(output)
	in, forget, candidate, out := gates[:n], gates[n:2*n], gates[2*n:3*n], gates[3*n:]
	s.sigmoid(gates[:2*n], gates[:2*n])
	s.tanh(candidate, candidate)
	s.sigmoid(out, out)
	s.mulAdd(cell, forget, previous, in, candidate)
	s.tanh(tanhCell, cell)
	s.mul(output, out, tanhCell)
}

// LSTMBackward is the gradient of LSTMForward, with the arguments of CIFGBackward.
func LSTMBackward(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
	checkBackward("LSTMBackward", 4, gates, previous, tanhCell, dOutput, dCell, dGates)
	active.Load().lstmBackward(gates, previous, tanhCell, dOutput, dCell, dGates)
}

func checkForward(function string, gateCount int, gates, previous, cell, tanhCell, output []float32) {
	n := len(output)
	if len(gates) != gateCount*n || len(previous) != n || len(cell) != n || len(tanhCell) != n {
		panic(fmt.Sprintf("kernels: %s on %d units: gates, previous, cell, tanhCell have %d, %d, %d, %d elements; want %d, then %d each",
			function, n, len(gates), len(previous), len(cell), len(tanhCell), gateCount*n, n))
	}
}

func checkBackward(function string, gateCount int, gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
	n := len(dOutput)
	if len(gates) != gateCount*n || len(dGates) != gateCount*n || len(previous) != n || len(tanhCell) != n || len(dCell) != n {
		panic(fmt.Sprintf("kernels: %s on %d units: gates, dGates, previous, tanhCell, dCell have %d, %d, %d, %d, %d elements; want %d twice, then %d each",
			function, n, len(gates), len(dGates), len(previous), len(tanhCell), len(dCell), gateCount*n, n))
	}
}

// CIFGCell is CIFGForward, bit for bit, on pre-activations given as the sum of two vectors, input and
// recurrent; it keeps neither the activations nor tanh of the cell. Meanwhile it fetches memory into the
// cache that will soon be read: ahead, which is as long as input, and later, as long as output. If there
// is nothing to fetch, either may be any memory, such as memory in the cache. cell may be previous.
func CIFGCell(input, recurrent, previous, cell, output, ahead, later []float32) {
	n := len(output)
	if len(input) != 3*n || len(recurrent) != 3*n || len(ahead) != 3*n || len(previous) != n || len(cell) != n || len(later) != n {
		panic(fmt.Sprintf("kernels: CIFGCell on %d units: input, recurrent, ahead, previous, cell, later have %d, %d, %d, %d, %d, %d elements; want %d three times, then %d each",
			n, len(input), len(recurrent), len(ahead), len(previous), len(cell), len(later), 3*n, n))
	}
	active.Load().cifgCell(input, recurrent, previous, cell, output, ahead, later)
}

func (s *set) cifgCell(input, recurrent, previous, cell, output, ahead, later []float32) {
	s.cifgGates(input, recurrent, previous, cell, output, ahead, later)
	s.mulTanh(output, cell)
}

func cifgGates(input, recurrent, previous, cell, output, _, _ []float32) {
	n := len(output)
	gate := func(i, j int) float32 { return input[i*n+j] + recurrent[i*n+j] }
	for j, c := range previous {
		i, z := sigmoid(gate(0, j)), tanh(gate(1, j))
		cell[j], output[j] = ieee.FMA32(i, z-c, c), sigmoid(gate(2, j))
	}
}

func mulTanh(dst, x []float32) {
	for i, v := range x {
		dst[i] *= tanh(v)
	}
}

// GRUForward runs the cell of a GRU that applies its reset gate after the recurrent product, on one row
// of n units, n = len(cell). gates holds the pre-activations of reset gate, update gate and candidate, n
// each, of the candidate without its recurrent part, which is candidate; gates receives the activations
// r, u, z:
//
//	r = sigmoid(gates[:n]);  u = sigmoid(gates[n:2n]);  z = tanh(gates[2n:] + r*candidate)
//	cell = z + u*(previous - z)
//
// Every product, sum and difference is rounded. cell may be previous.
func GRUForward(gates, candidate, previous, cell []float32) {
	checkGRU("GRUForward", cell, gates, candidate, previous)
	active.Load().gruForward(gates, candidate, previous, cell)
}

func (s *set) gruForward(gates, candidate, previous, cell []float32) {
	n := len(cell)
	reset, update, z := gates[:n], gates[n:2*n], gates[2*n:]
	s.sigmoid(gates[:2*n], gates[:2*n])
	s.gruCandidate(z, reset, candidate)
	s.tanh(z, z)
	s.gruCell(cell, update, previous, z)
}

// GRUBackward is the gradient of GRUForward. Given the activations in gates and the gradient dOutput of
// the cell as the row's output, it writes the gradient of the pre-activations to dGates and the gradient
// of candidate to dCandidate, and changes dCell from the gradient of the cell that later steps
// contribute to the gradient of the previous cell.
func GRUBackward(gates, candidate, previous, dOutput, dCell, dGates, dCandidate []float32) {
	checkGRU("GRUBackward", dOutput, gates, candidate, previous)
	checkGRU("GRUBackward", dCell, dGates, dCandidate, dOutput)
	active.Load().gruBackward(gates, candidate, previous, dOutput, dCell, dGates, dCandidate)
}

// checkGRU panics unless gates has three elements for each unit, the others one.
func checkGRU(function string, units, gates, candidate, other []float32) {
	n := len(units)
	if len(gates) != 3*n || len(candidate) != n || len(other) != n {
		panic(fmt.Sprintf("kernels: %s on %d units: gates, candidate, and another vector have %d, %d, %d elements; want %d, then %d each",
			function, n, len(gates), len(candidate), len(other), 3*n, n))
	}
}
