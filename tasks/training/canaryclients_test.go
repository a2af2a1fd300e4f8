package training

import (
	"math"
	"slices"
	"testing"

	"coalmine/tasks/canaries"
)

// All users of the population are canaries: the sum is that of their directions.
func TestCanaryClientsSendTheirDirections(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	users := b.users().Users()
	for _, c := range []struct {
		clip, norm, sent, length float64
		clipped                  int64
	}{{0.3, 0, 3, 0.3, int64(users)}, {0, 2, 2, 2, 0}} {
		p := clientsParams()
		p.Cohort, p.Clip, p.Canaries = users, c.clip, &canaries.Clients{Count: users, Norm: c.norm, Over: 10}
		n := b.mustStep(Clients, p, b.origin, 1, 0)
		got := sumOf(t, n)
		want, update := make([]float64, len(got)), make([]float32, len(got))
		for canary := range users {
			canaries.Directions{Seed: p.Seed}.Fill(update, canary, c.length)
			for i, v := range update {
				want[i] += float64(v)
			}
		}
		for i := range got {
			if math.Abs(float64(got[i])-want[i]) > 1e-6 {
				t.Fatalf("clip %v: element %d is %v, want %v", c.clip, i, got[i], want[i])
			}
		}
		var m ChunkMetrics
		n.DecodeMetrics(&m)
		if m.Clients != int64(users) || m.Weight != float64(users) || m.Clipped != c.clipped || m.Tokens != 0 {
			t.Errorf("clip %v: %+v of %d canaries", c.clip, m, users)
		}
		for i, norm := range tensorOf(t, n, NormsTensor) {
			if math.Abs(float64(norm)/c.sent-1) > 1e-6 {
				t.Errorf("clip %v: canary %d has the norm %v", c.clip, i, norm)
			}
		}
	}
}

// Canaries do not change the updates of other clients.
func TestTheOthersTrainAsWithoutCanaries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	users := b.users().Users()
	p := clientsParams()
	p.Cohort, p.Clip = users, 0.3
	without := tensorOf(t, b.mustStep(Clients, p, b.origin, 1, 0), NormsTensor)
	p.Canaries = &canaries.Clients{Count: 2, Over: 10}
	with := tensorOf(t, b.mustStep(Clients, p, b.origin, 1, 0), NormsTensor)
	if !slices.Equal(with[:users-2], without[:users-2]) || slices.Equal(with, without) {
		t.Errorf("norms %v, and %v without the two canaries at the end", with, without)
	}
}
