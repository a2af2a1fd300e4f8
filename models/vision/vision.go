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
