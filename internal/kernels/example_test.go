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

// The loss and the gradient of a softmax over five classes, of which the
// second is true, in tiles of three and two.
func ExampleSoftmaxMerge() {
	logits := []float32{0, 0, 0, 0, 0}
	bias := make([]float32, 5)
	tiles := [][]float32{logits[:3], logits[3:]}

	weights, sums := make([]float32, 2), make([]float64, 2)
	for i, tile := range tiles {
		weights[i], sums[i] = kernels.SoftmaxTile(tile)
	}
	loss := kernels.SoftmaxMerge(weights, sums) - 0 // less the true logit
	kernels.CrossEntropyTile(tiles[0], weights[0], 1, 1, bias[:3])
	kernels.CrossEntropyTile(tiles[1], weights[1], 1, -1, bias[3:])
	fmt.Printf("loss %.4f, gradient %.1f\n", loss, logits)
	// Output: loss 1.6094, gradient [0.2 -0.8 0.2 0.2 0.2]
}
