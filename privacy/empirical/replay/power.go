package replay

// Power is the probability that the test of all noise refutes the claim if values independent elements have
// a deviation that is share of the claimed one, and p-values are multiplied by the number of tests. Further
// tests may refute it, too.
func Power(values int, share, falseAlarm float64, tests int) float64 {
	n := float64(values)
	return belowChiSquare(chiSquareQuantile(falseAlarm/float64(tests), n)/(share*share), n)
}

// MostTests is the largest number of tests of observations.
const MostTests = 17
