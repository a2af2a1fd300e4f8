package vision

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/must"
	"coalmine/models"
)

// smallGAN has every layer of the authors' networks, with few units; its images are not square.
var smallGAN = ganSizes{discriminator: [2]int{3, 5}, generator: [3]int{6, 4, 3}, units: 7}

var ganImages = models.ImageShape{Width: 8, Height: 12, Channels: 1, Classes: 3}

func ganOf(tb testing.TB, shape models.ImageShape, a models.Adversarial, sizes ganSizes) *GAN {
	tb.Helper()
	config := models.Config{Kind: models.GAN, Image: models.Image{ImageShape: shape, GAN: a}}
	check(tb, config.Validate())
	return newGAN(config, sizes)
}

// eachGAN runs a test for every normalization and loss, with and without a penalty, with
// one of the losses in grey and with the other in colours.
func eachGAN(t *testing.T, test func(t *testing.T, g *GAN)) {
	for _, kind := range []models.Normalization{models.BatchNorm, models.LayerNorm, models.NoNorm} {
		for _, loss := range []models.AdversarialLoss{models.Wasserstein, models.Minimax} {
			for _, penalty := range []float64{models.DefaultPenalty, models.NoPenalty} {
				t.Run(fmt.Sprintf("%s,%s,%v", kind, loss, penalty), func(t *testing.T) {
					t.Parallel()
					shape := ganImages
					if loss == models.Minimax {
						shape.Channels = 3
					}
					test(t, ganOf(t, shape, models.Adversarial{Latent: 5, Normalization: kind, Loss: loss, Penalty: penalty}, smallGAN))
				})
			}
		}
	}
}

// vectors are the parameters of a GAN in both types, and its tensors.
func vectors(g *GAN, seed uint64) (params []float32, wide []float64, t tensors) {
	params = drawParams(testRand(seed), g)
	for _, tensor := range g.Tensors() { // variances are positive
		if strings.HasSuffix(tensor.Name, ".variance") {
			for i, v := range tensor.View(params) {
				tensor.View(params)[i] = max(v, 0.1)
			}
		}
		if strings.HasSuffix(tensor.Name, ".initial_share") {
			tensor.View(params)[0] = 0.4
		}
	}
	wide = widened(params)
	return params, wide, tensorsOf(g.Tensors(), wide)
}

func learnerOf(g *GAN, params []float32, stream uint64) *DiscriminatorLearner {
	l := g.NewLearner(params[g.Trained():]).(*DiscriminatorLearner)
	l.UseStream(testRand(stream))
	return l
}

func TestADiscriminatorsGradientEqualsCentralDifferences(t *testing.T) {
	t.Parallel()
	eachGAN(t, func(t *testing.T, g *GAN) {
		const batch, stream = 4, 7
		params, wide, exact := vectors(g, 1)
		shape, options := g.Config().Image.ImageShape, g.options
		examples := drawExamples(testRand(2), shape, batch)
		gradient := make([]float32, g.Trained())
		loss, err := learnerOf(g, params, stream).Gradient(params[:g.Trained()], examples, gradient)
		check(t, err)

		inputs, shares := drawn(stream, batch, options.Latent)
		data, _ := imagesOf(shape, examples)
		made := exact.generate(inputs, shape, byBatch)
		between := interpolate(data, made, shares)
		lossAt := func() float64 { return exact.discriminatorLoss(options, made, data, between) }
		near(t, "loss", []float32{float32(loss.Mean())}, []float64{lossAt()}, 1e-5)
		trained := slices.DeleteFunc(g.Tensors(), func(t models.Tensor) bool { return t.Offset >= g.Trained() })
		compareGradient(t, trained, gradient, wide, lossAt)
	})
}

func TestAGeneratorsGradientEqualsCentralDifferences(t *testing.T) {
	t.Parallel()
	eachGAN(t, func(t *testing.T, g *GAN) {
		const batch, stream = 4, 8
		params, wide, exact := vectors(g, 3)
		shape, options := g.Config().Image.ImageShape, g.options
		gradient := make([]float32, len(params))
		loss, err := g.NewGenerator(params).Gradient(testRand(stream), batch, gradient[g.Trained():])
		check(t, err)

		inputs, _ := drawn(stream, batch, options.Latent)
		lossAt := func() float64 { return exact.generatorLoss(options, shape, inputs) }
		near(t, "loss", []float32{float32(loss)}, []float64{lossAt()}, 1e-5)
		own := slices.DeleteFunc(g.Tensors(), func(t models.Tensor) bool { return t.Offset < g.Trained() })
		compareGradient(t, own, gradient, wide, lossAt)
	})
}

// The reference's gradient in the images, which its penalty is made of, is checked too.
func TestTheReferencesImageGradientEqualsCentralDifferences(t *testing.T) {
	t.Parallel()
	eachGAN(t, func(t *testing.T, g *GAN) {
		_, _, exact := vectors(g, 4)
		images, _ := imagesOf(g.Config().Image.ImageShape, drawExamples(testRand(5), g.Config().Image.ImageShape, 3))
		_, gradient := exact.discriminate(g.options.Normalization, images)
		sum := func() float64 {
			outputs, _ := exact.discriminate(g.options.Normalization, images)
			return float64(len(outputs.values)) * judge(models.Wasserstein, 1, outputs)
		}
		rng := testRand(6)
		for range 5 {
			direction, got := make([]float64, len(images.values)), 0.0
			for i, slope := range gradient.values {
				direction[i] = rng.NormFloat64()
				got += direction[i] * slope
			}
			want := centralDifference(images.values, direction, sum)
			near(t, "slope", []float32{float32(got)}, []float64{want}, 1e-5)
		}
	})
}

func TestGenerateUsesMovingStatistics(t *testing.T) {
	t.Parallel()
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	params, _, exact := vectors(g, 6)
	const n = madeAtOnce + 3
	images, err := g.NewGenerator(params).Generate(testRand(9), n)
	check(t, err)
	inputs, _ := drawn(9, n, 5)
	want := exact.generate(inputs, ganImages, exact.byStatistics)
	for i, image := range images {
		for j, v := range image {
			if x := (want.row(i).values[j] + 1) * 127.5; float64(v) > x+0.501 || float64(v) < x-0.501 {
				t.Fatalf("image %d value %d is %d, want %v", i, j, v, x)
			}
		}
	}
	few, err := g.NewGenerator(params).Generate(testRand(9), 2)
	check(t, err)
	if !slices.EqualFunc(few, images[:2], slices.Equal[[]byte]) {
		t.Error("the first images of many are not those of few")
	}
}

// After one training step, images are generated as in that step, without a trace of
// the initial statistics.
func TestFirstStepsStatisticsMatchBatch(t *testing.T) {
	t.Parallel()
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	params, stream := g.Init(testRand(1)), uint64(2)
	generator := g.NewGenerator(params).(*Generator)
	_, err := generator.Gradient(testRand(stream), madeAtOnce, make([]float32, len(params)-g.Trained()))
	check(t, err)
	trained := slices.Clone(generator.made.images)
	generator.Track(params)
	_, err = generator.Generate(testRand(stream), madeAtOnce)
	check(t, err)
	near(t, "value", generator.made.images, widened(trained), 0.05) // the variance is the unbiased one
}

// Statistics follow the authors' code: a thousandth of the way to those of each batch of
// the discriminator: of generated images, of the data, and between them.
func TestALearnersStatisticsFollowItsBatches(t *testing.T) {
	t.Parallel()
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	const batch, stream = 4, 7
	params, _, exact := vectors(g, 1)
	examples := drawExamples(testRand(2), ganImages, batch)
	learner, after := learnerOf(g, params, stream), slices.Clone(params)
	_, err := learner.Gradient(params[:g.Trained()], examples, make([]float32, g.Trained()))
	check(t, err)
	learner.Track(after[:g.Trained()])

	inputs, shares := drawn(stream, batch, 5)
	data, _ := imagesOf(ganImages, examples)
	made := exact.generate(inputs, ganImages, byBatch)
	for _, images := range []reference{made, data, interpolate(data, made, shares)} {
		exact.follow("discriminator.norm", exact.hidden(images))
	}
	compareStatistics(t, g, params, after, exact, "discriminator.norm")
}

func TestAGeneratorsStatisticsFollowItsBatches(t *testing.T) {
	t.Parallel()
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	const batch, stream = 4, 8
	params, _, exact := vectors(g, 3)
	generator, after := g.NewGenerator(params).(*Generator), slices.Clone(params)
	_, err := generator.Gradient(testRand(stream), batch, make([]float32, len(params)-g.Trained()))
	check(t, err)
	generator.Track(after)

	inputs, _ := drawn(stream, batch, 5)
	made := exact.generate(inputs, ganImages, func(name string, x reference) reference {
		exact.follow(name, x)
		return byBatch(name, x)
	})
	exact.follow("discriminator.norm", exact.hidden(made))
	exact["generator.norm.initial_share"].values[0] *= 0.999
	compareStatistics(t, g, params, after, exact, "discriminator.norm", "generator.norm", "generator.norm1", "generator.norm2", "generator.norm3", "generator.norm4")
}

// compareStatistics wants the moving statistics of some normalizations as the reference has
// them, and all else as before.
func compareStatistics(t *testing.T, g *GAN, before, after []float32, exact tensors, names ...string) {
	t.Helper()
	for _, tensor := range g.Tensors() {
		norm := tensor.Name[:strings.LastIndexByte(tensor.Name, '.')]
		if moving(tensor.Name) && slices.Contains(names, norm) {
			near(t, tensor.Name, tensor.View(after), exact[tensor.Name].values, 1e-6)
		} else if !slices.Equal(tensor.View(after), tensor.View(before)) {
			t.Errorf("%v has changed", tensor)
		}
	}
}

func TestOneImageIsABatchToo(t *testing.T) {
	t.Parallel()
	eachGAN(t, func(t *testing.T, g *GAN) {
		params, _, _ := vectors(g, 5)
		gradient := make([]float32, g.Trained())
		_, err := learnerOf(g, params, 6).Gradient(params[:g.Trained()], drawExamples(testRand(7), g.Config().Image.ImageShape, 1), gradient)
		check(t, err)
		_, err = models.FiniteNorm("gradient", gradient)
		check(t, err)
	})
}

func TestDiscriminatorGradientDoesNotDependOnEarlierBatches(t *testing.T) {
	t.Parallel()
	eachGAN(t, func(t *testing.T, g *GAN) {
		params, _, _ := vectors(g, 8)
		examples := drawExamples(testRand(9), g.Config().Image.ImageShape, 6)
		used, fresh := make([]float32, g.Trained()), make([]float32, g.Trained())
		learner := learnerOf(g, params, 10)
		_, err := learner.Gradient(params[:g.Trained()], examples, used)
		check(t, err)
		learner.UseStream(testRand(11))
		_, err = learner.Gradient(params[:g.Trained()], examples[:3], used)
		check(t, err)
		_, err = learnerOf(g, params, 11).Gradient(params[:g.Trained()], examples[:3], fresh)
		check(t, err)
		if !slices.Equal(used, fresh) {
			t.Error("a learner that has seen another batch gives another gradient")
		}
	})
}

// Three batches of several sizes; the learner with the precomputed vectors has no generator.
func TestPrecomputedGradientsMatchStream(t *testing.T) {
	t.Parallel()
	eachGAN(t, func(t *testing.T, g *GAN) {
		params, _, _ := vectors(g, 13)
		trained, sizes := params[:g.Trained()], []int{4, 1, 3}
		precomputed, err := learnerOf(g, params, 0).Precompute(testRand(14), sizes)
		check(t, err)
		want, got := make([]float32, g.Trained()), make([]float32, g.Trained())
		drawing, given := learnerOf(g, params, 14), g.NewLearner(nil).(*DiscriminatorLearner)
		given.UsePrecomputed(precomputed)
		for i, n := range sizes {
			examples := drawExamples(testRand(uint64(15+i)), g.Config().Image.ImageShape, n)
			wanted, err := drawing.Gradient(trained, examples, want)
			check(t, err)
			loss, err := given.Gradient(trained, examples, got)
			check(t, err)
			if loss != wanted || !slices.Equal(got, want) {
				t.Errorf("batch %d: other gradients by what was precomputed, loss %v, want %v", i, loss, wanted)
			}
		}
		if _, err := given.Gradient(trained, drawExamples(testRand(15), g.Config().Image.ImageShape, 1), got); err == nil {
			t.Error("a gradient beyond what was precomputed: no error")
		}
	})
}

func TestGeneratorGradientDoesNotDependOnEarlierCalls(t *testing.T) {
	t.Parallel()
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	params, _, _ := vectors(g, 12)
	used, fresh := make([]float32, len(params)-g.Trained()), make([]float32, len(params)-g.Trained())
	generator := g.NewGenerator(params)
	_, err := generator.Gradient(testRand(1), 5, used)
	check(t, err)
	_, err = generator.Generate(testRand(2), 7)
	check(t, err)
	_, err = generator.Gradient(testRand(3), 4, used)
	check(t, err)
	_, err = g.NewGenerator(params).Gradient(testRand(3), 4, fresh)
	check(t, err)
	if !slices.Equal(used, fresh) {
		t.Error("a generator that has made other images gives another gradient")
	}
}

func TestBadCallsOfAGANAreErrors(t *testing.T) {
	t.Parallel()
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	params, examples := g.Init(testRand(1)), drawExamples(testRand(2), ganImages, 2)
	trained, gradient := params[:g.Trained()], make([]float32, len(params))
	learn := func(l models.Learner, params, gradient []float32) error {
		_, err := l.Gradient(params, examples, gradient)
		return err
	}
	make := func(params []float32, batch int, gradient []float32) error {
		_, err := g.NewGenerator(params).Gradient(testRand(1), batch, gradient)
		return err
	}
	_, tooFew := g.NewGenerator(trained).Generate(testRand(1), 1)
	_, blind := g.NewLearner(nil).(*DiscriminatorLearner).Precompute(testRand(1), []int{2})
	_, empty := learnerOf(g, params, 1).Precompute(testRand(1), []int{2, 0})
	precomputed, err := learnerOf(g, params, 1).Precompute(testRand(1), []int{3})
	check(t, err)
	other := g.NewLearner(nil).(*DiscriminatorLearner)
	other.UsePrecomputed(precomputed)
	for want, err := range map[string]error{
		"the generator has 0":                   blind,
		"batch 2 of 2 is of 0 images":           empty,
		"precomputed draws of a batch have 291": learn(other, trained, gradient[:g.Trained()]),
		"call UseStream first":                  learn(g.NewLearner(params[g.Trained():]), trained, gradient[:g.Trained()]),
		"the generator has":                     learn(learnerOf(g, params[1:], 1), trained, gradient[:g.Trained()]),
		"the gradient has":                      learn(learnerOf(g, params, 1), trained, gradient),
		"batch of 0 images":                     make(params, 0, gradient[g.Trained():]),
		"the generator's gradient has":          make(params, 2, gradient),
		"the parameter vector has":              make(params[1:], 2, gradient[g.Trained():]),
		fmt.Sprintf("the parameter vector has %d elements", g.Trained()): tooFew,
	} {
		must.Say(t, err, want)
	}
}

func TestADivergedGANIsAnError(t *testing.T) {
	t.Parallel()
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	params, gradient := g.Init(testRand(1)), make([]float32, g.Parameters())
	models.Fill(g.discriminator.outKernel.Of(params), 3e38)
	_, err := learnerOf(g, params, 1).Gradient(params[:g.Trained()], drawExamples(testRand(2), ganImages, 2), gradient[:g.Trained()])
	if _, ok := errors.AsType[*models.DivergedError](err); !ok {
		t.Errorf("a discriminator that has diverged: error %v", err)
	}
	_, err = g.NewGenerator(params).Gradient(testRand(1), 2, gradient[g.Trained():])
	if _, ok := errors.AsType[*models.DivergedError](err); !ok {
		t.Errorf("a generator that has diverged: error %v", err)
	}
}

func TestAStepAllocatesNothing(t *testing.T) { // not parallel: it measures allocations
	if build.Race {
		t.Skip("the race detector allocates")
	}
	g := ganOf(t, ganImages, models.Adversarial{Latent: 5}, smallGAN)
	params, gradient := g.Init(testRand(1)), make([]float32, g.Parameters())
	examples, learner, generator, rng := drawExamples(testRand(2), ganImages, 6), learnerOf(g, params, 1), g.NewGenerator(params), testRand(2)
	c := smallClassifier(t)
	classes, classGradient := c.Init(testRand(1)), make([]float32, c.Parameters())
	images, classLearner := drawExamples(testRand(2), smallImages, 6), c.NewLearner(nil)
	for what, step := range map[string]func() error{
		"discriminator": func() error {
			_, err := learner.Gradient(params[:g.Trained()], examples, gradient[:g.Trained()])
			learner.Track(params[:g.Trained()])
			return err
		},
		"generator": func() error {
			_, err := generator.Gradient(rng, 6, gradient[g.Trained():])
			return err
		},
		"classifier": func() error {
			_, err := classLearner.Gradient(classes, images, classGradient)
			return err
		},
	} {
		check(t, step())
		if count := testing.AllocsPerRun(5, func() { check(t, step()) }); count >= 1 {
			t.Errorf("a step of the %s allocates %v times", what, count)
		}
	}
}
