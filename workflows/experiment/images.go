package experiment

import (
	"cmp"
	"strings"

	"coalmine/models"
	"coalmine/tasks/datasets"
)

// images rejects features that apply only to texts.
func (c *checker) images() {
	if c.Data.Level.Scheme().Images {
		c.shape()
		c.textAlone()
	}
}

// readsTheData checks that the model and the audits fit the data: texts or images.
func (c *checker) readsTheData() {
	c.kind("model", c.Model.Kind)
	for _, m := range c.Audit.Asked() {
		if m.Models.Fits(c.Data.Level) {
			continue
		}
		c.fail([]string{"audit." + m.Name, "data.level"}, "measures models of %s, and data.level is %s; set it to null for this cell", m.Models, c.Data.Level)
	}
}

// Shape returns the shape of the data's images; zero for texts.
func (d *Data) Shape() datasets.Image {
	if !d.Level.Scheme().Images {
		return datasets.Image{}
	}
	return d.Reading().Image
}

// kind checks that the model at path reads data of this kind. An external one reads both.
func (c *checker) kind(path string, kind models.Kind) {
	if kind == models.External {
		return
	}
	reads, others := "texts", []string{}
	for _, k := range models.ImageKinds() {
		others = append(others, string(k.Kind))
	}
	if kind.ForImages() {
		reads, others = "images", models.Kind("").Choices()
	}
	if kind.ForImages() != c.Data.Level.Scheme().Images {
		c.fail([]string{path + ".kind", "data.level"}, "is %s, a model of %s, and data.level is %s; expected one of %s", kind, reads, cmp.Or(c.Data.Level, datasets.WordLevel), strings.Join(others, ", "))
	}
}

func (c *checker) shape() {
	if err := c.Data.Reading().Image.Check(); err != nil {
		c.fail([]string{"data.image", "data.image.width", "data.image.height", "data.image.channels"}, "cannot be read: %v", err)
	}
}

// textAlone reports the blocks that apply only to texts.
func (c *checker) textAlone() {
	for _, block := range []struct {
		path  string
		given bool
		does  string
	}{
		{"canaries", c.Canaries != nil, "are sequences of words or bytes, and no image holds any"},
		{"data.sanitize", c.Data.Sanitize != nil, "finds what has the form of personal text, and images hold no text"},
		{"data.disagreement", c.Data.Disagreement != nil, "compares how two language models take a sentence, and images are none"},
	} {
		if block.given {
			c.fail([]string{block.path, "data.level"}, "%s (data.level: image); set it to null for this cell", block.does)
		}
	}
}
