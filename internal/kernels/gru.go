package kernels

import "fmt"

// GRUForward runs the cell of a GRU that applies its reset gate after the
// recurrent product, on one row of n units, n = len(cell). gates holds the
// pre-activations of reset gate, update gate and candidate, n each, of the
// candidate without its recurrent part, which is candidate; gates receives the
// activations r, u, z:
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

// GRUBackward is the gradient of GRUForward. Given the activations in gates and
// the gradient dOutput of the cell as the row's output, it writes the gradient of
// the pre-activations to dGates and the gradient of candidate to dCandidate, and
// changes dCell from the gradient of the cell that later steps contribute to the
// gradient of the previous cell.
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
