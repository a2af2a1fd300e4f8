package kernels

import (
	"fmt"

	"coalmine/internal/kernels/ieee"
)

// CIFGCell is CIFGForward, bit for bit, on pre-activations given as the sum of
// two vectors, input and recurrent; it keeps neither the activations nor tanh of
// the cell. Meanwhile it fetches memory into the cache that will soon be read:
// ahead, which is as long as input, and later, as long as output. If there is
// nothing to fetch, either may be any memory, such as memory in the cache. cell
// may be previous.
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

// cifgGates leaves the output gate in output.
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
