package kernels

import "math"

// LogSumExp returns the logarithm of the sum of e^x, in nats; -Inf for an empty x.
func LogSumExp(x []float32) float64 { return active.Load().logSumExp(x) }

func (s *set) logSumExp(x []float32) float64 {
	max := s.max(x)
	if math.IsInf(float64(max), -1) && !hasNaN(x) {
		return math.Inf(-1)
	}
	return float64(max) + LogFloat64(s.sumExp(x, max))
}

// SoftmaxTile begins a softmax over a row that is computed in tiles. It replaces the tile x by
// e^(x-max) and returns max, the tile's largest element, and sum, the sum of the new elements. A
// tile with only -Inf becomes 0, with sum 0.
func SoftmaxTile(x []float32) (max float32, sum float64) { return active.Load().softmaxTile(x) }

func (s *set) softmaxTile(x []float32) (max float32, sum float64) {
	max = s.max(x)
	if math.IsInf(float64(max), -1) && !hasNaN(x) {
		clear(x)
		return max, 0
	}
	return max, s.expSum(x, x, max)
}

// SoftmaxMoments begins a softmax like SoftmaxTile, but leaves x and writes e = e^y to dst, where y
// = x-max in float32, and also sets sums to the sums of e*y and of e*y^2, added in float64. All terms
// of a sum have the same sign, so that no digits cancel. For a tile with -Inf these sums are NaN.
func SoftmaxMoments(dst, x []float32, sums *[2]float64) (max float32, sum float64) {
	sameLength("dst", dst, x)
	s := active.Load()
	max = s.max(x)
	sum = s.expSum(dst, x, max)
	s.moments(dst, x, max, sums[:])
	return max, sum
}

// hasNaN is called only for a vector with the largest element -Inf.
func hasNaN(x []float32) bool {
	for _, v := range x {
		if v != v {
			return true
		}
	}
	return false
}

// SoftmaxMerge combines the tiles of one row, given the max and the sum of SoftmaxTile for each. It
// replaces each max by the weight that converts its tile to probabilities, e^(max-M)/S, and returns
// ln S + M, the log-sum-exp of the row in nats. M is the largest max and S the sum of e^(max-M)*sum
// over the tiles, in order. A weight may underflow to 0.
func SoftmaxMerge(maxes []float32, sums []float64) (logSum float64) {
	return active.Load().softmaxMerge(maxes, sums)
}

func (s *set) softmaxMerge(maxes []float32, sums []float64) (logSum float64) {
	largest := s.max(maxes)
	if math.IsInf(float64(largest), -1) {
		clear(maxes)
	} else {
		s.expSum(maxes, maxes, largest)
	}
	total := 0.0
	for i, weight := range maxes {
		total += float64(float64(weight) * sums[i])
	}
	for i := range maxes {
		maxes[i] = float32(float64(maxes[i]) / total)
	}
	return float64(largest) + LogFloat64(total)
}

// LogFloat64 returns the natural logarithm of x >= 0, with an error below 1 ulp. math.Log is not
// used because it rounds differently between architectures. The method is that of FreeBSD's e_log.c;
// every product is converted explicitly to prevent fusing.
func LogFloat64(x float64) float64 {
	switch {
	case x == 0:
		return math.Inf(-1)
	case x != x || math.IsInf(x, 1):
		return x
	}
	f, exponent := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f *= 2
		exponent--
	}
	f--
	k := float64(exponent)
	s := f / (2 + f)
	s2 := float64(s * s)
	tail := 0.0
	for i := len(logCoefficients) - 1; i >= 0; i-- {
		tail = float64((tail + logCoefficients[i]) * s2)
	}
	half := float64(float64(0.5*f) * f)
	correction := float64(s*(half+tail)) + float64(k*ln2Low)
	return float64(k*ln2High) - ((half - correction) - f)
}

const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

var logCoefficients = [...]float64{
	6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
	2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
}
