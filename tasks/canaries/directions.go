package canaries

import (
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
)

// Directions are the unit vectors of canaries: all elements are 1/sqrt(d), and their signs
// fair coins.
//
// The paper draws them uniformly from the sphere. Signs are as good: such a vector has the
// norm 1 exactly and the covariance 1/d of the identity, so that its cosine with a vector v
// that does not depend on it has mean 0 and variance 1/d; the cosine is a sum of independent
// bounded terms, normal in the limit unless few elements make up most of v, and with tails below 2
// exp(-d t^2/2) for every v (Hoeffding 1963, theorem 2). If isotropic noise dominates v, the cosine
// with any fixed direction has the distribution for the sphere. A sign costs one bit instead of a
// normal number, so the cosines with a thousand canaries take less than one pass of a client over
// its data.
//
// The bits come from seeds.CanaryUpdates by canary, lowest bit of a number first: a 1 is a plus.
type Directions struct{ Seed uint64 }

func (d Directions) bits(canary int) *rand.ChaCha8 {
	return seeds.Source(d.Seed, seeds.CanaryUpdates, uint64(canary))
}

// Fill sets update to a canary's direction times length. Rounding to float32 never makes it longer.
func (d Directions) Fill(update []float32, canary int, length float64) {
	plus := math.Nextafter32(float32(length/math.Sqrt(float64(len(update)))), 0)
	values := [2]float32{-plus, plus}
	source := d.bits(canary)
	for rest := update; len(rest) > 0; {
		word := source.Uint64()
		n := min(wordBits, len(rest))
		for i := range rest[:n] {
			rest[i] = values[word&1]
			word >>= 1
		}
		rest = rest[n:]
	}
}

const (
	wordBits = 64
	// blockWords is the number of words drawn for each canary at a time, and summed together.
	blockWords = 4
	byteValues = 256
	wordBytes  = wordBits / 8
)

// table has the sums of 8 elements under all their signs.
type table [byteValues]float64

// fill takes up to 8 elements. Sums start from all minus signs, so that the order of additions is
// fixed.
func (t *table) fill(elements []float32) {
	t[0] = 0
	for _, v := range elements {
		t[0] -= float64(v)
	}
	size := 1
	for _, v := range elements {
		twice := 2 * float64(v)
		plus := t[size : 2*size]
		for set, sum := range t[:size] {
			plus[set] = sum + twice
		}
		size *= 2
	}
	for ; size < byteValues; size *= 2 {
		copy(t[size:], t[:size]) // signs beyond the last element do not matter
	}
}

// tables are the tables for the 64 elements of a word. They fit the first-level cache.
type tables [wordBytes]table

func (t *tables) fill(elements []float32) {
	for i := range t {
		n := min(8, len(elements))
		t[i].fill(elements[:n])
		elements = elements[n:]
	}
}

// add adds to each sum the sum of the elements under the signs of its word of bits. The word for
// sum i is elements 4i and 4i+1 of words, lower half first.
func (t *tables) add(sums []float64, words []uint32) {
	for i := range sums {
		word := (*[2]uint32)(words[4*i:])
		a, b := word[0], word[1]
		low := (t[0][byte(a)] + t[1][byte(a>>8)]) + (t[2][byte(a>>16)] + t[3][byte(a>>24)])
		high := (t[4][byte(b)] + t[5][byte(b>>8)]) + (t[6][byte(b>>16)] + t[7][byte(b>>24)])
		sums[i] += low + high
	}
}

// Cosines returns the cosines of a vector with the directions of count canaries, from first on; 0
// for the zero vector. Sums are in float64, in a fixed order.
func (d Directions) Cosines(v []float32, first, count int) []float64 {
	sums, block := make([]float64, count), make([]float64, count)
	streams, t := seeds.NewStreams(d.Seed, seeds.CanaryUpdates, first, count), new(tables)
	for rest := v; len(rest) > 0; {
		clear(block)
		early, late := streams.Next()
		for _, words := range [blockWords][]uint32{early, early[2:], late, late[2:]} {
			n := min(wordBits, len(rest))
			if n > 0 {
				t.fill(rest[:n])
				t.add(block, words)
			}
			rest = rest[n:]
		}
		for i, sum := range block {
			sums[i] += sum
		}
	}
	norm := math.Sqrt(kernels.SquaredNorm(v)) * math.Sqrt(float64(len(v)))
	for i := range sums {
		if norm > 0 {
			sums[i] /= norm
		}
	}
	return sums
}
