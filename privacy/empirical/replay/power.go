package replay

// Power is the probability that the test of all noise refutes the claim, or that the interval of all noise ends below
// a part of the claimed deviation, 0 for the test alone. values independent elements have a deviation that is share of
// the claimed one; p-values are multiplied by the number of tests, and as many intervals hold together with 1 - unsure.
// Further tests and intervals may find more.
func Power(values int, share, falseAlarm float64, tests int, part float64) float64 {
	n := float64(values)
	refuted := chiSquareQuantile(falseAlarm/float64(tests), n)
	below := chiSquareQuantile(unsure/2/float64(tests), n) * part * part
	return belowChiSquare(max(refuted, below)/(share*share), n)
}

// MostTests is the largest number of tests of observations, which has more than intervals.
const MostTests = 17
