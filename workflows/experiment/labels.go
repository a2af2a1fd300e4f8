package experiment

import (
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// predictor is a kind of models that predict the attribute of data.label.
type predictor struct {
	kind   models.Kind
	label  datasets.Label
	images bool // for images, not texts
}

var predictors = []predictor{
	{models.Regressor, datasets.ScoreLabel, false},
	{models.Tagger, datasets.TagsLabel, false},
	{models.CNNTagger, datasets.TagsLabel, true},
}

// predictorFor returns the kind for the label of texts or images, "" without a label.
func predictorFor(label datasets.Label, images bool) models.Kind {
	for _, p := range predictors {
		if p.label == label && p.images == images {
			return p.kind
		}
	}
	return ""
}

// labelOf returns the attribute that a kind of model predicts, empty if it predicts none.
func labelOf(kind models.Kind) datasets.Label {
	for _, p := range predictors {
		if p.kind == kind {
			return p.label
		}
	}
	return ""
}

// labels checks that a cell with labelled examples predicts the labels, and rejects features of
// other models.
func (c *checker) labels() {
	label, kind := c.Data.Label, c.Model.Kind
	wanted := predictorFor(label, c.Data.Level.Scheme().Images)
	switch {
	case label == "" && labelOf(kind) != "":
		c.fail([]string{"model.kind", "data.label"}, "is %s, which predicts what is said of whole examples, and data.label does not say what; expected data.label: %s", kind, labelOf(kind))
	case label != "" && wanted == "":
		c.fail([]string{"data.label", "data.level"}, "is %s, which images do not have, and data.level is %s; expected %s", label, c.Data.Level, datasets.TagsLabel)
	case label != "" && kind != wanted:
		c.fail([]string{"model.kind", "data.label"}, "is %s, and data.label is %s; expected %s, or data.label: null", kind, label, wanted)
	}
	if label == "" {
		return
	}
	if label == datasets.TagsLabel {
		if err := datasets.CheckTags(c.Data.Tags); err != nil {
			c.fail([]string{"data.tags", "data.label"}, "cannot be predicted: %v", err)
		}
	}
	c.wholeExamples()
}

// wholeExamples reports fields that apply only to words of texts or classes of images.
func (c *checker) wholeExamples() {
	others, examples := "language models", "whole texts"
	switch {
	case c.Data.Level.Scheme().Images:
		others, examples = "images with one class each", "images"
	case !c.Data.Level.IsZero():
		c.fail([]string{"data.label", "data.level"}, "is predicted of words, and data.level is %s; expected %s", c.Data.Level, datasets.WordLevel)
	}
	for _, block := range []struct {
		path  string
		given bool
	}{
		{"data.pairs", c.Data.Pairs},
		{"data.faults", len(c.Data.Faults) > 0},
		{"data.select", c.Data.Select != nil},
		{"data.sanitize", c.Data.Sanitize != nil},
		{"data.disagreement", c.Data.Disagreement != nil},
		{"data.image.unlabelled", c.Data.Image.lacksLabels()},
		{"prepare.classifier", c.Prepare.classifier() != nil},
		{"canaries", c.Canaries != nil},
	} {
		if block.given {
			c.fail([]string{block.path, "data.label"}, "is for %s, and the model predicts the %s of %s (data.label); set it to null for this cell", others, c.Data.Label, examples)
		}
	}
	if c.Training.Central() && c.Training.Privacy != nil {
		c.fail([]string{"training.privacy", "training.algorithm", "data.label"}, "clips the gradient of every record with sgd, which a %s cannot; use fedavg, or set it to null for this cell", c.Model.Kind)
	}
	for _, m := range c.Audit.Asked() {
		if m.Models != audits.Anything {
			c.fail([]string{"audit." + m.Name, "data.label"}, "measures models of %s, and the model predicts the %s of %s (data.label); set it to null for this cell", m.Models, c.Data.Label, examples)
		}
	}
}
