package engine

import (
	"context"
	"runtime"
	"runtime/debug"

	"coalmine/internal/kernels"
	"coalmine/internal/memory"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks/checkpoints"
)

// imageBatch is the batch of rows with images.
const imageBatch = 32

// digits is the shape of grey images of 28 x 28 in 36 classes, as in Augenstein et al. 2020.
var digits = models.ImageShape{Width: 28, Height: 28, Channels: 1, Classes: 36}

// imageStep is a training step on images: of a classifier, or of one of the networks of a GAN.
type imageStep struct {
	kind       models.Kind
	generating bool
}

// imageRate is too small to change the cost of a step.
const imageRate = 1e-5

// measure fills in the figures of the row, which counts images as tokens.
func (s imageStep) measure(ctx context.Context, b *bench, r *Row) error {
	network, err := checkpoints.NewNetwork(models.Config{Kind: s.kind, Image: models.Image{ImageShape: digits}})
	if err != nil {
		return err
	}
	j := learningJob(network)
	if g, ok := network.(models.Generating); ok && s.generating {
		j = generatingJob(network, g)
	}
	if err := b.rates(ctx, r, j, nil); err != nil {
		return err
	}
	count, err := allocations(b.Repeat, j.run)
	r.Allocations = &count
	r.goal(count == 0, "no allocations")
	return err
}

// imageVectors returns the parameters of a network and a vector for a gradient.
func imageVectors(network models.Network) (params, gradient []float32) {
	params, gradient = memory.Floats(network.Parameters()), memory.Floats(network.Parameters())
	copy(params, network.Init(seeds.Stream(seed, seeds.Weights)))
	return params, gradient
}

// learningJob returns a step of a network that learns from data.
func learningJob(network models.Network) job {
	params, gradient := imageVectors(network)
	fixed := params[network.Trained():]
	params, gradient = params[:network.Trained()], gradient[:network.Trained()]
	learner, batch := network.NewLearner(fixed), imageExamples()
	if d, ok := learner.(models.Drawing); ok {
		d.UseStream(seeds.Stream(seed, seeds.Client))
	}
	return job{imageBatch * network.TrainingFLOPs(), imageBatch, func() error {
		_, err := learner.Gradient(params, batch, gradient)
		kernels.Axpy(-imageRate, gradient, params)
		return err
	}}
}

// generatingJob returns a step of a generator.
func generatingJob(network models.Network, g models.Generating) job {
	params, gradient := imageVectors(network)
	trained, gradient := params[network.Trained():], gradient[network.Trained():]
	generator, rng := g.NewGenerator(params), seeds.Stream(seed, seeds.Client)
	flops := imageBatch * generator.(interface{ GradientFLOPs() float64 }).GradientFLOPs()
	return job{flops, imageBatch, func() error {
		_, err := generator.Gradient(rng, imageBatch, gradient)
		kernels.Axpy(-imageRate, gradient, trained)
		return err
	}}
}

// imageExamples returns labelled images of noise.
func imageExamples() [][]int32 {
	rng := seeds.Stream(seed, seeds.Client)
	examples := make([][]int32, imageBatch)
	for i := range examples {
		examples[i] = []int32{1, 4 + int32(rng.IntN(digits.Classes))}
		for range digits.Values() {
			examples[i] = append(examples[i], 4+int32(rng.IntN(256)))
		}
	}
	return examples
}

// allocations returns the median number of allocations of a step that has been run before.
func allocations(repeat int, step func() error) (count float64, err error) {
	// A collection would empty the kernels' pool of workspaces, and another processor would
	// not find them there.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if err := step(); err != nil {
		return 0, err
	}
	var counts []float64
	for range repeat {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := step(); err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&after)
		counts = append(counts, float64(after.Mallocs-before.Mallocs))
	}
	return median(counts), nil
}
