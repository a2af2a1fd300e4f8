package randomsampling

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Choosing a pilot by its hits favours pilots with more hits than expected. With
// X hits, Poisson with mean m, the bias relative to the rank is
// E[(X-m) 1(X >= k)] / m = P(X = k-1), which is largest, 1/sqrt(2 pi (k-1)) =
// 0.0283, where m = k-1. The simulation draws 40,000 audits there and on both
// sides; the mean of the relative error then has a standard deviation below
// 0.0005, and a right program leaves the bound by six of them with probability
// 1e-9 each.
func TestChoosingAPilotByItsHitsBiasesLessThanTheStandardError(t *testing.T) {
	t.Parallel()
	const audits, all, bound, deviation = 40_000, 2_000_000, 0.0283, 0.0005
	for _, share := range []float64{0.02, 0.0105, 199.0 / 20_000, 0.009, 199.0 / 200_000, 0.0005} {
		source := rand.NewPCG(7, math.Float64bits(share))
		bias := 0.0
		for range audits {
			bias += (simulatedRank(share, all, source) - share*all - 1) / (share * all) / audits
		}
		if math.Abs(bias) > bound+6*deviation {
			t.Errorf("a canary above %v of the references: its rank is off by %.4f of itself on average; want at most %.4f", share, bias, bound)
		}
	}
}

// simulatedRank is the rank that the ladder of pilots gives a canary, where the
// references at or below it are a Poisson process of the given share.
func simulatedRank(share float64, all int, source rand.Source) float64 {
	hits, drawn := 0.0, 0
	for _, pilot := range pilotSizes {
		hits += distuv.Poisson{Lambda: share * float64(pilot-drawn), Src: source}.Rand()
		drawn = pilot
		if hits >= minPilotHits {
			rank, _ := estimate(int64(hits), pilot, all)
			return float64(rank)
		}
	}
	return 1 + hits + distuv.Poisson{Lambda: share * float64(all-drawn), Src: source}.Rand()
}
