package pld_test

import (
	"fmt"

	"coalmine/privacy/pld"
)

// Both bounds on the epsilon of 1,000 rounds in which a member takes part with probability 1%.
func ExampleEpsilon() {
	bounds, err := pld.Epsilon([]pld.Step{{Rate: 0.01, Sigma: 1, Rounds: 1000}}, 1e-5)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f to %.4f\n", bounds.Lower, bounds.Upper)
	// Output: 1.8282 to 1.8282
}

// The delta of the same rounds at an epsilon.
func ExampleDelta() {
	bounds, err := pld.Delta([]pld.Step{{Rate: 0.01, Sigma: 1, Rounds: 1000}}, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2e to %.2e\n", bounds.Lower, bounds.Upper)
	// Output: 2.67e-06 to 2.67e-06
}

// Samples of fixed size, where a member is replaced. Sigma is relative to the distance by which
// that moves the sum.
func ExampleFixedSizeEpsilon() {
	bounds, err := pld.FixedSizeEpsilon([]pld.Step{{Rate: 0.01, Sigma: 1, Rounds: 1000}}, 1e-5)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f to %.4f\n", bounds.Lower, bounds.Upper)
	// Output: 2.1989 to 2.1989
}

// Without sampling both directions have a closed form.
func ExampleGaussianEpsilon() {
	epsilon := pld.GaussianEpsilon(2, 1e-5)
	fmt.Printf("%.4f %.2e\n", epsilon, pld.GaussianDelta(2, epsilon))
	// Output: 1.9931 1.00e-05
}
