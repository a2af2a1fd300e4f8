package vision

import (
	"math/rand/v2"

	"coalmine/models"
)

// Sizes of the filters of both networks.
const (
	ganSide   = 4
	ganStride = 2
)

// weightDecay is the authors' coefficient: each loss includes half of it times the squared decayed
// weights of the learning network. Betas and the generator's last layer do not decay.
const weightDecay = 2.5e-5

// GAN is the layout of a generative adversarial network; it holds no parameters. It is immutable
// and may be shared. The networks follow the authors' code; for grey images of 28 x 28:
//
//	discriminator                                       outputs
//	conv1: 4x4 convolution, stride 2, leaky ReLU        14 x 14 x 64
//	conv2: 4x4 convolution, stride 2, leaky ReLU        7 x 7 x 128
//	dense1 without bias, normalized, beta, leaky ReLU   1024
//	dense2                                              1
//
//	generator, of 128 normal numbers
//	dense1, normalized, beta, ReLU                      1024
//	dense2, normalized, beta, ReLU                      7 x 7 x 256
//	conv1: transposed 4x4 convolution, stride 2,
//	       normalized, beta, ReLU                       14 x 14 x 64
//	conv2: the same                                     28 x 28 x 32
//	conv3: 4x4 convolution, tanh                        28 x 28 x 1
//
// Padding is "same" (see same), the slope of the leaky ReLU 0.01. A discriminator without
// normalization keeps its beta, as a bias. The vector of parameters is the discriminator, which
// learners train on data, and then the generator. Kernels are [side, side, in, out] for a
// convolution, [side, side, out, in] for a transposed one, and [in, out] for a dense layer, as in
// TensorFlow.
//
// In training, batches are normalized by their own statistics. Moving statistics are kept
// in addition: the discriminator's in .mean and .variance of batch normalization, by learners and
// by generators; they are part of a client's update. Generators keep their own, and generate images
// with them, without the share of their initial values (generator.norm.initial_share), which the
// authors' code does not remove.
type GAN struct {
	models.Layout
	options       models.Adversarial // complete
	discriminator *discriminator
	generator     *generator
}

func newGAN(config models.Config, sizes ganSizes) *GAN {
	g := &GAN{Layout: models.NewLayout(config), options: config.Image.GAN.Complete()}
	shape := config.Image.ImageShape
	g.discriminator = newDiscriminator(shape, g.options.Normalization, sizes)
	g.generator = newGenerator(shape, g.options.Latent, sizes)
	g.discriminator.name(&g.Layout)
	g.EndTrained()
	var behind models.Layout
	g.generator.name(&behind)
	for _, t := range behind.Tensors() {
		g.Add(t.Name, t.Shape...)
	}
	return g
}

// Init implements models.Network: see initialize.
func (g *GAN) Init(rng *rand.Rand) []float32 { return initialize(&g.Layout, rng) }

// ScoringFLOPs implements models.Network: of the discriminator, for one image.
func (g *GAN) ScoringFLOPs() float64 { return 2 * float64(g.discriminator.products()) }

// TrainingFLOPs implements models.Network: of the discriminator, for one image of the data. It
// includes one image of the generator, made first, and one interpolated image for the penalty. A
// gradient costs one product forward and two backward; the penalty's gradient has three forward and
// backward passes before the weight gradients, four with a normalization.
func (g *GAN) TrainingFLOPs() float64 {
	d := g.discriminator.products()
	products := g.generator.products() + 6*d
	if g.options.Penalty > 0 {
		products += 4 * d
		if g.options.Normalization != models.NoNorm {
			products += 2 * d
		}
	}
	return 2 * float64(products)
}
