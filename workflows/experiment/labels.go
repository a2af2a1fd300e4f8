package experiment

import (
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// predictors are the kinds of models that predict what is said of texts.
var predictors = map[datasets.Label]models.Kind{
	datasets.ScoreLabel: models.Regressor,
	datasets.TagsLabel:  models.Tagger,
}

// labels checks that a cell whose texts have labels predicts them, and does nothing that
// only a language model allows.
func (c *checker) labels() {
	label, kind := c.Data.Label, c.Model.Kind
	switch {
	case label == "" && kind.ForLabels():
		c.fail([]string{"model.kind", "data.label"}, "is %s, which predicts what is said of a text, and data.label does not say what; expected data.label: %s", kind, labelOf(kind))
	case label != "" && kind != predictors[label]:
		c.fail([]string{"model.kind", "data.label"}, "is %s, and data.label is %s; expected %s, or data.label: null", kind, label, predictors[label])
	}
	if label == "" {
		return
	}
	if label == datasets.TagsLabel {
		if err := datasets.CheckTags(c.Data.Tags); err != nil {
			c.fail([]string{"data.tags", "data.label"}, "cannot be predicted: %v", err)
		}
	}
	c.wholeTexts()
}

// labelOf is what a kind of model predicts.
func labelOf(kind models.Kind) datasets.Label {
	for _, s := range datasets.Labels() {
		if predictors[s.Label] == kind {
			return s.Label
		}
	}
	return ""
}

// wholeTexts reports what is about the words of texts alone.
func (c *checker) wholeTexts() {
	if !c.Data.Level.IsZero() {
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
		{"canaries", c.Canaries != nil},
	} {
		if block.given {
			c.fail([]string{block.path, "data.label"}, "is for language models, and the model predicts the %s of whole texts (data.label); set it to null for this cell", c.Data.Label)
		}
	}
	if c.Training.Central() && c.Training.Privacy != nil {
		c.fail([]string{"training.privacy", "training.algorithm", "data.label"}, "clips the gradient of every record with sgd, which a %s cannot; use fedavg, or set it to null for this cell", c.Model.Kind)
	}
	for _, m := range c.Audit.Asked() {
		if m.Measures != audits.Anything {
			c.fail([]string{"audit." + m.Name, "data.label"}, "measures models of %s, and the model predicts the %s of whole texts (data.label); set it to null for this cell", m.Measures, c.Data.Label)
		}
	}
}
