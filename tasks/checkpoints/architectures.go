// This file constructs the network of any configuration.

package checkpoints

import (
	"coalmine/models"
	"coalmine/models/vision"
)

// NewNetwork checks the configuration and returns its network.
func NewNetwork(config models.Config) (models.Network, error) {
	if config.Kind == models.External {
		return models.NewExternal(config)
	}
	if config.Kind.ForImages() {
		return vision.New(config)
	}
	if config.Kind.ForLabels() {
		return models.NewReader(config)
	}
	return models.New(config)
}
