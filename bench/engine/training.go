package engine

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"coalmine/internal/kernels"
	"coalmine/internal/memory"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/training"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

// seed of all random numbers, which do not affect the speed.
const seed = 1

// batchSize is the clients' batch of every row.
const batchSize = 16

// step is a training step on sentences of equal length.
type step struct {
	config  models.Config
	targets int // per sentence
}

var (
	paper      = step{models.Config{Kind: models.CIFGLSTM, Vocabulary: 10_004, Embedding: 96, Units: 670}, 20}
	lstm       = step{models.Config{Kind: models.LSTM, Vocabulary: 10_004, Embedding: 96, Units: 670}, 20}
	gru        = step{models.Config{Kind: models.GRU, Vocabulary: 10_004, Embedding: 96, Units: 670}, 20}
	small      = step{models.Config{Kind: models.CIFGLSTM, Vocabulary: 2_004, Embedding: 64, Units: 128}, 20}
	tiny       = step{models.Config{Kind: models.CIFGLSTM, Vocabulary: 2_004, Embedding: 32, Units: 64}, 20}
	characters = step{models.Config{
		Kind: models.LSTM, Vocabulary: 260, Embedding: 200, Units: 200, Layers: 2, Projection: models.Unprojected,
	}, 100}
)

// batch returns random sentences.
func (s step) batch() [][]int32 {
	rng := seeds.Stream(seed, seeds.Client)
	batch := make([][]int32, batchSize)
	for i := range batch {
		for range s.targets + 1 {
			batch[i] = append(batch[i], int32(rng.IntN(s.config.Vocabulary)))
		}
	}
	return batch
}

// learner takes training steps: the gradient of a batch, and a step of SGD. Its
// vectors use large pages, like those of a task.
type learner struct {
	model            *models.Language
	trainer          *models.Trainer
	params, gradient []float32
}

func newLearner(config models.Config) (*learner, error) {
	m, err := models.New(config)
	if err != nil {
		return nil, err
	}
	l := &learner{m, m.NewTrainer(), memory.Floats(m.Parameters()), memory.Floats(m.Parameters())}
	copy(l.params, m.Init(seeds.Stream(seed, seeds.Weights)))
	return l, nil
}

func newScorer(config models.Config) (*models.Scorer, error) {
	l, err := newLearner(config)
	if err != nil {
		return nil, err
	}
	return l.model.NewScorer(l.params)
}

// step changes the parameters too little to affect the cost of a step.
func (l *learner) step(batch [][]int32) error {
	if _, err := l.trainer.Gradient(l.params, batch, l.gradient); err != nil {
		return err
	}
	kernels.Axpy(-1e-3, l.gradient, l.params)
	return nil
}

func (s step) measure(ctx context.Context, b *bench, r *Row) error {
	l, err := newLearner(s.config)
	if err != nil {
		return err
	}
	batch := s.batch()
	tokens := batchSize * s.targets
	j := job{float64(tokens) * l.model.TrainingFLOPs(), tokens, func() error { return l.step(batch) }}
	if err := b.rates(ctx, r, j, nil); err != nil {
		return err
	}
	if s == paper {
		r.goal(r.OfPeak >= paperGoal[kernels.Set()], fmt.Sprintf("%.0f%% of peak", 100*paperGoal[kernels.Set()]))
	}
	return nil
}

// paperGoal is the goal for the paper's model on each kernel set, as a share of peak.
var paperGoal = map[string]float64{"avx512": 0.80, "avx2": 0.75}

func measureAVX2(ctx context.Context, b *bench, r *Row) error {
	if kernels.Set() == "avx2" {
		r.Skipped = "the kernels in use are these"
		return nil
	}
	restore, err := kernels.ForceSet("avx2")
	if err != nil {
		r.Skipped = err.Error()
		return nil
	}
	defer restore()
	return paper.measure(ctx, b, r)
}

// stepsPerWorker keeps the workers busy so long that their start is negligible.
const stepsPerWorker = 4

func measureTwoWorkers(ctx context.Context, b *bench, r *Row) error {
	if runtime.GOMAXPROCS(0) < 2 {
		r.Skipped = "needs two processors"
		return nil
	}
	var workers [2]*learner
	for i := range workers {
		var err error
		if workers[i], err = newLearner(paper.config); err != nil {
			return err
		}
	}
	batch := paper.batch()
	run := func(n int) func() error {
		return func() error { return runWorkers(workers[:n], batch) }
	}
	if err := run(2)(); err != nil {
		return err
	}
	var ratios, rates []float64
	for range b.Repeat {
		if err := ctx.Err(); err != nil {
			return err
		}
		one, err := clocked(run(1))
		if err != nil {
			return err
		}
		two, err := clocked(run(2))
		if err != nil {
			return err
		}
		ratios = append(ratios, 2*one/two)
		rates = append(rates, float64(2*stepsPerWorker*batchSize*paper.targets)/two)
	}
	r.Ratio, r.TokensPerSecond, r.Cores = median(ratios), median(rates), len(workers)
	r.goal(r.Ratio >= 1.9, "1.9 times")
	return nil
}

func runWorkers(workers []*learner, batch [][]int32) error {
	var group errgroup.Group
	for _, l := range workers {
		group.Go(func() error {
			for range stepsPerWorker {
				if err := l.step(batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func measureAllocations(_ context.Context, b *bench, r *Row) error {
	l, err := newLearner(paper.config)
	if err != nil {
		return err
	}
	batch := paper.batch()
	count, err := allocations(b.Repeat, func() error { return l.step(batch) })
	r.Allocations = &count
	r.goal(count == 0, "none")
	return err
}

// byteModel is the model of examples/secret-sharer-characters.yaml.
var byteModel = step{models.Config{
	Kind: models.LSTM, Vocabulary: 260, Embedding: 32, Units: 200, Layers: 2, Projection: models.Unprojected, Untied: true,
}, 80}

// clipNorm is so low that it clips almost all gradients.
const clipNorm = 0.1

// private takes the steps of training/dp-sgd, from a batch in memory.
type private struct {
	*learner
	rule  optimizers.Optimizer
	norms []float64
}

func (p *private) plain(batch [][]int32) error {
	if _, err := p.trainer.Gradient(p.params, batch, p.gradient); err != nil {
		return err
	}
	p.rule.Step(p.params, p.gradient, 1e-5)
	return nil
}

func (p *private) step(batch [][]int32) error {
	clip := func(norm float64) float64 { return privacy.ClipScale(norm, clipNorm) }
	if _, err := p.trainer.ClippedSum(p.params, batch, clip, p.gradient, p.norms); err != nil {
		return err
	}
	kernels.Scale(1/float32(len(batch)), p.gradient)
	privacy.AddGaussian(seeds.NewNormals(seeds.StreamKey(seed, seeds.Noise)), p.gradient, privacy.MeanNoise(1, clipNorm, len(batch)))
	p.rule.Step(p.params, p.gradient, 1e-5)
	return nil
}

// dearest is the maximum cost of a step of DP-SGD, in plain steps.
const dearest = 1.5

// measurePrivate compares whole steps: gradient, noise and RMSProp.
func (s step) measurePrivate(ctx context.Context, b *bench, r *Row) error {
	l, err := newLearner(s.config)
	if err != nil {
		return err
	}
	config, err := optimizers.Defaults(optimizers.RMSProp)
	if err != nil {
		return err
	}
	rule, err := optimizers.New(config, len(l.params))
	if err != nil {
		return err
	}
	batch := s.batch()
	p := private{l, rule, make([]float64, len(batch))}
	tokens := len(batch) * s.targets
	j := job{float64(tokens) * l.model.TrainingFLOPs(), tokens, func() error { return p.step(batch) }}
	if err := b.rates(ctx, r, j, func() error { return p.plain(batch) }); err != nil {
		return err
	}
	r.Ratio = 1 / r.Ratio
	r.goal(r.Ratio <= dearest, "at most 1.5 times")
	return nil
}

// noiseExperiment trains twice: the noise of the second training is correlated by four buffers.
// Users and cohorts are the same, and all updates are clipped in both.
const noiseExperiment = `
name: bench-noise
data: {source: synthetic, vocabulary: {size: %d}, users: {words: 304}}
model: {kind: cifg-lstm, embedding: %d, units: %d}
training:
  rounds: %d
  cohort: %d
  chunks: 1
  sampling: separated
  client: {batch: 16, learning_rate: 1}
  privacy: {clip: 1, delta: 1e-5}
grid:
  axes:
    training.privacy:
      - {}
      - {noise_multiplier: 1, mechanism: {kind: blt, buffers: 4, scales: [0.02, 0.06, 0.1, 0.2], decays: [0.999, 0.98, 0.9, 0.4]}}
`

// maxNoise is the maximum share of a round for noise.
const maxNoise = 0.1

// The vocabulary has four tokens that are not words.
const specialTokens = 4

// measureNoise measures the share of a round that correlated noise takes: the additional time
// of the server's task, including reading and encoding of the buffers, relative to all tasks of
// the round. It excludes the time of the store.
func (s step) measureNoise(cohort int) measure {
	return func(ctx context.Context, b *bench, r *Row) error {
		file := fmt.Sprintf(noiseExperiment, s.config.Vocabulary-specialTokens, s.config.Embedding, s.config.Units, warmRounds+b.Repeat, cohort)
		plain, noisy, err := timeTrainings(ctx, file)
		if err != nil {
			return err
		}
		var shares []float64
		for i := warmRounds; i < len(noisy); i++ {
			shares = append(shares, (noisy[i].server-plain[i].server)/(noisy[i].clients+noisy[i].server))
		}
		r.Share = median(shares)
		r.goal(r.Share <= maxNoise, fmt.Sprintf("at most %.0f%%", 100*maxNoise))
		return nil
	}
}

func timeTrainings(ctx context.Context, file string) (plain, noisy []roundTime, err error) {
	text := memoryText()
	s, err := submission.PrepareFile(ctx, "bench", []byte(file), experiment.Options{}, sources.Text(text), nil)
	if err != nil {
		return nil, nil, err
	}
	p, err := compile.Plan(s.Spec)
	if err != nil {
		return nil, nil, err
	}
	if plain, err = timeRounds(ctx, p, p.Cells[0].Chain, text); err != nil {
		return nil, nil, err
	}
	noisy, err = timeRounds(ctx, p, p.Cells[1].Chain, text)
	return plain, noisy, err
}

// warmRounds is the number of uncounted first rounds.
const warmRounds = 2

// roundTime is the duration of a round's tasks, in thread seconds.
type roundTime struct{ clients, server float64 }

func timeRounds(ctx context.Context, p *plan.Plan, c *plan.Chain, text []byte) ([]roundTime, error) {
	times := make([]roundTime, c.Steps)
	kinds := compile.Registry()
	time := func(kind tasks.Kind, add func(round *roundTime, seconds float64)) {
		run := kind.Run
		kind.Run = func(ctx context.Context, t *tasks.Task) error {
			seconds, err := timed(func() error { return run(ctx, t) })
			add(&times[t.Step-1], seconds)
			return err
		}
		kinds[kind.Name] = kind
	}
	time(training.Clients, func(r *roundTime, s float64) { r.clients += s })
	time(aggregation.Server, func(r *roundTime, s float64) { r.server += s })
	return times, localexec.New(p, kinds, text).Reach(ctx, c.At(c.Steps))
}
