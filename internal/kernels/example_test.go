package kernels_test

import (
	"fmt"

	"coalmine/internal/kernels"
)

// A product with a transposed operand, and the same with that operand packed.
func ExampleGemm() {
	a := []float32{1, 2, 3, 4}       // 2 x 2
	b := []float32{1, 0, 0, 1, 1, 1} // 3 x 2
	c := make([]float32, 2*3)
	kernels.Gemm(false, true, 2, 3, 2, 1, a, 2, b, 2, 0, c, 3)
	fmt.Println(c)

	var packed kernels.Packed
	kernels.PackB(true, 2, 3, b, 2, &packed)
	kernels.GemmPacked(false, 2, 10, a, 2, &packed, 1, c, 3)
	fmt.Println(c)
	// Output:
	// [1 2 3 3 4 7]
	// [11 22 33 33 44 77]
}

// The log-sum-exp and the probabilities of a softmax over five classes, in tiles
// of three and two.
func ExampleSoftmaxMerge() {
	logits := []float32{0, 0, 0, 0, 0}
	tiles := [][]float32{logits[:3], logits[3:]}

	weights, sums := make([]float32, 2), make([]float64, 2)
	for i, tile := range tiles {
		weights[i], sums[i] = kernels.SoftmaxTile(tile)
	}
	logSum := kernels.SoftmaxMerge(weights, sums)
	for i, tile := range tiles {
		kernels.Scale(weights[i], tile)
	}
	fmt.Printf("log-sum-exp %.4f, probabilities %.1f\n", logSum, logits)
	// Output: log-sum-exp 1.6094, probabilities [0.2 0.2 0.2 0.2 0.2]
}
