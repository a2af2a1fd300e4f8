package updates

import (
	"math"

	"coalmine/internal/seeds"
)

// nonZeros is in how many places of its projection an element stands. Four are as good as
// a dense projection where no single element has most of a vector's length (Kane and Nelson
// 2014, "Sparser Johnson-Lindenstrauss Transforms", section 1), and cost as much as drawing
// two numbers.
const nonZeros = 4

// Project writes the seeded random projection of x, a tensor's part of an update, to out,
// of nonZeros values or more: the block construction of Kane and Nelson 2014, figure 1.
// out is cut into nonZeros blocks, and each element of x stands in one place of each, with
// a random sign, divided by the root of nonZeros. Inner products and lengths are kept in
// the mean, with a relative deviation of about the root of 2/len(out).
//
// The same tensor of the same experiment is projected alike in every round and for every
// device. The projection is drawn anew each time, so that it takes no memory.
func Project(seed uint64, tensor int, x, out []float32) {
	sums := make([]float64, len(out))
	var blocks [nonZeros][]float64
	for b := range blocks {
		blocks[b] = sums[b*len(out)/nonZeros : (b+1)*len(out)/nonZeros]
	}
	stream := seeds.Source(seed, seeds.Projection, uint64(tensor))
	for _, v := range x {
		for b := 0; b < nonZeros; b += 2 {
			bits := stream.Uint64()
			place(blocks[b], uint32(bits), float64(v))
			place(blocks[b+1], uint32(bits>>32), float64(v))
		}
	}
	scale := 1 / math.Sqrt(nonZeros)
	for i, v := range sums {
		out[i] = float32(v * scale)
	}
}

// place adds v to a block, or takes it away: the lowest bit says which, the 31 others
// where.
func place(block []float64, bits uint32, v float64) {
	at := uint64(bits>>1) * uint64(len(block)) >> 31
	if bits&1 == 1 {
		v = -v
	}
	block[at] += v
}
