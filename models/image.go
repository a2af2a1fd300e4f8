package models

import (
	"cmp"
	"fmt"

	"coalmine/internal/registry"
)

// Kinds of networks for images. Package vision has them.
const (
	// CNN is a convolutional classifier.
	CNN Kind = "cnn"
	// CNNTagger is the same network for labels that do not exclude each other.
	CNNTagger Kind = "cnn-tagger"
	// GAN is a generative adversarial network, a discriminator and a generator.
	GAN Kind = "gan"
)

// ImageKind describes a kind of network for images.
type ImageKind struct {
	Kind Kind
	// Summary describes the network in one line; Source cites it.
	Summary, Source string
}

var imageKinds = registry.New("kind", func(k ImageKind) Kind { return k.Kind },
	ImageKind{CNN, "a classifier of images: three convolutions, two of them pooled, and two dense layers", "Augenstein et al. 2020, section 6"},
	ImageKind{CNNTagger, "the layers of the cnn with a probability of its own for each of some labels, which do not exclude each other; learns by the mean binary cross-entropy", "Augenstein et al. 2020, section 6 (layers); Orekondy et al. 2018, section 5.1 (multi-label classification)"},
	ImageKind{GAN, "a generative adversarial network for images, whose discriminator learns from data and whose generator learns on the server", "Augenstein et al. 2020, algorithm 1, appendix C.2"},
)

// ImageKinds lists the kinds of networks for images.
func ImageKinds() []ImageKind { return imageKinds.Entries() }

// ForImages reports whether networks of this kind process images.
func (k Kind) ForImages() bool {
	_, err := imageKinds.Find(k)
	return err == nil
}

// ImageShape is the shape of the images of a network. Values are stored row by row from
// the top, channels innermost.
type ImageShape struct {
	// Width and Height in pixels, 1 to 1024.
	Width  int `json:"width"`
	Height int `json:"height"`
	// Channels is 1 for grey images, 3 for colours.
	Channels int `json:"channels"`
	// Classes is the number of labels, 0..Classes-1: 1 to 256; for a CNNTagger up to MaxLabels.
	Classes int `json:"classes"`
}

// Values is the number of values of an image.
func (s ImageShape) Values() int { return s.Width * s.Height * s.Channels }

// Image is the part of a Config for images.
type Image struct {
	ImageShape
	// GAN is only for kind GAN.
	GAN Adversarial `json:"gan,omitzero"`
}

// Adversarial describes a generative adversarial network. The zero value is the network of
// Augenstein et al. (2020), appendix C.2.
type Adversarial struct {
	// Latent is the number of normal inputs of the generator. 0 means DefaultLatent.
	Latent int `json:"latent,omitempty"`
	// Normalization is the discriminator's; empty means BatchNorm. The generator normalizes by
	// batch.
	Normalization Normalization `json:"normalization,omitempty"`
	// Loss of both networks; empty means Wasserstein.
	Loss AdversarialLoss `json:"loss,omitempty"`
	// Penalty is the coefficient of the gradient penalty (Gulrajani et al. 2017, equation
	// 3). 0 means DefaultPenalty; NoPenalty leaves it out.
	Penalty float64 `json:"penalty,omitempty"`
}

// Defaults of Adversarial (Augenstein et al. 2020, appendix C.2 and table 9).
const (
	DefaultLatent  = 128
	DefaultPenalty = 10
	// NoPenalty, as Adversarial.Penalty, leaves the gradient penalty out.
	NoPenalty = -1
)

// Normalization names the normalization of a layer's outputs.
type Normalization string

// Normalizations.
const (
	BatchNorm Normalization = "batch"
	LayerNorm Normalization = "layer"
	NoNorm    Normalization = "none"
)

// Choices lists the normalizations for an experiment file.
func (Normalization) Choices() []string {
	return []string{string(BatchNorm), string(LayerNorm), string(NoNorm)}
}

// AdversarialLoss names the loss of a generative adversarial network.
type AdversarialLoss string

// Losses of generative adversarial networks.
const (
	// Wasserstein is the difference of the mean outputs (Arjovsky et al. 2017).
	Wasserstein AdversarialLoss = "wasserstein"
	// Minimax is the cross-entropy, in its non-saturating form for the generator (Goodfellow et al.
	// 2014, section 3).
	Minimax AdversarialLoss = "minimax"
)

// Choices lists the losses for an experiment file.
func (AdversarialLoss) Choices() []string { return []string{string(Wasserstein), string(Minimax)} }

// Complete returns the network with its defaults filled in; NoPenalty becomes 0.
func (a Adversarial) Complete() Adversarial {
	a.Latent = cmp.Or(a.Latent, DefaultLatent)
	a.Normalization = cmp.Or(a.Normalization, BatchNorm)
	a.Loss = cmp.Or(a.Loss, Wasserstein)
	a.Penalty = max(0, cmp.Or(a.Penalty, DefaultPenalty))
	return a
}

// Limits of images and of their networks.
const (
	maxSide    = 1024
	maxClasses = 256
	maxLatent  = 1 << 16
)

func (c Config) validateImage() error {
	var problems []error
	within(&problems, "image width", c.Image.Width, 1, maxSide)
	within(&problems, "image height", c.Image.Height, 1, maxSide)
	within(&problems, "classes", c.Image.Classes, 1, maxClasses)
	if n := c.Image.Channels; n != 1 && n != 3 {
		problems = append(problems, fmt.Errorf("%d channels: want 1, or 3 for colours", n))
	}
	if (c != Config{Kind: c.Kind, Image: c.Image}) {
		problems = append(problems, fmt.Errorf("a model of kind %s has no vocabulary, embedding, units, layers, kernel or projection", c.Kind))
	}
	switch {
	case c.Kind == GAN:
		problems = append(problems, c.Image.validateGAN()...)
	case c.Image.GAN != Adversarial{}:
		problems = append(problems, fmt.Errorf("a model of kind %s has no generator", c.Kind))
	case c.Kind == CNNTagger && c.Image.Classes > MaxLabels:
		problems = append(problems, fmt.Errorf("%d labels: want 1 to %d", c.Image.Classes, MaxLabels))
	case min(c.Image.Width, c.Image.Height) < MinSide:
		problems = append(problems, fmt.Errorf("images of %dx%d: the convolutions and poolings of kind %s need at least %d pixels a side", c.Image.Width, c.Image.Height, c.Kind, MinSide))
	}
	return invalid(problems)
}

// MinSide is the shortest side, in pixels, of images for a CNN.
const MinSide = 18

// Strides is the factor by which the discriminator divides width and height, and the
// generator multiplies them.
const Strides = 4

func (i Image) validateGAN() []error {
	var problems []error
	a := i.GAN.Complete()
	if a.Latent < 1 || a.Latent > maxLatent {
		problems = append(problems, fmt.Errorf("latent size %d: want 1 to %d", a.Latent, maxLatent))
	}
	if i.Width%Strides != 0 || i.Height%Strides != 0 {
		problems = append(problems, fmt.Errorf("images of %dx%d: a generator doubles the sides twice, so both must be multiples of %d", i.Width, i.Height, Strides))
	}
	switch a.Normalization {
	case BatchNorm, LayerNorm, NoNorm:
	default:
		problems = append(problems, fmt.Errorf("normalization %q: expected one of %v", a.Normalization, a.Normalization.Choices()))
	}
	switch a.Loss {
	case Wasserstein, Minimax:
	default:
		problems = append(problems, fmt.Errorf("loss %q: expected one of %v", a.Loss, a.Loss.Choices()))
	}
	if a.Penalty > 1e6 || i.GAN.Penalty < 0 && i.GAN.Penalty != NoPenalty {
		problems = append(problems, fmt.Errorf("gradient penalty %v: want 0 to 1e6", i.GAN.Penalty))
	}
	return problems
}
