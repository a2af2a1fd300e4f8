package experiment

import (
	"coalmine/models"
	"coalmine/tasks/datasets"
)

// Config is the network for the data: a language model over their vocabulary, the special
// tokens included, of pairs an encoder-decoder; or one for their images. Choices that equal the defaults of
// models.Config are left to them, so that one model has one identity.
func (m *Model) Config(d *Data) models.Config {
	if m.Kind.ForImages() {
		shape := models.ImageShape(d.Reading().Image)
		if d.Label == datasets.TagsLabel {
			shape.Classes = len(d.Tags)
		}
		return models.Config{Kind: m.Kind, Image: models.Image{ImageShape: shape, GAN: m.adversarial()}}
	}
	if m.Kind.ForLabels() {
		return m.reader(d)
	}
	if m.Kind == models.External {
		return models.Config{Kind: m.Kind}
	}
	c := models.Config{Kind: m.Kind, Vocabulary: d.Tokens(), Embedding: m.Embedding, Units: m.Units, Untied: m.Untied}
	if m.Layers > 1 {
		c.Layers = m.Layers
	}
	if m.Kind == models.Transformer {
		c.Heads = m.Heads
		if m.Context != models.DefaultContext {
			c.Context = m.Context
		}
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
	if d.Pairs {
		c.Separator = datasets.Separator
	}
	return c
}

// reader is a network that predicts the labels of texts.
func (m *Model) reader(d *Data) models.Config {
	c := models.Config{Kind: m.Kind, Vocabulary: d.Tokens(), Embedding: m.Embedding, Units: m.Units, Labels: d.Labels()}
	if m.Layers > 1 {
		c.Layers = m.Layers
	}
	return c
}

// adversarial holds the block's fields of a gan; none of other kinds.
func (m *Model) adversarial() models.Adversarial {
	if m.Kind != models.GAN {
		return models.Adversarial{}
	}
	var a models.Adversarial
	if m.Latent != models.DefaultLatent {
		a.Latent = m.Latent
	}
	if m.Normalization != models.BatchNorm {
		a.Normalization = m.Normalization
	}
	if m.Loss != models.Wasserstein {
		a.Loss = m.Loss
	}
	switch p := m.Penalty; {
	case p == nil || *p == models.DefaultPenalty:
	case *p == 0:
		a.Penalty = models.NoPenalty
	default:
		a.Penalty = *p
	}
	return a
}
