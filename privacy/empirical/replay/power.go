package replay

// Power returns the probability that the test of all noise refutes the claim, or that the interval
// of all noise ends below part times the claimed deviation; part = 0 leaves out the interval.
// values independent elements have share times the claimed deviation. p-values are multiplied by
// the number of tests, and as many intervals hold together with probability 1 - unsure. Other tests
// and intervals may find more.
func Power(values int, share, falseAlarm float64, tests int, part float64) float64 {
	n := float64(values)
	refuted := chiSquareQuantile(falseAlarm/float64(tests), n)
	below := chiSquareQuantile(unsure/2/float64(tests), n) * part * part
	return belowChiSquare(max(refuted, below)/(share*share), n)
}

// MostTests is the largest number of tests of observations; there are fewer intervals.
const MostTests = 17
