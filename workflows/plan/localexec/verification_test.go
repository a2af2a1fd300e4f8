package localexec

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"coalmine/storage"
	"coalmine/workflows/plan"
)

func TestSampleIsDrawnBySeedWithoutReplacement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.IntRange(0, 200).Draw(t, "candidates")
		n := rapid.IntRange(1, 250).Draw(t, "sample")
		seed := rapid.Uint64().Draw(t, "seed")
		var candidates []plan.Ref
		for i := range of {
			candidates = append(candidates, plan.Ref{Key: storage.Key{Digest: storage.DigestOf([]byte{byte(i), byte(i >> 8)})}, Step: i})
		}
		sample := Sample(candidates, n, seed)
		if len(sample) != min(n, of) || !reflect.DeepEqual(sample, Sample(candidates, n, seed)) {
			t.Fatalf("%d of %d, or not the same again", len(sample), of)
		}
		for i, r := range sample {
			if i > 0 && sample[i-1].Step >= r.Step || !slices.Contains(candidates, r) {
				t.Fatalf("draw %d is out of order, or no candidate", i)
			}
		}
	})
}

func TestSampleReachesEveryNode(t *testing.T) {
	t.Parallel()
	candidates := make([]plan.Ref, 10)
	for i := range candidates {
		candidates[i].Step = i
	}
	seen := map[int]bool{}
	for seed := range uint64(100) { // a node is missed by all with probability 0.8^100, 2e-10
		for _, r := range Sample(candidates, 2, seed) {
			seen[r.Step] = true
		}
	}
	if len(seen) != len(candidates) {
		t.Errorf("drawn were only %v", seen)
	}
}
