package numbers

import "math"

// minNormal is the smallest positive normal float64: 2^-1022.
const minNormal = 0x1p-1022

// Log is math.Log, also correct for positive subnormal numbers, for which the amd64
// version always returns about -709.
func Log(x float64) float64 {
	if !(x > 0 && x < minNormal) {
		return math.Log(x)
	}
	fraction, exponent := math.Frexp(x)
	return math.Log(fraction) + float64(float64(exponent)*math.Ln2)
}

// LogOneMinusExp returns log(1 - e^x) for x below 0, accurate near 0 and -Inf (Mächler 2012).
func LogOneMinusExp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}
