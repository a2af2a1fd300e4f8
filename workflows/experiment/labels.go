package experiment

import (
	"cmp"
	"strings"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
)

// predictor is a kind of model that predicts data.label.
type predictor struct {
	kind   models.Kind
	label  source.Label
	images bool // reads images instead of texts
}

var predictors = []predictor{
	{models.Regressor, source.ScoreLabel, false},
	{models.Tagger, source.TagsLabel, false},
	{models.CNNTagger, source.TagsLabel, true},
}

// predictorFor returns the kind that predicts a label of texts or images, or "".
func predictorFor(label source.Label, images bool) models.Kind {
	for _, p := range predictors {
		if p.label == label && p.images == images {
			return p.kind
		}
	}
	return ""
}

// labelOf returns the label that a kind of model predicts, or "".
func labelOf(kind models.Kind) source.Label {
	for _, p := range predictors {
		if p.kind == kind {
			return p.label
		}
	}
	return ""
}

// Target names the unit that training and audits count: "token", or "example" if the model reads images or predicts
// labels of whole texts.
func (e *Experiment) Target() string {
	if e.Data.Level.Scheme().Images || e.Data.Label != "" {
		return "example"
	}
	return "token"
}

// labels checks that the model predicts data.label, and rejects features that other models need.
func (c *checker) labels() {
	label, kind := c.Data.Label, c.Model.Kind
	wanted := predictorFor(label, c.Data.Level.Scheme().Images)
	switch {
	case label == "" && labelOf(kind) != "":
		c.fail([]string{"model.kind", "data.label"}, "is %s, which predicts labels of whole examples, but data.label is missing; expected data.label: %s", kind, labelOf(kind))
	case label != "" && wanted == "":
		c.fail([]string{"data.label", "data.level"}, "is %s, but data.level is %s; the label of images is %s", label, c.Data.Level, source.TagsLabel)
	case label != "" && kind != wanted:
		c.fail([]string{"model.kind", "data.label"}, "is %s, but data.label is %s; expected %s, or data.label: null", kind, label, wanted)
	}
	if label == "" {
		return
	}
	if label == source.TagsLabel {
		if err := source.CheckTags(c.Data.Tags); err != nil {
			c.fail([]string{"data.tags", "data.label"}, "cannot be predicted: %v", err)
		}
	}
	c.wholeExamples()
}

// wholeExamples rejects fields that need words of texts or classes of images.
func (c *checker) wholeExamples() {
	others, examples := "language models", "whole texts"
	switch {
	case c.Data.Level.Scheme().Images:
		others, examples = "images with one class each", "images"
	case !c.Data.Level.IsZero():
		c.fail([]string{"data.label", "data.level"}, "is predicted from words, but data.level is %s; expected %s", c.Data.Level, text.WordLevel)
	}
	c.refuse([]string{"data.pairs", "data.faults", "data.select", "data.sanitize", "data.disagreement", "data.image.unlabelled", "prepare.classifier", "canaries"}, []string{"data.label"},
		"applies to %s, but the model predicts the %s of %s (data.label); set it to null for this cell", others, c.Data.Label, examples)
	for _, m := range c.Audit.Requested() {
		if m.Models != audits.Anything {
			c.fail([]string{"audit." + m.Name, "data.label"}, "measures models of %s, but the model predicts the %s of %s (data.label); set it to null for this cell", m.Models, c.Data.Label, examples)
		}
	}
}

// images checks the shape of images and rejects features that need texts.
func (c *checker) images() {
	if c.Data.Level.Scheme().Images {
		c.shape()
		c.textAlone()
	}
}

// readsTheData checks that the model and the audits can use the data.
func (c *checker) readsTheData() {
	c.kind("model", c.Model.Kind)
	for _, m := range c.Audit.Requested() {
		if m.Models.Fits(c.Data.Level) {
			continue
		}
		c.fail([]string{"audit." + m.Name, "data.level"}, "measures models of %s, but data.level is %s; set it to null for this cell%s", m.Models, c.Data.Level, c.instead(m))
	}
}

// instead recommends the privacy audits that fit the data, in place of a privacy audit that does not.
func (c *checker) instead(m Method) string {
	if !m.OfPrivacy {
		return ""
	}
	var fit []string
	for _, d := range all.Audits() {
		if d.OfPrivacy && d.Models.Fits(c.Data.Level) {
			fit = append(fit, "audit."+d.Name)
		}
	}
	return ", or use " + strings.Join(fit, " or ")
}

// Shape returns the shape of the images, or zero for texts.
func (d *Data) Shape() images.Shape {
	if !d.Level.Scheme().Images {
		return images.Shape{}
	}
	return d.Reading().Image
}

// kind checks that the model at path reads the texts or images of the data. External models read both.
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
		c.fail([]string{path + ".kind", "data.level"}, "is %s, a model of %s, but data.level is %s; expected one of %s", kind, reads, cmp.Or(c.Data.Level, text.WordLevel), strings.Join(others, ", "))
	}
}

func (c *checker) shape() {
	if err := c.Data.Reading().Image.Check(); err != nil {
		c.fail([]string{"data.image", "data.image.width", "data.image.height", "data.image.channels"}, "cannot be read: %v", err)
	}
}

// textAlone rejects blocks that need texts.
func (c *checker) textAlone() {
	remedy := "set it to null for this cell"
	if c.present[designPath] != nil {
		remedy = "keep only the design, for the canaries of audit.one_run and audit.many_runs"
	}
	c.refuse([]string{"canaries"}, []string{"data.level"}, "are sequences of words or bytes, which images cannot contain (data.level: image); %s", remedy)
	for _, block := range [][2]string{
		{"data.sanitize", "finds personal text, which images do not contain"},
		{"data.disagreement", "compares two language models on sentences, which images are not"},
	} {
		c.refuse(block[:1], []string{"data.level"}, "%s (data.level: image); set it to null for this cell", block[1])
	}
}

// Reading describes how to read the source, with all defaults.
func (d *Data) Reading() source.Reading {
	tokenizer, _ := storage.ParseDigest(d.TokenizerSHA256) // zero before the file is read
	return source.Reading{
		Level: d.Level, Tokenizer: tokenizer, Sequence: d.Sequence, Image: d.Image.shape(), Unlabelled: d.Image.lacksLabels(), Pairs: d.Pairs,
		Label: d.Label, Tags: source.Tags(d.Tags), Timed: d.Order == source.TimeOrder, Grouped: d.grouped(), Rules: d.ReadingRules,
		Origin: source.Origin{
			Form: d.Form, Unit: d.Unit, Columns: d.Columns.names(), SkipFaults: d.OnError == source.SkipFaults,
			Split: d.Split, TestSplit: d.Test.Split, ValidationSplit: d.Validation.Split,
			Files: source.FileSplits(d.FileSplits),
		},
	}.Complete()
}

// grouped reports whether users' examples are divided by group.
func (d *Data) grouped() bool { return d.Devices != nil && d.Devices.Prior == devices.Groups }

func (c *Columns) names() forms.Columns {
	if c == nil {
		return forms.Columns{}
	}
	return forms.Columns(*c)
}

// shape returns the given shape of the images, or zero for the default.
func (m *Image) shape() images.Shape {
	if m == nil {
		return images.Shape{}
	}
	return images.Shape{Width: m.Width, Height: m.Height, Channels: m.Channels, Classes: m.Classes}
}

// lacksLabels reports whether images may lack labels.
func (m *Image) lacksLabels() bool { return m != nil && m.Unlabelled }

// OrdinaryTokens returns the number of tokens without special ones: the vocabulary and the labels of texts,
// or the symbols of the level.
func (d *Data) OrdinaryTokens() int {
	if symbols := d.Level.Scheme().Symbols; symbols != nil {
		return len(symbols)
	}
	return d.Vocabulary.Size + d.Labels()
}

// Labels returns the number of tokens for labels of texts. They precede the words.
func (d *Data) Labels() int { return len(d.Reading().LabelWords()) }

// Tokens returns the size of a model's vocabulary, including special tokens.
func (d *Data) Tokens() int { return d.OrdinaryTokens() + text.FirstWord }
