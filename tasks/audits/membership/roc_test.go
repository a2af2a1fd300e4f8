package membership

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/tasks/audits"
)

// tied are scores with many ties.
func tied(rng *rand.Rand, n int) []float64 {
	scores := make([]float64, n)
	for i := range scores {
		scores[i] = float64(rng.IntN(6))
	}
	return scores
}

// The area is the share of pairs in the right order, and its variance that of DeLong et al. as
// they define it: from the covariances of the kernel.
func TestTheAreaIsThatOfPairs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for range 200 {
		members, heldOut := tied(rng, 2+rng.IntN(9)), tied(rng, 2+rng.IntN(9))
		byMember, byOther := make([]float64, len(members)), make([]float64, len(heldOut))
		for i, x := range members {
			for j, y := range heldOut {
				k := kernel(x, y)
				byMember[i] += k / float64(len(heldOut))
				byOther[j] += k / float64(len(members))
			}
		}
		area := mean(byMember)
		spread := variance(byMember)/float64(len(members)) + variance(byOther)/float64(len(heldOut))
		low, high := audits.RatioInterval(area, spread, min(len(members), len(heldOut)))
		got := newRanking(members, heldOut).auc()
		for _, pair := range [][2]float64{{got.Value, area}, {got.Low, low}, {got.High, high}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Fatalf("%v and %v: %+v, want %v (%v to %v)", members, heldOut, got, area, low, high)
			}
		}
		if !(0 <= got.Low && got.Low <= got.Value+1e-12 && got.Value <= got.High+1e-12 && got.High <= 1) {
			t.Fatalf("%+v", got)
		}
	}
}

func kernel(x, y float64) float64 {
	switch {
	case x > y:
		return 1
	case x == y:
		return 0.5
	}
	return 0
}

// A perfect separation leaves room for what so few users cannot tell.
func TestAPerfectSeparationHasAnInterval(t *testing.T) {
	t.Parallel()
	a := newRanking([]float64{5, 6, 7, 8}, []float64{1, 2, 3}).auc()
	// Clopper and Pearson for 3 of 3: 0.025^(1/3).
	if a.Value != 1 || a.High != 1 || math.Abs(a.Low-math.Pow(0.025, 1.0/3)) > 1e-9 {
		t.Errorf("%+v", a)
	}
}

// Found are the members above every threshold that lets no more held-out users pass: the best of
// all thresholds, tried one by one.
func TestFoundIsTheBestOfAllThresholds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 0))
	for range 300 {
		members, heldOut := tied(rng, 1+rng.IntN(12)), tied(rng, 1+rng.IntN(12))
		share := float64(rng.IntN(101)) / 100
		best := 0
		for threshold := -1.0; threshold <= 6; threshold++ {
			above := func(scores []float64) int {
				return len(slices.DeleteFunc(slices.Clone(scores), func(s float64) bool { return s < threshold }))
			}
			if float64(above(heldOut)) <= share*float64(len(heldOut))+1e-9 {
				best = max(best, above(members))
			}
		}
		if got := newRanking(members, heldOut).found(share); got != best {
			t.Fatalf("%v and %v at %v: %d found, want %d", members, heldOut, share, got, best)
		}
	}
}

func TestRatesNeedTenFalsePositives(t *testing.T) {
	t.Parallel()
	scores := make([]float64, 1000)
	for i := range scores {
		scores[i] = float64(i)
	}
	members := []float64{2000, 988.5, 990.5, -1}
	for n, want := range map[int]bool{999: false, 1000: true} {
		r := newRanking(members, scores[1000-n:])
		if got := r.rate(0.01); (got.TruePositives != nil) != want || got.Needed != 1000 {
			t.Errorf("with %d held-out users: %+v", n, got)
		}
	}
	r := newRanking(members, scores)
	// Ten of a thousand may pass: those from 990 on.
	if got := r.rate(0.01).TruePositives; got.Count != 2 || got.Of != 4 {
		t.Errorf("%+v", got)
	}
	if got := r.rate(0.001); got.TruePositives != nil || got.Needed != 10_000 {
		t.Errorf("%+v", got)
	}
}

func TestTheCurveRisesToAll(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 0))
	curve := rocCurve(tied(rng, 50), tied(rng, 70))
	if len(curve) != 101 || !slices.IsSorted(curve) || curve[100] != 1 {
		t.Errorf("%v", curve)
	}
}
