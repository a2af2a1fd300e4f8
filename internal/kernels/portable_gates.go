package kernels

import "coalmine/internal/kernels/ieee"

func cifgBackward(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
	n := len(dOutput)
	in, candidate, out := gates[:n], gates[n:2*n], gates[2*n:3*n]
	dIn, dCandidate, dOut := dGates[:n], dGates[n:2*n], dGates[2*n:3*n]
	for j := range dOutput {
		i, z, o, t := in[j], candidate[j], out[j], tanhCell[j]
		d := cellGradient(dOutput[j], o, t, dCell[j])
		dOut[j] = logisticGradient(float32(dOutput[j]*t), o)
		dIn[j] = logisticGradient(float32(d*(z-previous[j])), i)
		dCandidate[j] = float32(d*i) * ieee.FMA32(-z, z, 1)
		dCell[j] = d * (1 - i)
	}
}

func lstmBackward(gates, previous, tanhCell, dOutput, dCell, dGates []float32) {
	n := len(dOutput)
	in, forget, candidate, out := gates[:n], gates[n:2*n], gates[2*n:3*n], gates[3*n:4*n]
	dIn, dForget, dCandidate, dOut := dGates[:n], dGates[n:2*n], dGates[2*n:3*n], dGates[3*n:4*n]
	for j := range dOutput {
		i, f, z, o, t := in[j], forget[j], candidate[j], out[j], tanhCell[j]
		d := cellGradient(dOutput[j], o, t, dCell[j])
		dOut[j] = logisticGradient(float32(dOutput[j]*t), o)
		dIn[j] = logisticGradient(float32(d*z), i)
		dForget[j] = logisticGradient(float32(d*previous[j]), f)
		dCandidate[j] = float32(d*i) * ieee.FMA32(-z, z, 1)
		dCell[j] = d * f
	}
}

// The products of a GRU are converted before they are added, so that no compiler
// fuses the two.

func gruCandidate(dst, r, x []float32) {
	for i, v := range x {
		dst[i] += float32(r[i] * v)
	}
}

func gruCell(dst, u, x, z []float32) {
	for i, v := range x {
		dst[i] = z[i] + float32(u[i]*(v-z[i]))
	}
}

func gruBackward(gates, candidate, previous, dOutput, dCell, dGates, dCandidate []float32) {
	n := len(dOutput)
	reset, update, proposed := gates[:n], gates[n:2*n], gates[2*n:3*n]
	dReset, dUpdate, dProposed := dGates[:n], dGates[n:2*n], dGates[2*n:3*n]
	for j := range dOutput {
		r, u, z, d := reset[j], update[j], proposed[j], dOutput[j]+dCell[j]
		dz := float32(d*(1-u)) * (1 - float32(z*z))
		dUpdate[j] = float32(d*(previous[j]-z)) * float32(u*(1-u))
		dReset[j] = float32(dz*candidate[j]) * float32(r*(1-r))
		dProposed[j] = dz
		dCandidate[j] = dz * r
		dCell[j] = d * u
	}
}

// cellGradient carries the gradient of o*tanh(c) to c, where t is tanh(c).
func cellGradient(dOutput, o, t, dCell float32) float32 {
	return ieee.FMA32(float32(dOutput*o), ieee.FMA32(-t, t, 1), dCell)
}

// logisticGradient carries the gradient of s = sigmoid(x) to x.
func logisticGradient(d, s float32) float32 { return float32(d*s) * (1 - s) }
