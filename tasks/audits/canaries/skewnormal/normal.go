package skewnormal

import "math"

const logSqrtTwoPi = 0.918938533204672741780329736406 // log(2 pi) / 2

// logNormalDensity is the logarithm of the standard normal density.
func logNormalDensity(x float64) float64 { return -x*x/2 - logSqrtTwoPi }

// farTail is the point from which Mills' ratio replaces erfc, which underflows.
const farTail = 10

// logNormalCDF is the logarithm of the standard normal distribution function, to about a
// relative 1e-14 wherever it can be represented.
func logNormalCDF(x float64) float64 {
	switch {
	case x > 0:
		return math.Log1p(-math.Erfc(x/math.Sqrt2) / 2)
	case x > -farTail:
		return math.Log(math.Erfc(-x/math.Sqrt2) / 2)
	default:
		return logNormalDensity(x) + math.Log(millsRatio(-x))
	}
}

// logNormalCDFAndHazard adds to logNormalCDF its derivative: the density over the
// distribution function.
func logNormalCDFAndHazard(x float64) (logCDF, hazard float64) {
	logCDF = logNormalCDF(x)
	return logCDF, math.Exp(logNormalDensity(x) - logCDF)
}

// millsRatio is the upper tail of the standard normal over its density, from farTail on: by
// Laplace's continued fraction 1/(x + 1/(x + 2/(x + 3/...))).
func millsRatio(x float64) float64 {
	const terms = 40 // further terms are below a relative 1e-16 at farTail
	denominator := x
	for k := float64(terms); k >= 1; k-- {
		denominator = x + k/denominator
	}
	return 1 / denominator
}
