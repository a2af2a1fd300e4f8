package ranking_test

import (
	"fmt"
	"math/rand/v2"

	"coalmine/models/ranking"
)

func ExampleAveragePrecision() {
	ap, err := ranking.AveragePrecision([]float32{0.9, 0.8, 0.7, 0.6}, []bool{true, false, true, false})
	fmt.Printf("%.4f %v\n", ap, err)
	// Output: 0.8333 <nil>
}

// Scores that know nothing rank 2 relevant items of 4 in all orders alike.
func ExampleShuffled() {
	fmt.Printf("%.4f\n", ranking.Shuffled(2, 4))
	// Output: 0.6806
}

// Item 1 belongs to both owners, item 3 to none.
func ExampleOwned() {
	all, err := ranking.Owned([]float32{4, 3, 2, 1}, [][]int{{0}, {0, 1}, {1}, {}}, 2)
	fmt.Printf("%.4f %v\n", all, err)
	// Output: [1.0000 0.5833] <nil>
}

func ExampleInTopK() {
	scores := []float32{0.1, 0.6, 0.3}
	fmt.Println(ranking.InTopK(scores, 1, []int{2}), ranking.InTopK(scores, 2, []int{2}))
	// Output: false true
}

func ExampleInTopKByChance() {
	fmt.Println(ranking.InTopKByChance(1, 1, 4), ranking.InTopKByChance(2, 1, 4))
	// Output: 0.25 0.5
}

func ExampleQuantile() {
	fmt.Println(ranking.Quantile([]float64{1, 2, 4}, 0.5), ranking.Quantile([]float64{1, 2, 4}, 0.75))
	// Output: 2 3
}

// Five users whom an attack finds in all, some or none of their updates.
func ExampleResampling_Interval() {
	values := []float64{1, 0.5, 0.75, 0, 1}
	r := &ranking.Resampling{Stream: rand.New(rand.NewPCG(1, 2)), Groups: []int{len(values)}, Resamples: 10_000}
	interval := r.Interval(0.95, ranking.OfMean(values, 0, 1))
	fmt.Printf("%.2f, %.2f to %.2f\n", ranking.Mean(values), interval.Low, interval.High)
	// Output: 0.65, 0.22 to 0.92
}
