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

// Two trainings on the same users cost more than each and less than the sum.
func ExampleCompose() {
	recipe := privacy.Recipe{
		Population: 100_000, Cohort: 1_000, Rounds: 500, NoiseMultiplier: 1, Delta: 1e-6,
		Sampling: privacy.Poisson, Conversion: privacy.Improved,
	}
	once, err := privacy.Compose([]privacy.Recipe{recipe}, 1e-6)
	if err != nil {
		fmt.Println(err)
		return
	}
	twice, err := privacy.Compose([]privacy.Recipe{recipe, recipe}, 1e-6)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(once.EpsilonProved, twice.EpsilonProved)
	// Output: 1.58 2.12
}

// The guarantee for a person whose data are those of two users.
func ExampleGroupOf() {
	group, err := privacy.GroupOf(privacy.Recipe{
		Population: 100_000, Cohort: 1_000, Rounds: 500, NoiseMultiplier: 1, Delta: 1e-6, Sampling: privacy.Poisson,
	}, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(group.Members, group.EpsilonProved)
	// Output: 2 3.34
}

// The noise multiplier that keeps a training within epsilon 2.
func ExampleCalibrateNoise() {
	noise, err := privacy.CalibrateNoise(privacy.Recipe{
		Population: 100_000, Cohort: 1_000, Rounds: 500, Sampling: privacy.Poisson, Conversion: privacy.Improved,
	}, privacy.Budget{Epsilon: 2, Delta: 1e-6})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4g\n", noise)
	// Output: 0.9133
}

// A meter counts the cost while a training runs.
func ExampleMeter() {
	meter, err := privacy.NewMeter(privacy.Recipe{
		Population: 100_000, Cohort: 1_000, NoiseMultiplier: 1, Delta: 1e-6, Sampling: privacy.Poisson,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rounds := range []int{100, 200, 400} {
		report, err := meter.After(rounds)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rounds, report.EpsilonProved)
	}
	// Output:
	// 100 0.954
	// 200 1.15
	// 400 1.45
}

func ExampleClipScale() {
	fmt.Println(privacy.ClipScale(5, 2), privacy.ClipScale(1, 2))
	// Output: 0.4 1
}

// The noise on the mean of a round, and the share of each device if devices add it.
func ExampleMeanNoise() {
	fmt.Println(privacy.MeanNoise(0.5, 2, 100), privacy.NoiseShare(0.5, 2, 100))
	// Output: 0.01 0.1
}
