package kernels

import "fmt"

// CIFGForward runs the cell of a CIFG-LSTM, whose forget gate is 1 - input
// gate (Greff et al., "LSTM: A Search Space Odyssey", 2017), on one row of n
// units, n = len(output). gates holds the pre-activations of input gate,
// candidate and output gate, n each, and receives the activations i, z, o:
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

// CIFGBackward is the gradient of CIFGForward. Given the activations in gates, the
// previous cell, tanhCell and the gradient dOutput of the output, it writes the
// gradient of the pre-activations to dGates (which may be gates), and changes
// dCell from the gradient of the cell that later steps contribute to the gradient
// of the previous cell.
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
