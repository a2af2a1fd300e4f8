package vision

import (
	"fmt"
	"math"
	"math/rand/v2"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
	"coalmine/models"
)

// DiscriminatorLearner computes gradients of the discriminator of a GAN. It implements
// models.Learner, models.Precomputing and models.Tracking.
type DiscriminatorLearner struct {
	network *GAN
	fixed   []float32 // the generator's parameters
	rng     *rand.Rand
	// precomputed holds the vectors of the next batches if rng is nil. drawn is memory for one
	// vector from rng.
	precomputed [][]float32
	drawn       []float32
	made        generatorTrace
	trace       discriminatorTrace
}

// NewLearner implements models.Network. fixed is the generator; a learner with only
// precomputed vectors does not need it.
func (g *GAN) NewLearner(fixed []float32) models.Learner {
	return &DiscriminatorLearner{
		network: g,
		fixed:   fixed,
		made:    generatorTrace{g: g.generator},
		trace:   discriminatorTrace{d: g.discriminator},
	}
}

// UseStream implements models.Drawing. A gradient takes the generator's inputs of every
// image, normal numbers, and then, for a penalty, a uniform number per image: the position of the
// interpolated image between the given and the generated image.
func (l *DiscriminatorLearner) UseStream(rng *rand.Rand) { l.rng, l.precomputed = rng, nil }

// UsePrecomputed implements models.Precomputing.
func (l *DiscriminatorLearner) UsePrecomputed(vectors [][]float32) {
	l.rng, l.precomputed = nil, vectors
}

// Precompute implements models.Precomputing. A vector has the generated images, one after the
// other, and then the uniform numbers.
func (l *DiscriminatorLearner) Precompute(rng *rand.Rand, batches []int) ([][]float32, error) {
	if err := l.checkGenerator(); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(batches))
	for i, n := range batches {
		if n < 1 {
			return nil, fmt.Errorf("batch %d of %d is of %d images: want at least one", i+1, len(batches), n)
		}
		vectors[i] = make([]float32, n*l.perExample())
		l.drawInto(vectors[i], rng, n)
	}
	return vectors, nil
}

// perExample returns the number of values that a gradient draws per example.
func (l *DiscriminatorLearner) perExample() int {
	n := l.imageSize()
	if l.network.options.Penalty > 0 {
		n++
	}
	return n
}

func (l *DiscriminatorLearner) imageSize() int { return l.network.discriminator.conv[0].in.values() }

// drawInto makes n images and, for a penalty, draws the uniform numbers.
func (l *DiscriminatorLearner) drawInto(vector []float32, rng *rand.Rand, n int) {
	l.made.resize(n)
	l.made.keepNothing()
	l.made.draw(rng)
	l.made.train(l.fixed)
	images := copy(vector, l.made.images)
	for i := range vector[images:] {
		vector[images+i] = float32(rng.Float64())
	}
}

// next returns the vector of the current batch.
func (l *DiscriminatorLearner) next(n int) []float32 {
	if l.rng == nil {
		vector := l.precomputed[0]
		l.precomputed = l.precomputed[1:]
		return vector
	}
	l.drawn = grow(l.drawn, n*l.perExample())
	l.drawInto(l.drawn, l.rng, n)
	return l.drawn
}

// Gradient implements models.Learner: the loss is the discriminator's, with penalty and weight
// decay, and a target is an image. The generator makes as many images as there are examples.
// Generated, given and interpolated images are separate batches for the discriminator.
func (l *DiscriminatorLearner) Gradient(params []float32, examples [][]int32, gradient []float32) (models.Loss, error) {
	if err := l.check(params, examples, gradient); err != nil {
		return models.Loss{}, err
	}
	first, last := generated, given
	if l.network.options.Penalty > 0 {
		first, last = interpolated, tangent
	}
	l.prepare(examples, first)
	w, g := l.network.discriminator.views(params), l.network.discriminator.views(gradient)
	loss := l.adversarial(&w, first, last)
	if l.network.options.Penalty > 0 {
		loss += l.trace.penalize(&w, l.network.options.Penalty)
		first = l.trace.firstGradient()
	}
	l.trace.weightGradients(&g, first, last+1)
	l.clearStatistics(gradient)
	loss += decay(params, gradient, l.network.discriminator.decayed)
	if !numbers.IsFinite(loss) {
		return models.Loss{}, &models.DivergedError{Name: "loss", Value: loss}
	}
	return models.Loss{Sum: loss * float64(len(examples)), Tokens: len(examples)}, nil
}

func (l *DiscriminatorLearner) check(params []float32, examples [][]int32, gradient []float32) error {
	if err := checkCall(l.network, params, gradient); err != nil {
		return err
	}
	if err := checkExamples(l.network.Config().Image.ImageShape, examples); err != nil {
		return err
	}
	if l.rng != nil {
		return l.checkGenerator()
	}
	if len(l.precomputed) == 0 {
		return fmt.Errorf("a discriminator's gradient has no random stream: call UseStream first, or UsePrecomputed")
	}
	if have, want := len(l.precomputed[0]), len(examples)*l.perExample(); have != want {
		return fmt.Errorf("the precomputed draws of a batch have %d numbers; expected %d for its %d images", have, want, len(examples))
	}
	return nil
}

func (l *DiscriminatorLearner) checkGenerator() error {
	if want := l.network.Parameters() - l.network.Trained(); len(l.fixed) != want {
		return fmt.Errorf("the generator has %d parameters, want %d", len(l.fixed), want)
	}
	return nil
}

// prepare makes the images of each group from first on.
func (l *DiscriminatorLearner) prepare(examples [][]int32, first int) {
	n, size := len(examples), l.imageSize()
	t := &l.trace
	t.resize(n, groups)
	vector := l.next(n)
	copy(t.group(t.images, generated, size), vector)
	readImages(t.group(t.images, given, size), examples, 1)
	if first == interpolated {
		l.interpolate(size, vector[n*size:])
	}
}

// interpolate makes the images between given and generated images, at the given shares of the
// distance.
func (l *DiscriminatorLearner) interpolate(size int, shares []float32) {
	t := &l.trace
	between := t.group(t.images, interpolated, size)
	data, made := t.group(t.images, given, size), t.group(t.images, generated, size)
	for i, share := range shares {
		for at := i * size; at < (i+1)*size; at++ {
			between[at] = data[at] + float32(share*(made[at]-data[at]))
		}
	}
}

// adversarial computes the loss without penalty, and the gradients of the activations of groups
// with gradients.
func (l *DiscriminatorLearner) adversarial(w *discriminatorWeights, first, last int) (loss float64) {
	t, kind := &l.trace, l.network.options.Loss
	t.forward(w, first, given+1)
	loss = adversarialLoss(kind, 1, t.group(t.outputs, generated, 1), t.group(t.dOutputs, generated, 1))
	loss += adversarialLoss(kind, -1, t.group(t.outputs, given, 1), t.group(t.dOutputs, given, 1))
	if last == tangent {
		models.Fill(t.group(t.dOutputs, tangent, 1), 1)
	}
	t.backward(w, generated, last+1)
	return loss
}

func (l *DiscriminatorLearner) clearStatistics(gradient []float32) {
	clear(l.network.discriminator.mean.Of(gradient))
	clear(l.network.discriminator.variance.Of(gradient))
}

// Track implements models.Tracking, in the order of the authors' code:
// generated, given and interpolated images.
func (l *DiscriminatorLearner) Track(params []float32) {
	order := []int{generated, given, interpolated}
	if l.network.options.Penalty == 0 {
		order = order[:2]
	}
	for _, group := range order {
		l.trace.track(params, group)
	}
}

func (t *discriminatorTrace) track(params []float32, group int) {
	if t.d.kind == models.BatchNorm {
		t.norms[group].track(t.d.mean.Of(params), t.d.variance.Of(params))
	}
}

// Generator makes images with the parameters of a GAN, and computes gradients of its generator. It
// implements models.Generator and models.Tracking.
type Generator struct {
	network *GAN
	params  []float32
	made    generatorTrace
	judged  discriminatorTrace
}

// NewGenerator implements models.Generating.
func (g *GAN) NewGenerator(params []float32) models.Generator {
	return &Generator{
		network: g,
		params:  params,
		made:    generatorTrace{g: g.generator},
		judged:  discriminatorTrace{d: g.discriminator},
	}
}

// GeneratorFLOPs implements models.Generating.
func (g *GAN) GeneratorFLOPs() float64 {
	return 2 * float64(3*g.generator.products()+2*g.discriminator.products())
}

// Gradient implements models.Generator: the loss is the generator's, with weight decay. The
// discriminator processes the images as a separate batch, as in training.
func (g *Generator) Gradient(rng *rand.Rand, batch int, gradient []float32) (loss float64, err error) {
	if err := g.check(batch, gradient); err != nil {
		return 0, err
	}
	g.made.resize(batch)
	g.made.keep()
	g.made.draw(rng)
	g.made.train(g.params[g.network.Trained():])
	loss = g.judge()
	g.made.backward(g.params[g.network.Trained():], gradient)
	loss += decay(g.params[g.network.Trained():], gradient, g.network.generator.decayed)
	if !numbers.IsFinite(loss) {
		return 0, &models.DivergedError{Name: "loss", Value: loss}
	}
	return loss, nil
}

func (g *Generator) check(batch int, gradient []float32) error {
	if err := models.CheckParameters(g.network, g.params); err != nil {
		return err
	}
	if batch < 1 {
		return fmt.Errorf("a generator's batch of %d images: want at least 1", batch)
	}
	if want := g.network.Parameters() - g.network.Trained(); len(gradient) != want {
		return fmt.Errorf("the generator's gradient has %d elements, want %d", len(gradient), want)
	}
	return nil
}

// judge returns the loss of the images, and passes their gradient to the generator.
func (g *Generator) judge() (loss float64) {
	t, w := &g.judged, g.network.discriminator.views(g.params)
	t.resize(g.made.n, onlyGroup+1)
	copy(t.images, g.made.images)
	t.forward(&w, onlyGroup, onlyGroup+1)
	loss = adversarialLoss(g.network.options.Loss, -1, t.outputs, t.dOutputs)
	t.backward(&w, onlyGroup, onlyGroup+1)
	copy(g.made.dImages, t.imageGradient(&w, onlyGroup))
	return loss
}

// Track implements models.Tracking: it updates the statistics of the generator and, because the
// authors' code runs the discriminator in training mode too, of the discriminator.
func (g *Generator) Track(params []float32) {
	g.made.track(params[g.network.Trained():])
	g.judged.track(params, onlyGroup)
}

const madeAtOnce = 32

// Generate implements models.Generator. Images are rounded to the nearest values. An image depends
// only on its own inputs, so the first images do not depend on n.
func (g *Generator) Generate(rng *rand.Rand, n int) ([][]byte, error) {
	if err := models.CheckParameters(g.network, g.params); err != nil {
		return nil, err
	}
	images := make([][]byte, 0, max(0, n))
	for len(images) < n {
		g.made.resize(min(madeAtOnce, n-len(images)))
		g.made.keepNothing()
		g.made.draw(rng)
		g.made.generate(g.params[g.network.Trained():])
		images = g.take(images)
	}
	return images, nil
}

func (g *Generator) take(images [][]byte) [][]byte {
	size := g.network.Config().Image.Values()
	for i := range g.made.n {
		image := make([]byte, size)
		for j, x := range part(g.made.images, i, i+1, size) {
			image[j] = toLevel(x)
		}
		images = append(images, image)
	}
	return images
}

// adversarialLoss returns the loss of the discriminator's outputs y on a batch: the mean of sign*y,
// or with Minimax of the cross-entropy log(1 + e^(sign*y)), for sign 1 or -1. It sets gradient to
// the gradient of the loss.
func adversarialLoss(kind models.AdversarialLoss, sign float32, y, gradient []float32) (loss float64) {
	share := sign / float32(len(y))
	if kind == models.Minimax {
		return softplusLoss(sign, share, y, gradient)
	}
	for i, v := range y {
		loss += float64(sign * v)
		gradient[i] = share
	}
	return loss / float64(len(y))
}

// softplusLoss uses that log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
func softplusLoss(sign, share float32, y, gradient []float32) (loss float64) {
	for i, v := range y {
		gradient[i] = -float32(math.Abs(float64(v)))
	}
	kernels.Exp(gradient, gradient)
	for i, v := range y {
		x, small := sign*v, gradient[i]
		loss += float64(max(x, 0)) + kernels.LogFloat64(1+float64(small))
		if x > 0 {
			gradient[i] = share / (1 + small)
		} else {
			gradient[i] = share * (small / (1 + small))
		}
	}
	return loss / float64(len(y))
}

// decayChunk is a number of weights that fit the first-level cache.
const decayChunk = 4 << 10

// decay adds the gradient of weightDecay/2 times the squares of the spans' weights to a gradient,
// and returns that loss.
func decay(params, gradient []float32, spans []models.Span) (loss float64) {
	for _, s := range spans {
		w, g := s.Of(params), s.Of(gradient)
		for at := 0; at < len(w); at += decayChunk {
			to := min(len(w), at+decayChunk)
			loss += kernels.SquaredNorm(w[at:to])
			kernels.Axpy(weightDecay, w[at:to], g[at:to])
		}
	}
	return 0.5 * weightDecay * loss
}
