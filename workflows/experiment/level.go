package experiment

import (
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/devices"
)

// Reading describes how texts become sentences, or the shape of the images, with all defaults
// filled in.
func (d *Data) Reading() datasets.Reading {
	tokenizer, _ := storage.ParseDigest(d.TokenizerSHA256) // zero before the file is read
	return datasets.Reading{
		Level: d.Level, Tokenizer: tokenizer, Sequence: d.Sequence, Image: d.Image.shape(), Unlabelled: d.Image.lacksLabels(), Pairs: d.Pairs,
		Label: d.Label, Tags: datasets.Tags(d.Tags), Timed: d.Order == datasets.TimeOrder, Grouped: d.grouped(), Rules: d.ReadingRules,
		Origin: datasets.Origin{
			Form: d.Form, Unit: d.Unit, Columns: d.Columns.names(), SkipFaults: d.OnError == datasets.SkipFaults,
			Split: d.Split, TestSplit: d.Test.Split, ValidationSplit: d.Validation.Split,
			Files: datasets.FileSplits(d.FileSplits),
		},
	}.Complete()
}

// grouped reports whether users' examples are divided by their groups.
func (d *Data) grouped() bool { return d.Devices != nil && d.Devices.Prior == devices.Groups }

func (c *Columns) names() forms.Columns {
	if c == nil {
		return forms.Columns{}
	}
	return forms.Columns(*c)
}

// shape returns the shape of the images; the zero value represents the default.
func (m *Image) shape() datasets.Image {
	if m == nil {
		return datasets.Image{}
	}
	return datasets.Image{Width: m.Width, Height: m.Height, Channels: m.Channels, Classes: m.Classes}
}

// lacksLabels reports whether images may lack labels.
func (m *Image) lacksLabels() bool { return m != nil && m.Unlabelled }

// Ordinary returns the number of ordinary tokens: the vocabulary without special tokens but with
// the labels of texts, or the symbols that the level defines.
func (d *Data) Ordinary() int {
	if symbols := d.Level.Scheme().Symbols; symbols != nil {
		return len(symbols)
	}
	return d.Vocabulary.Size + d.Labels()
}

// Labels returns the number of labels of texts, whose tokens precede the words.
func (d *Data) Labels() int { return len(d.Reading().LabelWords()) }

// Tokens returns the size of a model's vocabulary, special tokens included.
func (d *Data) Tokens() int { return d.Ordinary() + datasets.FirstWord }
