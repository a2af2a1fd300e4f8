package canaryclients

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
// bounded terms, normal in the limit unless few elements make up most of v, and with tails
// below 2 exp(-d t^2/2) for every v (Hoeffding 1963, theorem 2). Where v is dominated by
// isotropic noise, the law of the cosine is that of the sphere for any fixed direction. And
// they cost a bit an element in place of a normal number, so that the cosines with a
// thousand canaries take about as long as one pass of a client over its data.
//
// Its bits are those of seeds.CanaryUpdates by canary, from the lowest of a number to the
// highest: a 1 is a plus.
type Directions struct{ Seed uint64 }

func (d Directions) bits(canary int) *rand.ChaCha8 {
	return seeds.Source(d.Seed, seeds.CanaryUpdates, uint64(canary))
}

// Fill makes an update of a canary's direction and a length. Rounded to float32 it is never
// longer.
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
	// blockWords is how many words of each canary are taken at a time. The tables of a block
	// stay in the caches near to a core. It shows in no result.
	blockWords = 4
	byteValues = 256
	wordBytes  = wordBits / 8
)

// table has the sums of 8 elements under all their signs.
type table [byteValues]float64

// fill takes up to 8 elements. Sums run from no plus to more of them, so that their order is
// one and the same wherever they are computed.
func (t *table) fill(elements []float32) {
	t[0] = 0
	for _, v := range elements {
		t[0] -= float64(v)
	}
	for bit, v := range elements {
		twice := 2 * float64(v)
		for set := range 1 << bit {
			t[set|1<<bit] = t[set] + twice
		}
	}
	for size := 1 << len(elements); size < byteValues; size *= 2 {
		copy(t[size:], t[:size]) // beyond the last element signs do not matter
	}
}

// Cosines are those of a vector with the directions of so many canaries, from first on; 0
// where the vector is. Sums are in float64, in one order.
func (d Directions) Cosines(v []float32, first, count int) []float64 {
	sums, sources := make([]float64, count), make([]*rand.ChaCha8, count)
	for i := range sources {
		sources[i] = d.bits(first + i)
	}
	tables := make([]table, blockWords*wordBytes)
	for rest := v; len(rest) > 0; {
		n := min(blockWords*wordBits, len(rest))
		words := (n + wordBits - 1) / wordBits
		for i := range tables[:words*wordBytes] {
			tables[i].fill(rest[min(8*i, n):min(8*i+8, n)])
		}
		for i, source := range sources {
			sums[i] += drawSum(source, tables[:words*wordBytes])
		}
		rest = rest[n:]
	}
	norm := math.Sqrt(kernels.SquaredNorm(v)) * math.Sqrt(float64(len(v)))
	for i := range sums {
		if norm > 0 {
			sums[i] /= norm
		}
	}
	return sums
}

// drawSum draws the signs of the elements that the tables are about, and adds them up.
func drawSum(source *rand.ChaCha8, tables []table) float64 {
	sum := 0.0
	for ; len(tables) >= wordBytes; tables = tables[wordBytes:] {
		w, t := source.Uint64(), (*[wordBytes]table)(tables)
		low := (t[0][byte(w)] + t[1][byte(w>>8)]) + (t[2][byte(w>>16)] + t[3][byte(w>>24)])
		high := (t[4][byte(w>>32)] + t[5][byte(w>>40)]) + (t[6][byte(w>>48)] + t[7][byte(w>>56)])
		sum += low + high
	}
	return sum
}
