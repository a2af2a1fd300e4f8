package training

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/storage/safetensors"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
)

// The rate of every step is that of learner.step: the batch's share of a full one.
func TestEffectiveLearningRateAveragesRatesOfSteps(t *testing.T) {
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

func TestShortBatchesOfTenthOfClientsAreReported(t *testing.T) {
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

func (b *bench) losses(model *taskstest.Node) *taskstest.Node {
	return b.Run(Losses, nil, taskstest.In(ModelInput, model), taskstest.In(PopulationInput, b.population), taskstest.In(ShardsInput, b.parts))
}

func TestLossesMatchScorerInPopulationOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pop := b.users()
	model := must.Get(checkpoints.Decode(b.origin.Blob("model")))(t)
	scorer := must.Get(model.NewScorer())(t)
	var want []float64
	for i := range pop.Records() {
		sentence := must.Get(pop.ReadRecord(t.Context(), i))(t)
		loss := must.Get(scorer.MeanLosses([][]int32{sentence}))(t)
		want = append(want, loss...)
	}
	if got := b.losses(b.origin).Blob(population.LossesBlob); len(want) == 0 || !bytes.Equal(got, population.EncodeLosses(want)) {
		t.Errorf("%d bytes of losses, not those of the %d records one by one", len(got), len(want))
	}
}

func TestGoldenLosses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskstest.Golden(t, b.losses(b.origin))
}

// plainSum is the definition: from a zero on, in float64, in their order.
func plainSum(length int, updates []scaled) []float32 {
	sum := make([]float32, length)
	for i := range sum {
		var wide float64
		for _, u := range updates {
			wide += float64(u.scale * float64(u.values[i]))
		}
		sum[i] = float32(wide)
	}
	return sum
}

func written(t *rapid.T, sum safetensors.Tensor) []float32 {
	data := must.Get(EncodeSum(sum, []float32{}))(t)
	file := must.Get(safetensors.Unmarshal(data))(t)
	tensor, _ := file.Tensor(SumTensor)
	return tensor.Float32
}

// Any number of updates, which all come in the same memory, as a learner's do.
func TestUpdateSumMatchesFloat64Sum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 5).Draw(t, "length")
		value := rapid.OneOf(rapid.Float32Range(-1e6, 1e6), rapid.Just(float32(math.Copysign(0, -1))))
		var updates []scaled
		for range rapid.IntRange(0, 5).Draw(t, "updates") {
			updates = append(updates, scaled{rapid.SliceOfN(value, length, length).Draw(t, "update"), rapid.Float64Range(1e-6, 100).Draw(t, "scale")})
		}
		sum := updateSum{many: rapid.Bool().Draw(t, "many")}
		learner := make([]float32, length)
		for _, u := range updates {
			sum.release()
			copy(learner, u.values)
			sum.add(learner, u.scale)
		}
		got := written(t, sum.tensor(length))
		for i, want := range plainSum(length, updates) {
			if math.Float32bits(got[i]) != math.Float32bits(want) {
				t.Fatalf("element %d is %v, want %v", i, got[i], want)
			}
		}
	})
}

// A sum of two takes the memory of the first and of the learner alone.
func TestASumOfTwoUpdatesIsNotWidened(t *testing.T) {
	t.Parallel()
	var sum updateSum
	learner := []float32{1, 2}
	for range 2 {
		sum.release()
		sum.add(learner, 1)
	}
	if kept := sum.first.values; sum.wide != nil || &sum.tensor(2).Float32[0] != &kept[0] {
		t.Error("the sum of two updates has memory of its own")
	}
}
