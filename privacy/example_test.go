package privacy_test

import (
	"fmt"

	"coalmine/privacy"
)

// Ten epochs of DP-FedAvg as in Thakkar et al. 2020, which prints 5.6.
func ExampleAccount() {
	report, err := privacy.Account(privacy.Recipe{
		Population: 392_000, Cohort: 5_000, Rounds: 784, NoiseMultiplier: 1, Delta: 1e-7,
		Sampling: privacy.FixedSize, Conversion: privacy.Classic, Unit: "balanced user",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("papers' convention:", report.Epsilon, "at order", report.Order)
	fmt.Println("proved:", report.EpsilonProved, "for", report.Neighbouring)
	// Output:
	// papers' convention: 5.62 at order 6
	// proved: 20.9 for replace-one
}

// How many rounds may run before epsilon passes 8, if cohorts are Poisson
// samples?
func ExampleCalibrateRounds() {
	rounds, err := privacy.CalibrateRounds(privacy.Recipe{
		Population: 392_000, Cohort: 5_000, NoiseMultiplier: 1, Delta: 1e-7,
		Sampling: privacy.Poisson, Conversion: privacy.Improved,
	}, privacy.Budget{Epsilon: 8, Delta: 1e-7})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rounds)
	// Output: 6683
}
