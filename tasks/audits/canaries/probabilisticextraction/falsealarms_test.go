package probabilisticextraction

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// For any model: of all sequences of the space, at most the bound's share is extractable.
func TestNoModelMakesMoreSequencesExtractableThanTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 8), 1, 200).Draw(rt, "weights")
		queries := rapid.IntRange(1, 300).Draw(rt, "queries")
		chance := rapid.Float64Range(0.01, 0.99).Draw(rt, "chance")
		total := 0.0
		for _, w := range weights {
			total += math.Exp2(w)
		}
		extractable := 0
		for _, w := range weights {
			if Queries(math.Log(math.Exp2(w)/total), chance) <= float64(queries) {
				extractable++
			}
		}
		share, bound := float64(extractable)/float64(len(weights)), extractableByChance(queries, chance, float64(len(weights)))
		if share > bound*(1+1e-9) {
			rt.Fatalf("%d of %d sequences are extractable, above the bound of %v", extractable, len(weights), bound)
		}
	})
}

// A model that writes m sequences alone, all alike, reaches it where m is 1/p.
func TestTheBoundIsReached(t *testing.T) {
	t.Parallel()
	const sequences, written, chance = 1000, 8, 0.5
	queries := int(Queries(-math.Log(written), chance)) // 6: 1 - (7/8)^6 is 0.551
	if bound := extractableByChance(queries, chance, sequences); bound < written/1000.0 || bound > (written+1.5)/1000 {
		t.Errorf("bound %v, want hardly more than %v", bound, written/1000.0)
	}
}
