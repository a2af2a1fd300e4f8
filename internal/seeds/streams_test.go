package seeds

import (
	"math/rand/v2"
	"testing"
)

// 1,000 numbers take eight keys.
func TestStreamsInStepDrawWhatEachDrawsAlone(t *testing.T) {
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
