package empirical_test

import (
	"fmt"

	"coalmine/privacy/empirical"
)

// Canaries whose statistic is distributed as N(0, 1) if they took no part, and as N(1, 1) if they
// did: the Gaussian mechanism with noise 1.
func ExampleEpsilon() {
	epsilon, err := empirical.Epsilon(empirical.Normal{Mean: 1, Deviation: 1}, empirical.Normal{Mean: 0, Deviation: 1}, 1e-5)
	fmt.Printf("%.4f %v\n", epsilon, err)
	// Output: 4.3772 <nil>
}

// The cosine of a direction with an independent update of 10,000 parameters.
func ExampleNullNormal() {
	fmt.Println(empirical.NullNormal(10_000))
	// Output: {0 0.01}
}
