package empirical_test

import (
	"fmt"

	"coalmine/privacy/empirical"
)

// One training with 100 canaries, of which coins included every second. The 40 highest scores are
// guessed to be in, the 40 lowest to be out.
func ExampleLowerBound() {
	included, scores := make([]bool, 100), make([]float64, 100)
	for i := range included {
		included[i] = i%2 == 0
		scores[i] = float64(i % 10)
		if included[i] {
			scores[i] += 5
		}
	}
	outcome, err := empirical.Guess(included, scores, 40, 40)
	if err != nil {
		fmt.Println(err)
		return
	}
	bound, err := empirical.LowerBound(outcome, 1e-5, 0.95)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d right: epsilon at least %.2f, of %.2f at most\n", outcome.Correct, outcome.Guesses, bound.Epsilon, bound.Largest)
	// Output: 60 of 80 right: epsilon at least 0.65, of 3.26 at most
}

func ExampleAnswers() {
	answers, err := empirical.Answers([]float64{0.9, 0.1, 0.5, 0.7}, 1, 1)
	fmt.Printf("%q %v\n", answers, err)
	// Output: ["in" "out" "abstained" "abstained"] <nil>
}

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
