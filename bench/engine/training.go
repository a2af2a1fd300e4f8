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

// newScorer returns a scorer of an untrained model.
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
	r.Ratio, r.TokensPerSecond = median(ratios), median(rates)
	r.goal(r.Ratio >= 1.9, "1.9 times")
	return nil
}

// runWorkers runs the steps of all learners concurrently.
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
