package seeds

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestStreamRepeats(t *testing.T) {
	t.Parallel()
	a, b := Stream(7, Client, 3, 5), Stream(7, Client, 3, 5)
	for i := range 100 {
		if x, y := a.Uint64(), b.Uint64(); x != y {
			t.Fatalf("draw %d is %d, then %d", i, x, y)
		}
	}
}

func TestStreamsDiffer(t *testing.T) {
	t.Parallel()
	first := map[uint64]string{}
	add := func(name string, seed uint64, role Role, indices ...uint64) {
		x := Stream(seed, role, indices...).Uint64()
		if other, taken := first[x]; taken {
			t.Errorf("%s and %s begin with the same number", name, other)
		}
		first[x] = name
	}
	add("plain", 1, Noise)
	add("another seed", 2, Noise)
	add("another role", 1, Cohort)
	add("with an index", 1, Noise, 0)
	add("another index", 1, Noise, 1)
	add("two indices", 1, Noise, 0, 1)
	add("swapped indices", 1, Noise, 1, 0)
}

// The bytes of every result hang on these numbers.
func TestKnownNumbers(t *testing.T) {
	t.Parallel()
	if got := Stream(1, Weights).Uint64(); got != 10840259942548993526 {
		t.Errorf("the stream of the initial weights begins with %d, it was %d: every result would change", got, uint64(10840259942548993526))
	}
}

func TestNeighbouringStreamsAreUncorrelated(t *testing.T) {
	t.Parallel()
	const n = 20_000
	a, b := Stream(1, Noise, 1), Stream(1, Noise, 2)
	sum := 0.0
	for range n {
		sum += a.NormFloat64() * b.NormFloat64()
	}
	// The mean of n products of independent normals has standard deviation
	// 1/sqrt(n); five of them are passed with probability 6e-7. The seed is fixed.
	if r := sum / n; math.Abs(r) > 5/math.Sqrt(n) {
		t.Errorf("correlation %v between the noise of two rounds", r)
	}
}

// 1,000 numbers take eight keys.
func TestStreamsMatchSingleStreams(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 1, 3, 4, 5, 17} {
		const first = 40
		alone := make([]*rand.ChaCha8, count)
		for i := range alone {
			alone[i] = Source(7, CanaryUpdates, uint64(first+i))
		}
		streams := NewStreams(7, CanaryUpdates, first, count)
		for draw := range 250 {
			a, b := streams.Next()
			for i, source := range alone {
				for n, pair := range [4][]uint32{a, a[2:], b, b[2:]} {
					got := uint64(pair[4*i]) | uint64(pair[4*i+1])<<32
					if want := source.Uint64(); got != want {
						t.Fatalf("number %d of stream %d of %d: %x, want %x", 4*draw+n, i, count, got, want)
					}
				}
			}
		}
	}
}
