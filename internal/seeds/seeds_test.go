package seeds

import (
	"math"
	"testing"
)

func TestAStreamRepeats(t *testing.T) {
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
