package training

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

const vocabulary = 40

var sgd = optimizers.Config{Kind: optimizers.SGD}

// bench is a population and an initial model to train.
type bench struct {
	*taskstest.Graph
	t                         *testing.T
	parts, population, origin *taskstest.Node
}

func newBench(t *testing.T) *bench {
	t.Helper()
	g := taskstest.NewGraph(t)
	var content strings.Builder
	for i := range 900 {
		words := make([]string, 3+i%6)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", (i*(j+3)+j*j*7+i/11)%61)
		}
		fmt.Fprintf(&content, `{"user":"u%d","text":%q}`+"\n", i*i%13, strings.Join(words, " "))
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(content.String()))}})
	parts := g.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: vocabulary}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{Words: 60}, taskstest.In(population.PartsInput, parts))
	population := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	origin := g.Run(Initial, InitialParams{Seed: 4, Model: models.Config{
		Kind: models.CIFGLSTM, Vocabulary: vocabulary + text.FirstWord, Embedding: 5, Units: 6,
	}})
	return &bench{g, t, parts, population, origin}
}

// step runs a task of a chain on top of previous.
func (b *bench) step(kind tasks.Kind, params any, previous *taskstest.Node, step, part int) (*taskstest.Node, error) {
	b.t.Helper()
	spec := must.Get(tasks.NewSpec(kind, params,
		tasks.Input{Name: tasks.PreviousInput, Key: previous.Key},
		tasks.Input{Name: PopulationInput, Key: b.population.Key},
		tasks.Input{Name: ShardsInput, Key: b.parts.Key}))(b.t)
	h := tasks.NewHasher("test step")
	h.Key(spec.Key)
	h.Uint(uint64(step))
	h.Uint(uint64(part))
	spec.Key, spec.Step, spec.Part = h.Sum(), step, part
	return b.TrySpec(kind, spec)
}

func (b *bench) mustStep(kind tasks.Kind, params any, previous *taskstest.Node, step, part int) *taskstest.Node {
	b.t.Helper()
	return must.Get(b.step(kind, params, previous, step, part))(b.t)
}

func (b *bench) model(n *taskstest.Node) *checkpoints.Model {
	b.t.Helper()
	return must.Get(checkpoints.Decode(n.Blob(tasks.ModelBlob)))(b.t)
}

func (b *bench) users() *population.Population {
	b.t.Helper()
	return must.Get(population.Open(b.t.Context(), b.Task(taskstest.In("p", b.population), taskstest.In("s", b.parts)), "p", "s"))(b.t)
}

func sumOf(t *testing.T, n *taskstest.Node) []float32 { return tensorOf(t, n, SumTensor) }

func tensorOf(t *testing.T, n *taskstest.Node, name string) []float32 {
	t.Helper()
	f := must.Get(safetensors.Unmarshal(n.Blob(SumBlob)))(t)
	tensor, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("there is no tensor %s", name)
	}
	return tensor.Float32
}

func clientsParams() ClientsParams {
	return ClientsParams{
		Seed: 7, Cohort: 6, Chunks: 1, Sampling: privacy.FixedSize, Epochs: 2,
		Local: Local{Optimizer: sgd, LearningRate: 0.3, Batch: 4},
	}
}

// clientUpdate trains one client the plain way: the definition, once more.
func clientUpdate(t *testing.T, m *checkpoints.Model, p *ClientsParams, examples [][]int32, round, user int) []float64 {
	t.Helper()
	params, gradient := slices.Clone(m.Params), make([]float32, len(m.Params))
	trainer := m.Network.NewLearner(nil)
	rng := seeds.Stream(p.Seed, seeds.Client, uint64(round), uint64(user))
	for range p.Epochs {
		order := slices.Clone(examples)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for batch := range slices.Chunk(order, p.Local.Batch) {
			must.Get(trainer.Gradient(params, batch, gradient))(t)
			rate := float32(p.Local.Rate(round-1) * float64(len(batch)) / float64(p.Local.Batch))
			mu, decay := float32(p.Local.Proximal), float32(p.Local.WeightDecay)
			for i, g := range gradient {
				g += mu * (params[i] - m.Params[i])
				params[i] = params[i]*(1-rate*decay) - rate*g
			}
		}
	}
	update := make([]float64, len(params))
	for i := range update {
		update[i] = float64(params[i]) - float64(m.Params[i])
	}
	return update
}

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func closeTo(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	difference := make([]float64, len(want))
	for i := range want {
		difference[i] = float64(got[i]) - want[i]
	}
	if d := norm(difference); !(d <= 1e-5*norm(want)) {
		t.Errorf("%s: differs by %.3g of norm %.3g", what, d, norm(want))
	}
}

func TestAChunkSumsItsClientsUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, clip := range []float64{0, 0.05} {
		p := clientsParams()
		p.Clip = clip
		population := b.users()
		members := cohortOf(t, &p, 3, population.Users())
		want, weights := make([]float64, len(b.model(b.origin).Params)), 0.0
		for _, user := range members {
			examples := must.Get(population.ReadUser(t.Context(), user))(t)
			update := clientUpdate(t, b.model(b.origin), &p, examples, 3, user)
			weight := float64(len(examples))
			if clip > 0 {
				weight = min(1, clip/norm(update))
			}
			for i, v := range update {
				want[i] += weight * v
			}
			if clip > 0 {
				weight = 1
			}
			weights += weight
		}
		n := b.mustStep(Clients, p, b.origin, 3, 0)
		closeTo(t, fmt.Sprintf("sum with clip %v", clip), sumOf(t, n), want)
		var m ChunkMetrics
		n.DecodeMetrics(&m)
		if m.Clients != 6 || m.Weight != weights || (clip > 0) != (m.Clipped > 0) {
			t.Errorf("clip %v: metrics %+v, want 6 clients of weight %v in all", clip, m, weights)
		}
	}
}

func TestAnUpdateDoesNotDependOnItsChunk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	b.sixChunksAgainst(sumOf(t, b.mustStep(Clients, p, b.origin, 1, 0)), p)
}

// sixChunksAgainst compares the sum of a round in one chunk with that in six.
func (b *bench) sixChunksAgainst(whole []float32, p ClientsParams) {
	b.t.Helper()
	p.Chunks = 6
	split := make([]float64, len(whole))
	for j := range p.Chunks {
		for i, v := range sumOf(b.t, b.mustStep(Clients, p, b.origin, 1, j)) {
			split[i] += float64(v)
		}
	}
	closeTo(b.t, "six chunks against one", whole, split)
}

func TestSGDIsTheSameInOneStretchOrMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range []optimizers.Kind{optimizers.SGD, optimizers.Momentum, optimizers.Adam} {
		rule := must.Get(optimizers.Defaults(kind))(t)
		for _, order := range []Order{ByRecord, ByUser} {
			b.sameInThreeStretches(60, SGDParams{Seed: 2, Order: order, Local: Local{Optimizer: rule, LearningRate: 0.01, Batch: 7}})
		}
	}
}

// sameInThreeStretches takes steps in one task and in three.
func (b *bench) sameInThreeStretches(steps int, p SGDParams) {
	b.t.Helper()
	p.StepsPerTask = steps
	whole := b.mustStep(SGD, p, b.origin, 1, 0)
	p.StepsPerTask = steps / 3
	last := b.origin
	for step := 1; step <= 3; step++ {
		last = b.mustStep(SGD, p, last, step, 0)
	}
	if !slices.Equal(b.model(whole).Params, b.model(last).Params) {
		b.t.Errorf("%d steps of %+v in one task and in three differ", steps, p)
	}
}

func TestATailContinuesTheChain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rule := optimizers.Config{Kind: optimizers.Momentum, Momentum: 0.9}
	p := SGDParams{Seed: 2, Order: ByRecord, StepsPerTask: 25, Local: Local{Optimizer: rule, LearningRate: 0.05, Batch: 5}}
	whole := b.mustStep(SGD, p, b.origin, 1, 0)
	p.StepsPerTask = 20
	first := b.mustStep(SGD, p, b.origin, 1, 0)
	p.First, p.Steps = 20, 5
	tail := b.mustStep(SGD, p, first, 0, 0)
	if !slices.Equal(b.model(whole).Params, b.model(tail).Params) {
		t.Error("20 steps and a tail of 5 differ from 25 steps")
	}
}

func orderOf(t *testing.T, pop *population.Population, p *SGDParams, epoch int64) []uint32 {
	t.Helper()
	return must.Get(epochOrder(pop, p, epoch))(t)
}

func TestTrainingRejectsUnknownOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := SGDParams{Seed: 2, Order: "backwards", StepsPerTask: 1, Local: Local{Optimizer: sgd, LearningRate: 0.2, Batch: 7}}
	if _, err := b.step(SGD, p, b.origin, 1, 0); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), `order "backwards" of central training: expected records or users`) {
		t.Errorf("error %v", err)
	}
}

func TestEveryEpochSeesEveryRecordOnce(t *testing.T) {
	t.Parallel()
	population := newBench(t).users()
	for _, order := range []Order{ByRecord, ByUser} {
		p := &SGDParams{Seed: 5, Order: order}
		first, second := orderOf(t, population, p, 0), orderOf(t, population, p, 1)
		if slices.Equal(first, second) {
			t.Errorf("%s: two epochs have the same order", order)
		}
		slices.Sort(second)
		for i, r := range second {
			if int(r) != i {
				t.Fatalf("%s: record %d is missing or there twice", order, i)
			}
		}
	}
	// By user, an epoch is whole users, each in its own order.
	endOf := map[int]int{}
	for u := range population.Users() {
		first, end := population.UserRecords(u)
		endOf[first] = end
	}
	order := orderOf(t, population, &SGDParams{Seed: 5, Order: ByUser}, 0)
	for i := 0; i < len(order); {
		end, begins := endOf[int(order[i])]
		if !begins {
			t.Fatalf("position %d begins in the middle of a user", i)
		}
		for first := int(order[i]); int(order[i]) < end-1; i++ {
			if order[i+1] != order[i]+1 {
				t.Fatalf("the user of records %d to %d is torn apart", first, end)
			}
		}
		i++
	}
}

// cohortOf is the cohort of a round.
func cohortOf(t *testing.T, p *ClientsParams, round, population int) []int {
	t.Helper()
	users := must.Get(Cohort(p, round, population, func(round int) (*rand.Rand, error) {
		return seeds.Stream(p.Seed, seeds.Cohort, uint64(round)), nil
	}))(t)
	return users
}

func TestTrainingRejectsUnusableSampling(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for sampling, want := range map[privacy.Sampling]string{
		"":                 `sampling "": expected one of fixed-size`,
		"alphabetical":     `sampling "alphabetical": expected one of fixed-size`,
		privacy.NoSampling: `sampling "none" is for accounting`,
	} {
		p := clientsParams()
		p.Sampling = sampling
		if _, err := b.step(Clients, p, b.origin, 1, 0); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("sampling %q: error %v, want a permanent one with %q", sampling, err, want)
		}
	}
}

func TestEmptyPoissonRoundHasZeroSum(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Cohort, p.Chunks, p.Sampling, p.Clip = 1, 1, privacy.Poisson, 0.1
	round := 1
	for ; ; round++ { // a round is empty with probability near 1/e
		if len(cohortOf(t, &p, round, b.users().Users())) == 0 {
			break
		}
	}
	n := b.mustStep(Clients, p, b.origin, round, 0)
	var m ChunkMetrics
	n.DecodeMetrics(&m)
	if m != (ChunkMetrics{}) || slices.ContainsFunc(sumOf(t, n), func(v float32) bool { return v != 0 }) {
		t.Errorf("round %d without clients has metrics %+v, or a sum", round, m)
	}
}

// A user whose data were taken out is as if absent: neither the sum nor the
// counts of the round show that the user was drawn.
func TestUserWithoutDataMatchesAbsentUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Cohort, p.Sampling, p.Clip = b.users().Users(), privacy.Poisson, 0.1 // everybody comes
	before := b.users()
	const out = 2
	extents := slices.Clone(before.Index().Extents)
	kept := append(slices.Clone(extents[:out]), extents[out+1:]...)
	extents[out] = population.Extent{Offset: extents[out].Offset}
	with := func(name string, extents []population.Extent) ChunkMetrics {
		b.population = b.populationOf(name, before.Index().WithExtents(extents))
		p.Cohort = len(extents)
		var m ChunkMetrics
		b.mustStep(Clients, p, b.origin, 1, 0).DecodeMetrics(&m)
		return m
	}
	emptied, removed := with("emptied", extents), with("removed", kept)
	if emptied.Clients != removed.Clients || emptied.Weight != removed.Weight || emptied.Examples != removed.Examples || emptied.Tokens != removed.Tokens {
		t.Errorf("round with an emptied user %+v, without the user %+v", emptied, removed)
	}
}

// populationOf makes a node of an index, without canaries.
func (b *bench) populationOf(name string, index *population.Index) *taskstest.Node {
	b.t.Helper()
	write := tasks.Kind{Name: "test/" + name, Run: func(ctx context.Context, t *tasks.Task) error {
		return population.Write(ctx, t, index, []population.Placement{}, nil, 0)
	}}
	return b.Run(write, nil)
}

func TestAnAdaptiveClipNormComesWithTheCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Clip = 0.02
	want := b.mustStep(Clients, p, b.origin, 2, 0)
	p.Clip, p.AdaptiveClip = 100, true
	previous := b.Put("round 1", map[string][]byte{tasks.ModelBlob: b.origin.Blob(tasks.ModelBlob), checkpoints.ClipBlob: []byte("0.02")})
	if got := b.mustStep(Clients, p, previous, 2, 0); !slices.Equal(sumOf(t, got), sumOf(t, want)) {
		t.Error("round 2 did not clip to the norm that round 1 left")
	}
}

func TestCohortAbovePopulationIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Cohort = 10_000
	_, err := b.step(Clients, p, b.origin, 1, 0)
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "above the population") {
		t.Errorf("error %v, want a permanent one that names the population", err)
	}
}

func TestDivergenceNamesClientRoundAndStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, change := range map[string]func(*ClientsParams){
		`the loss is (NaN|\+Inf) at client \d+, round 5, step 2;`:             func(*ClientsParams) {},
		`the update is (NaN|\+Inf) at client \d+, round 5, step 1, its last;`: func(p *ClientsParams) { p.Epochs, p.Local.Batch = 1, 1000 },
	} {
		p := clientsParams()
		p.Local.LearningRate = 1e45
		change(&p)
		_, err := b.step(Clients, p, b.origin, 5, 0)
		mustDiverge(t, err, want)
	}
}

func TestDivergedCentralTrainingNamesStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for steps, want := range map[int]string{1: `the model is (NaN|\+Inf) at step 1;`, 7: `the loss is (NaN|\+Inf) at step 2;`} {
		_, err := b.step(SGD, SGDParams{
			Seed: 2, Order: ByRecord, StepsPerTask: steps, Local: Local{Optimizer: sgd, LearningRate: 1e45, Batch: 7},
		}, b.origin, 1, 0)
		mustDiverge(t, err, want)
	}
}

// A loss may be finite where its gradient is not, which no clip can mend.
func TestNonFiniteGradientIsNotClipped(t *testing.T) {
	t.Parallel()
	m, err := models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: 9, Embedding: 3, Units: 4})
	must.Do(t, err)
	l, err := newLearner(&checkpoints.Model{Network: m, Params: make([]float32, m.Parameters())}, Local{Optimizer: sgd, LearningRate: 1, Batch: 1, GradientClip: 1})
	must.Do(t, err)
	for _, tensor := range m.Tensors() {
		size := map[string]float32{models.EmbeddingTensor: 1e15, models.ProjectionTensor: 1e20}[tensor.Name]
		for i := range tensor.View(l.params) {
			l.params[tensor.Offset+i] = size * float32(1+i%3)
		}
	}
	before := slices.Clone(l.params)
	_, err = l.step([][]int32{{0, 1, 2, 3}}, 1)
	mustDiverge(t, diverged(err, "step %d", 1), `the gradient is (NaN|\+Inf) at step 1;`)
	if !slices.Equal(l.params, before) {
		t.Error("the step was taken")
	}
}

func mustDiverge(t *testing.T, err error, want string) {
	t.Helper()
	if _, ok := errors.AsType[*models.DivergedError](err); !ok || !tasks.IsPermanent(err) || !regexp.MustCompile(want).MatchString(err.Error()) {
		t.Errorf("error %v, want a permanent divergence that matches %q", err, want)
	}
}

func TestGradientClipBoundsEveryStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := SGDParams{Seed: 2, Order: ByRecord, StepsPerTask: 1, Local: Local{Optimizer: sgd, LearningRate: 1, Batch: 7, GradientClip: 0.01}}
	before, after := b.model(b.origin).Params, b.model(b.mustStep(SGD, p, b.origin, 1, 0)).Params
	step := make([]float64, len(before))
	for i := range step {
		step[i] = float64(after[i]) - float64(before[i])
	}
	if n := norm(step); math.Abs(n-0.01) > 1e-5 {
		t.Errorf("a step at rate 1 moved the model by %v, want the clip of 0.01", n)
	}
}

func TestChunkHasNormsBeforeClipping(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	whole := clientsParams()
	whole.Clip = 0.05
	n := b.mustStep(Clients, whole, b.origin, 3, 0)
	norms := tensorOf(t, n, NormsTensor)
	for i, user := range cohortOf(t, &whole, 3, b.users().Users()) {
		alone := b.updateNorm(whole, 3, user)
		if i >= len(norms) || math.Abs(float64(norms[i])/alone-1) > 1e-6 {
			t.Errorf("norms %v: number %d should be %v, that of user %d", norms, i, alone, user)
		}
	}
	var m ChunkMetrics
	n.DecodeMetrics(&m)
	above, sum := int64(0), 0.0
	for _, norm := range norms {
		sum += float64(norm)
		if float64(norm) > whole.Clip {
			above++
		}
	}
	if int64(len(norms)) != m.Clients || above != m.Clipped || math.Abs(sum/m.NormSum-1) > 1e-6 {
		t.Errorf("norms %v, and metrics %+v", norms, m)
	}

	split := whole
	split.Chunks = 3
	var joined []float32
	for j := range split.Chunks {
		joined = append(joined, tensorOf(t, b.mustStep(Clients, split, b.origin, 3, j), NormsTensor)...)
	}
	if !slices.Equal(joined, norms) {
		t.Errorf("three chunks have the norms %v, one has %v", joined, norms)
	}
}

// updateNorm trains one user alone, who need not be in the round's cohort.
func (b *bench) updateNorm(p ClientsParams, round, user int) float64 {
	b.t.Helper()
	examples := must.Get(b.users().ReadUser(b.t.Context(), user))(b.t)
	p.Clip = 0
	model := b.model(b.origin)
	l := must.Get(newLearner(model, p.Local))(b.t)
	c := chunkSum{params: &p, start: &start{network: model.Network, trained: model.Params}, learner: l, sender: newSender(b.Task(), &p, model.Network)}
	must.Do(b.t, c.add(b.t.Context(), examples, round, user))
	var squares float64
	for i := range c.learner.params {
		squares += c.sum.newest.at(i) * c.sum.newest.at(i)
	}
	return math.Sqrt(squares) / c.metrics.Weight
}

// The sum has the bytes that it had before norms stood beside it: version 2 wrote this file.
func TestSumMatchesVersion2(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("equal bytes are promised among x86-64 machines")
	}
	b := newBench(t)
	sum := sumOf(t, b.mustStep(Clients, clientsParams(), b.origin, 1, 0))
	data := must.Get(safetensors.Marshal([]safetensors.Tensor{{Name: SumTensor, Shape: []int{len(sum)}, Float32: sum}}, nil))(t)
	if got := storage.DigestOf(data).String(); got != "078c08f13a4f6531869927e7946cb28412ba2532f8478408f9eff2e7548fda1d" {
		t.Errorf("the sum's digest is %s", got)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taskstest.Golden(t, b.origin)
	taskstest.Golden(t, b.mustStep(Clients, clientsParams(), b.origin, 1, 0))
	taskstest.Golden(t, quantized(b, 8))
	taskstest.Golden(t, b.mustStep(SGD, SGDParams{
		Seed: 2, Order: ByRecord, StepsPerTask: 4, Local: Local{Optimizer: sgd, LearningRate: 0.1, Batch: 7},
	}, b.origin, 1, 0))
}
