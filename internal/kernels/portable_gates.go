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

// cellGradient carries the gradient of o*tanh(c) to c, where t is tanh(c).
func cellGradient(dOutput, o, t, dCell float32) float32 {
	return ieee.FMA32(float32(dOutput*o), ieee.FMA32(-t, t, 1), dCell)
}

// logisticGradient carries the gradient of s = sigmoid(x) to x.
func logisticGradient(d, s float32) float32 { return float32(d*s) * (1 - s) }
