// Package architectures constructs the network of any configuration.
package architectures

import (
	"coalmine/models"
	"coalmine/models/vision"
)

// New checks the configuration and returns its network.
func New(config models.Config) (models.Network, error) {
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
