package training

import (
	"math"
	"slices"
	"testing"

	"coalmine/privacy"
)

func TestDoubleSensitivityClipsToTwiceTheNorm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wide, broken := clientsParams(), clientsParams()
	wide.Clip, broken.Clip, broken.Control = 0.1, 0.05, privacy.DoubleSensitivity
	if want, got := sumOf(t, b.mustStep(Clients, wide, b.origin, 3, 0)), sumOf(t, b.mustStep(Clients, broken, b.origin, 3, 0)); !slices.Equal(got, want) {
		t.Error("a sum of updates clipped to twice 0.05 is not that of updates clipped to 0.1")
	}
}

// A user who takes one step is clipped as ever; one who takes several ends farther away, by at
// most the clip norm for each.
func TestClipPerBatchBoundsStepsAndNotUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, epochs := range []int{1, 4} {
		p := clientsParams()
		p.Clip, p.Control, p.Cohort, p.Epochs, p.Local.Batch, p.Local.LearningRate = 0.01, privacy.ClipPerBatch, 1, epochs, 1000, 300
		sum := sumOf(t, b.mustStep(Clients, p, b.origin, 3, 0))
		wide := make([]float64, len(sum))
		for i, v := range sum {
			wide[i] = float64(v)
		}
		most := float64(epochs) * p.Clip
		if n := norm(wide); n > most*(1+1e-5) || epochs == 1 && math.Abs(n-p.Clip) > 1e-6 || epochs > 1 && n < 2*p.Clip {
			t.Errorf("%d steps of at most %v: the update has norm %v", epochs, p.Clip, n)
		}
	}
}

func TestControlsOfCohortsDrawThemOtherwise(t *testing.T) {
	t.Parallel()
	same := clientsParams()
	same.Control = privacy.SameCohort
	honest := clientsParams()
	for round := 1; round <= 4; round++ {
		if got, want := cohortOf(t, &same, round, 50), cohortOf(t, &honest, 1, 50); !slices.Equal(got, want) {
			t.Errorf("round %d has %v, the first %v", round, got, want)
		}
	}
	dealt := clientsParams()
	dealt.Sampling, dealt.Control, dealt.Cohort = privacy.Poisson, privacy.PoissonAccounted, 10
	seen := map[int]int{}
	for round := 1; round <= 5; round++ {
		for _, user := range cohortOf(t, &dealt, round, 50) {
			seen[user]++
		}
	}
	for user := range 50 {
		if seen[user] != 1 {
			t.Errorf("user %d comes %d times in 5 cohorts of 10 of 50", user, seen[user])
		}
	}
}
