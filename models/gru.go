package models

import "coalmine/internal/kernels"

// Every product below is converted to float32 before it is added, so that no
// compiler fuses the two into one rounding and the bytes stay the same everywhere.

// gruForward runs one row of a GRU. gates holds the pre-activations of reset
// gate, update gate and candidate, of the candidate without its recurrent part,
// which is candidate; gates receives the activations. memory may be previous.
func gruForward(gates, candidate, previous, memory []float32) {
	n := len(memory)
	reset, update, z := gates[:n], gates[n:2*n], gates[2*n:3*n]
	kernels.Sigmoid(gates[:2*n], gates[:2*n])
	for j, r := range reset {
		z[j] += float32(r * candidate[j])
	}
	kernels.Tanh(z, z)
	for j, u := range update {
		memory[j] = z[j] + float32(u*(previous[j]-z[j]))
	}
}

// gruBackward is the gradient of gruForward, given the activations in gates. It
// takes the gradient dEmitted of what the row emits and dMemory, that of the
// memory by way of later steps, which it turns into that of the previous memory.
// It sets the gradients of the pre-activations in dGates, and that of the
// candidate's recurrent part in dCandidate.
func gruBackward(gates, candidate, previous, dEmitted, dMemory, dGates, dCandidate []float32) {
	n := len(dEmitted)
	reset, update, z := gates[:n], gates[n:2*n], gates[2*n:3*n]
	dReset, dUpdate, dZ := dGates[:n], dGates[n:2*n], dGates[2*n:3*n]
	for j := range dEmitted {
		d, u, r := dEmitted[j]+dMemory[j], update[j], reset[j]
		dUpdate[j] = float32(d*(previous[j]-z[j])) * float32(u*(1-u))
		dZ[j] = float32(d*(1-u)) * (1 - float32(z[j]*z[j]))
		dReset[j] = float32(dZ[j]*candidate[j]) * float32(r*(1-r))
		dCandidate[j] = dZ[j] * r
		dMemory[j] = d * u
	}
}
