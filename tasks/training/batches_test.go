package training

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The rate of every step is that of learner.step: the batch's share of a full one.
func TestTheEffectiveLearningRateIsThatOfTheSteps(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		local := Local{Batch: 2 + rng.IntN(6), LearningRate: 0.5 + rng.Float64()}
		epochs, steps := 1+rng.IntN(3), rng.IntN(4)
		sizes, sum, clients, short := map[int]int{0: 3}, 0.0, 0, 0
		for range 1 + rng.IntN(30) {
			examples := 1 + rng.IntN(8)
			sizes[examples]++
			clients++
			if examples < local.Batch {
				short++
			}
			var rates []float64
			for range epochs {
				for left := examples; left > 0 && (steps == 0 || len(rates) < steps); left -= local.Batch {
					rates = append(rates, local.LearningRate*min(1, float64(left)/float64(local.Batch)))
				}
			}
			mean := 0.0
			for _, rate := range rates {
				mean += rate / float64(len(rates))
			}
			sum += mean
		}
		got := NewBatches(local, epochs, steps, sizes)
		if got == nil {
			if short*10 >= clients && short > 0 {
				t.Errorf("%d of %d clients have less than a batch, and nothing is said", short, clients)
			}
			continue
		}
		if got.Clients != clients || got.Short != short || math.Abs(got.EffectiveLearningRate-sum/float64(clients)) > 1e-12 {
			t.Errorf("%+v of %v; want %d of %d clients and a rate of %v", got, sizes, short, clients, sum/float64(clients))
		}
	}
}

func TestShortBatchesAreSaidWhereATenthOfTheClientsHasThem(t *testing.T) {
	t.Parallel()
	local := Local{Batch: 16, LearningRate: 1}
	if b := NewBatches(local, 1, 0, map[int]int{4: 9, 32: 91}); b != nil {
		t.Errorf("9%% of the clients: %v", b)
	}
	if b := NewBatches(local, 1, 0, nil); b != nil {
		t.Errorf("no clients: %v", b)
	}
	b := NewBatches(local, 1, 0, map[int]int{4: 50, 32: 50})
	if b == nil || b.EffectiveLearningRate != 0.625 || !strings.Contains(b.String(), "training.client.batch is 16, and 50 of 100 clients have fewer examples") || !strings.Contains(b.String(), "at 0.625 on average in place of 1") {
		t.Errorf("half of the clients: %v", b)
	}
}
