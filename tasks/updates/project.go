package updates

import (
	"math"

	"coalmine/internal/seeds"
)

// nonZeros is the number of positions of an element in its projection. Four are as good as a dense
// projection if no single element has most of a vector's length (Kane and Nelson 2014, "Sparser
// Johnson-Lindenstrauss Transforms", section 1), and cost as much as drawing two numbers.
const nonZeros = 4

// Project writes the seeded random projection of x, a tensor's part of an update, to out,
// of nonZeros values or more: the block construction of Kane and Nelson 2014, figure 1. out is
// divided into nonZeros blocks, and each element of x is added to one position of each, with a
// random sign, divided by the root of nonZeros. Inner products and lengths are preserved in the
// mean, with a relative deviation of about the root of 2/len(out).
//
// A tensor of an experiment has the same projection in every round and for every device. The
// projection is drawn again each time, so that it takes no memory.
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

// place adds v to, or subtracts it from, an element of a block: the lowest bit selects the sign,
// the other 31 the position.
func place(block []float64, bits uint32, v float64) {
	at := uint64(bits>>1) * uint64(len(block)) >> 31
	if bits&1 == 1 {
		v = -v
	}
	block[at] += v
}
