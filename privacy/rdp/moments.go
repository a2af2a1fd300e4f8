package rdp

import "math"

// logCentralMoments returns log B(2j) at index j, for j up to ceil(top/2), where
//
//	B(l) = sum over k of (-1)^(l-k) C(l,k) exp(k(k-1)u^2/2).
//
// B(l) is the l-th moment of p/q - 1 under q, for unit normal densities p and q whose means lie u
// apart (Wang et al. 2019, section 3.2). If the sum would cancel, the moment is integrated instead:
// for even l the integrand is nonnegative.
func logCentralMoments(u float64, top int) []float64 {
	moments := make([]float64, (top+1)/2+1) // B(0) is 1
	direct := 1
	for direct < len(moments) && !leadingTermDominates(u*u, 2*direct) {
		direct++
	}
	integrateMoments(moments[:direct], u)
	for j := direct; j < len(moments); j++ {
		moments[j] = logAlternatingSum(u*u, 2*j)
	}
	return moments
}

// leadingTermDominates reports whether the term k = l of B(l) is at least four times the next, and
// thus more than twice the sum of all other terms. If it holds for one l, it holds for every larger
// l.
func leadingTermDominates(u2 float64, l int) bool {
	return float64(l-1)*u2 > math.Log(float64(4*l))
}

// logAlternatingSum returns log B(l) from its definition.
func logAlternatingSum(u2 float64, l int) float64 {
	leading := float64(l) * float64(l-1) * u2 / 2
	logChoose := newLogBinomials(l)
	sum, sign := 0.0, 1.0
	for k := l; k >= 0; k-- {
		n := float64(k)
		term := math.Exp(logChoose.at(k) + n*(n-1)*u2/2 - leading)
		sum += sign * term
		sign = -sign
		if term < 1e-18 {
			break
		}
	}
	return leading + math.Log(sum)
}

// integrateMoments fills moments[j] with log B(2j) by the trapezoidal rule on
// the whole line. The integrand is a sum of unit normal densities, and its
// Fourier transform has fallen below double precision beyond 2 sqrt(l) + 14, so the rule with that
// many steps in 2 pi is exact to double precision.
func integrateMoments(moments []float64, u float64) {
	if len(moments) <= 1 {
		return
	}
	l := float64(2 * (len(moments) - 1))
	step := 2 * math.Pi / (2*math.Sqrt(l) + 14)
	low := -(math.Sqrt(l) + tail)
	high := math.Max(math.Sqrt(l), l*u) + tail
	n := int((high-low)/step) + 1
	logDensity, logRatio := make([]float64, n), make([]float64, n)
	for i := range n {
		x := low + float64(i)*step
		logDensity[i] = -x * x / 2
		logRatio[i] = math.Log(math.Abs(math.Expm1(u*x - u*u/2)))
	}
	for j := 1; j < len(moments); j++ {
		moments[j] = logMoment(logDensity, logRatio, float64(2*j)) + math.Log(step) - logSqrt2Pi
	}
}

// logMoment returns log sum exp(logDensity + l logRatio).
func logMoment(logDensity, logRatio []float64, l float64) float64 {
	peak := math.Inf(-1)
	for i, d := range logDensity {
		peak = math.Max(peak, d+l*logRatio[i])
	}
	sum := 0.0
	for i, d := range logDensity {
		if t := d + l*logRatio[i] - peak; t > -50 {
			sum += math.Exp(t)
		}
	}
	return peak + math.Log(sum)
}
