package aggregation

import (
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/tasks/canaries"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// largest are the cosines that a round hands on.
func (b *bench) largest(n *taskstest.Node, w *canaries.Watch) []float32 {
	b.t.Helper()
	return must.Get(w.Read(b.t.Context(), b.Task(taskstest.In("n", n)), "n"))(b.t)
}

func TestLargestCosineIsCarriedOverRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(1)
	p.Clip, p.Watch = 100, &canaries.Watch{Canaries: 3, Unseen: 2}
	want := slices.Repeat([]float32{-1}, 5)
	previous := b.origin
	for round := 1; round <= 3; round++ {
		sum := b.random(uint64(round))
		previous = b.server(p, round, previous, b.chunk("x", sum, training.ChunkMetrics{Clients: 1, Weight: 1}))
		for i, c := range (canaries.Directions{Seed: p.Seed}).Cosines(sum, 0, 5) {
			want[i] = max(want[i], float32(c))
		}
		if got := b.largest(previous, p.Watch); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
}

// The watch follows the released updates, noise included.
func TestCosinesIncludeNoise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := plain(1)
	p.Clip, p.NoiseMultiplier, p.Watch = 0.01, 50, &canaries.Watch{Canaries: 3, Unseen: 2}
	sum := b.random(1)
	n := b.server(p, 1, b.origin, b.chunk("x", sum, training.ChunkMetrics{Clients: 1, Weight: 1}))
	bare := (canaries.Directions{Seed: p.Seed}).Cosines(sum, 0, 5)
	for i, c := range b.largest(n, p.Watch) {
		if c == float32(bare[i]) {
			t.Errorf("canary %d has the cosine %v with and without noise", i, c)
		}
	}
}

func TestStoppedRoundCarriesCosines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := private()
	p.Guarantee.Budget = &privacy.Budget{Epsilon: 1e9, Delta: 1e-5}
	p.Watch = &canaries.Watch{Canaries: 3, Unseen: 2}
	chunk := b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 1, Weight: 1})
	first := b.server(p, 1, b.origin, chunk)
	p.Guarantee.Budget.Epsilon = 1e-9
	for round, previous := range map[int]*taskstest.Node{1: b.origin, 2: first} {
		n := b.server(p, round, previous, chunk)
		want := slices.Repeat([]float32{-1}, 5)
		if round == 2 {
			want = b.largest(first, p.Watch)
		}
		if got := b.largest(n, p.Watch); !slices.Equal(got, want) || !b.row(n).Stopped {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
}

// A round of canaries alone has trained on nothing.
func TestARoundWithoutTokensHasNoLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	n := b.server(plain(1), 1, b.origin, b.chunk("x", b.random(1), training.ChunkMetrics{Clients: 2, Weight: 2, NormSum: 3}))
	if row := b.row(n); row.Loss != 0 || row.ClientNorm != 1.5 {
		t.Errorf("row %+v", row)
	}
}
