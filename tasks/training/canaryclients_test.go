package training

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/privacy"
	"coalmine/tasks/canaries"
	"coalmine/tasks/taskstest"
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
func TestCanaryClientsLeaveOtherUpdatesUnchanged(t *testing.T) {
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

// The last records send vectors in place of their gradients, and the watch follows the noise and
// their contributions, for any gradients of the others.
func TestCanaryRecordsSendTheirGradients(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	records := b.users().Records()
	for _, sampling := range []privacy.Sampling{privacy.Poisson, privacy.Shuffled} {
		p := dpParams()
		p.Sampling, p.Guarantee.Sampling, p.Guarantee, p.NoiseMultiplier, p.Local.Batch = sampling, sampling, nil, 0, records/2
		without := b.model(b.mustStep(DPSGD, p, b.origin, 1, 0)).Params
		p.Canaries = &canaries.Clients{Count: records, Over: 10, Coins: sampling.Neighbouring()}
		p.Watch = &canaries.Watch{Canaries: records, Records: true, Evidence: &canaries.Evidence{Divisor: records / 2, Clip: p.Clip, Coins: sampling.Neighbouring()}}
		n := b.mustStep(DPSGD, p, b.origin, 1, 0)
		drawn := must.Get(p.Records(1, records, func(n int) (*rand.Rand, error) { return seeds.Stream(p.Seed, seeds.Cohort, uint64(n)), nil }))(t)
		sent := make([]float64, records)
		for _, i := range drawn {
			switch heads := canaries.Coin(p.Seed, i); {
			case heads:
				sent[i] = 1
			case sampling != privacy.Poisson:
				sent[i] = -1
			}
		}
		followed := must.Get(p.Watch.Read(t.Context(), b.Task(taskstest.In("n", n)), "n"))(t)
		var want []float64
		vector, params := make([]float32, len(without)), b.model(b.origin).Params
		for _, v := range params {
			want = append(want, float64(v))
		}
		for i, contribution := range sent {
			if math.Abs(float64(followed[i])-contribution) > 1e-5 {
				t.Errorf("%s: record %d has sent %v, followed %v", sampling, i, contribution, followed[i])
			}
			canaries.Blocks{Seed: p.Seed, Count: records}.Fill(vector, i, p.Clip)
			for j, v := range vector {
				want[j] -= p.Local.LearningRate * contribution * float64(v) / float64(p.Local.Batch)
			}
		}
		closeTo(t, string(sampling), b.model(n).Params, want)
		if slices.Equal(without, b.model(n).Params) {
			t.Errorf("%s: the canaries changed nothing", sampling)
		}
	}
}
