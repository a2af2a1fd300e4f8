// Package vision holds the networks for images: the convolutional classifier and the generative
// adversarial network of Augenstein et al. (2020), "Generative Models for Effective ML on Private,
// Decentralized Datasets", which follow the authors' code, and a tagger with the classifier's layers.
//
// Networks take values in [-1, 1]: a value v of 0 to 255 becomes v/127.5 - 1. A layer's output is
// stored image after image, row by row from the top, channels innermost. An example has the form
// used by tasks: the begin symbol, the label (for a tagger, 0 or 1 for each label), then the values,
// all counted from 4.
//
//	network, err := vision.New(models.Config{Kind: models.CNN, Image: models.Image{ImageShape: shape}})
//	params := network.Init(seeds.Stream(seed, seeds.Weights))
//	learner := network.NewLearner(nil)
//	loss, err := learner.Gradient(params, examples, gradient)
//
// A GAN's learner trains the discriminator, the first part of the vector, and draws; its
// generator is trained separately, without data. Both keep statistics of their batches:
//
//	learner := network.NewLearner(params[network.Trained():]).(*vision.DiscriminatorLearner)
//	learner.UseStream(seeds.Stream(seed, seeds.Fakes, round, user))
//	loss, err := learner.Gradient(params[:network.Trained()], examples, gradient)
//	learner.Track(params[:network.Trained()]) // after the step
//
//	generator := network.(*vision.GAN).NewGenerator(params).(*vision.Generator)
//	loss, err := generator.Gradient(rng, 32, gradient)
//	generator.Track(params)
//	images, err := generator.Generate(rng, 36)
//
// docs/model.md has the equations; docs/checks/check_vision.py recomputes the gradients.
//
// # Numbers
//
// Values are float32, losses are summed in float64. Package kernels multiplies matrices, and every
// other sum has an order fixed by the sizes of the network and of the batch, so equal inputs give
// equal bytes, whichever kernels are used. Memory grows with the first batches; nothing is
// allocated after that.
package vision

import (
	"fmt"

	"coalmine/models"
)

// New checks the configuration of a network for images and returns the network.
func New(config models.Config) (models.Network, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	switch config.Kind {
	case models.CNN:
		return &Classifier{newConvolutional(config, paperClassifier)}, nil
	case models.CNNTagger:
		return &Tagger{newConvolutional(config, paperClassifier)}, nil
	case models.GAN:
		return newGAN(config, paperGAN), nil
	case models.CIFGLSTM, models.LSTM, models.GRU, models.Conv, models.Transformer, models.Regressor, models.Tagger, models.External:
	}
	return nil, fmt.Errorf("model configuration: kind %s is not a network for images", config.Kind)
}
