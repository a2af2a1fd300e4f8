package training

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

var pixels = images.Shape{Width: 12, Height: 12, Channels: 1, Classes: 2}

// newGANBench is a population of images of ten users, with one to six each, and a GAN. Its file
// is so large that it is read in parts.
func newGANBench(t *testing.T) *bench {
	t.Helper()
	g := taskstest.NewGraph(t)
	rng := rand.New(rand.NewPCG(1, 0))
	var lines strings.Builder
	for i := range 35 {
		values := make([]byte, pixels.Pixels())
		for j := range values {
			values[j] = byte(rng.IntN(256))
		}
		fmt.Fprintf(&lines, `{"user":"u%d","label":%d,"pixels":%q}`+"\n", i*i%10+i/30, i%2, base64.StdEncoding.EncodeToString(values))
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{
		Sources: []storage.Digest{g.Import([]byte(lines.String()))}, Reading: source.Reading{Level: text.ImageLevel, Image: pixels},
	})
	parts := g.Run(datasets.Encode, datasets.EncodeParams{Level: text.ImageLevel}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, parts))
	population := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	config := models.Config{Kind: models.GAN, Image: models.Image{ImageShape: models.ImageShape(pixels), GAN: models.Adversarial{Latent: 3}}}
	origin := g.Run(Initial, InitialParams{Seed: 4, Model: config})
	return &bench{g, t, parts, population, origin}
}

func ganParams() ClientsParams {
	p := clientsParams()
	p.Cohort, p.Epochs, p.Steps, p.Clip = 3, 2, 3, 0.5
	p.Local = Local{Optimizer: sgd, LearningRate: 0.05, Batch: 2}
	return p
}

// drawnSum is the sum of the updates of clients that draw their numbers step by step.
func (b *bench) drawnSum(p ClientsParams, round int, users []int) []float32 {
	b.t.Helper()
	model, population := b.model(b.origin), b.users()
	l := must.Get(newLearner(model, p.Local))(b.t)
	c := chunkSum{params: &p, population: population, learner: l, sender: newSender(b.Task(), &p, model.Network), start: &start{network: model.Network, trained: model.Params[:model.Network.Trained()]}}
	for _, user := range users {
		must.Do(b.t, c.read(b.t.Context(), round, user))
	}
	return rounded(c.sum.tensor(len(l.params)))
}

func TestPrecomputedGeneratorSumMatchesStepwise(t *testing.T) {
	t.Parallel()
	b, p := newGANBench(t), ganParams()
	p.Cohort = 2
	if size := len(b.origin.Blob(tasks.ModelBlob)); size < 8<<20 {
		t.Fatalf("the model file has %d bytes: it is not read in parts", size)
	}
	users := cohortOf(t, &p, 1, b.users().Users())
	want := b.drawnSum(p, 1, users)
	if got := sumOf(t, b.mustStep(Clients, p, b.origin, 1, 0)); !slices.Equal(got, want) {
		t.Error("the sum differs from that of clients that draw step by step")
	}
	if kernels.SquaredNorm(want) == 0 {
		t.Error("the clients have learned nothing")
	}
}

// With little room a learner is made for one user after the other.
func TestUsersArePrecomputedInGroups(t *testing.T) {
	t.Parallel()
	b, p := newGANBench(t), ganParams()
	users := []int{0, 2, 5}
	want := b.drawnSum(p, 4, users)
	for room, first := range map[int]int{1: 1, maxPrecomputed: 3} {
		task := b.Task(taskstest.In(tasks.PreviousInput, b.origin))
		task.Step = 4
		s := must.Get(readStart(t.Context(), task))(t)
		s.maxPrecomputed = room
		c := chunkSum{params: &p, population: b.users(), start: s, sender: newSender(task, &p, s.network)}
		if n, err := c.prepare(t.Context(), task, users); n != first || err != nil {
			t.Errorf("with room for %d numbers the first group has %d users (%v), want %d", room, n, err, first)
		}
		must.Do(t, c.addAll(t.Context(), task, users))
		if got := c.sum.tensor(len(s.trained)); !slices.Equal(rounded(got), want) {
			t.Errorf("with room for %d numbers the sum differs", room)
		}
	}
}

func rounded(sum safetensors.Tensor) []float32 {
	values := slices.Clone(sum.Float32)
	for _, v := range sum.Rounded {
		values = append(values, float32(v))
	}
	return values
}

func TestBatchSizesMatchBatches(t *testing.T) {
	t.Parallel()
	for _, p := range []ClientsParams{
		{Epochs: 1, Local: Local{Batch: 4}}, {Epochs: 3, Local: Local{Batch: 4}}, {Epochs: 3, Steps: 4, Local: Local{Batch: 3}}, {Epochs: 2, Steps: 100, Local: Local{Batch: 50}},
	} {
		for n := range 13 {
			c := chunkSum{params: &p}
			var want []int
			for range p.Epochs {
				for batch := range batches(make([][]int32, n), &c.order, p.Local.Batch, seeds.Stream(1, seeds.Client)) {
					want = append(want, len(batch))
				}
			}
			if p.Steps > 0 {
				want = want[:min(len(want), p.Steps)]
			}
			if got := batchSizes(n, p.Local.Batch, p.Epochs, p.Steps); !slices.Equal(got, want) {
				t.Errorf("%+v, %d examples: batches of %v, want %v", p, n, got, want)
			}
		}
	}
}
