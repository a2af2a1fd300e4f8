package numbers

import "math"

// leastNormal is the least number that is not subnormal: 2^-1022.
const leastNormal = 0x1p-1022

// Log is math.Log, correct also for subnormal numbers above 0, for all of which the amd64
// version returns about -709.
func Log(x float64) float64 {
	if !(x > 0 && x < leastNormal) {
		return math.Log(x)
	}
	fraction, exponent := math.Frexp(x)
	return math.Log(fraction) + float64(float64(exponent)*math.Ln2)
}

// LogOneMinusExp returns log(1 - e^x) for x below 0, accurate at both ends (Mächler 2012).
func LogOneMinusExp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}
