// Package architectures knows every network that a configuration may describe.
package architectures

import "coalmine/models"

// New checks the configuration and returns its network.
func New(config models.Config) (models.Network, error) { return models.New(config) }
