package correlated_test

import (
	"fmt"

	"coalmine/privacy/correlated"
)

// Noise that later rounds partly cancel, for users of one round among 64: the sensitivity by which
// the noise is scaled.
func ExampleOptimizeBLT() {
	once := correlated.Participation{Rounds: 64, Separation: 64, Times: 1}
	blt, err := correlated.OptimizeBLT(once, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	squared, err := blt.SquaredSensitivity(once)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d buffers, squared sensitivity %.3f\n", blt.Buffers(64), squared)
	// Output: 2 buffers, squared sensitivity 2.381
}

// A user of one round is in the leaf of the round and in the six nodes above it.
func ExampleTree() {
	squared, err := correlated.Tree{}.SquaredSensitivity(correlated.Participation{Rounds: 64, Separation: 64, Times: 1})
	fmt.Println(squared, err)
	// Output: 7 <nil>
}

// A user who takes part in three rounds, at least 100 apart.
func ExampleTree_WorstSquares() {
	squared, err := correlated.Tree{}.WorstSquares(correlated.Participation{Rounds: 1024, Separation: 100, Times: 3})
	fmt.Println(squared, err)
	// Output: 53 <nil>
}
