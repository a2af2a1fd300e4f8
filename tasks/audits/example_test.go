package audits_test

import (
	"fmt"

	"coalmine/tasks/audits"
)

// Three of ten canaries are memorized.
func ExampleNewShare() {
	share := audits.NewShare(3, 10)
	fmt.Printf("%.1f (%.3f to %.3f)\n", share.Share, share.Low, share.High)
	// Output: 0.3 (0.067 to 0.652)
}

// Are three of ten fewer than nine of ten? Fisher's exact test.
func ExampleDiffer() {
	fmt.Printf("%.4f\n", audits.Differ(audits.NewShare(3, 10), audits.NewShare(9, 10)))
	// Output: 0.0198
}

// Scores of members and of others: the two-sided test of Mann and Whitney.
func ExampleMannWhitney() {
	p, err := audits.MannWhitney([]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8})
	fmt.Printf("%.4f %v\n", p, err)
	// Output: 0.0286 <nil>
}

// The probability that more than 1 of 10 canaries look memorized by chance, 1 in 100 each.
func ExampleBinomialTail() {
	fmt.Printf("%.5f\n", audits.BinomialTail(1, 10, 0.01))
	// Output: 0.00427
}
