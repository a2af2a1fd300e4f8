package experiment

import "coalmine/models"

// Config is the language model over a vocabulary of so many tokens, the special
// ones included. Choices that equal the defaults of models.Config are left to
// them, so that one model has one identity.
func (m *Model) Config(vocabulary int) models.Config {
	c := models.Config{Kind: m.Kind, Vocabulary: vocabulary, Embedding: m.Embedding, Units: m.Units, Untied: m.Untied}
	if m.Layers > 1 {
		c.Layers = m.Layers
	}
	if m.Kernel != models.DefaultKernel {
		c.Kernel = m.Kernel
	}
	switch p := m.Projection; {
	case p == nil || *p == m.Embedding:
	case *p == 0:
		c.Projection = models.Unprojected
	default:
		c.Projection = *p
	}
	return c
}
