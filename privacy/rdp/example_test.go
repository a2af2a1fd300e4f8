package rdp_test

import (
	"fmt"

	"coalmine/privacy/rdp"
)

// Rounds add up; one conversion at the end gives epsilon and the order that it is found at.
func ExampleCurve_Epsilon() {
	round, err := rdp.Poisson(0.01, 1, rdp.DefaultOrders())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, conversion := range []rdp.Conversion{rdp.Classic, rdp.Improved} {
		epsilon, order := round.Times(1000).Epsilon(1e-5, conversion)
		fmt.Printf("%s: %.3f at order %g\n", conversion, epsilon, order)
	}
	// Output:
	// classic: 2.538 at order 7.9
	// improved: 2.101 at order 7.8
}

// The Gaussian mechanism has the divergence order / (2 sigma^2).
func ExampleGaussian() {
	curve, err := rdp.Gaussian(2, []float64{2, 4, 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(curve.Values())
	// Output: [0.25 0.5 1]
}

// Mechanisms of several kinds compose.
func ExampleSum() {
	orders := rdp.DefaultOrders()
	sampled, err := rdp.Poisson(0.01, 1, orders)
	if err != nil {
		fmt.Println(err)
		return
	}
	whole, err := rdp.Gaussian(10, orders)
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, err := rdp.Sum(sampled.Times(1000), whole.Times(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	epsilon, _ := sum.Epsilon(1e-5, rdp.Improved)
	fmt.Printf("%.3f\n", epsilon)
	// Output: 2.484
}
