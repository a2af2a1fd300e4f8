package source

import (
	"cmp"
	"coalmine/storage"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/subwords"
	"coalmine/tasks/datasets/text"
	"errors"
	"fmt"
)

// Reading describes the conversion of texts to sentences. Its zero value reads SentenceWords words.
type Reading struct {
	Level text.Level `json:"level,omitzero"`
	// Tokenizer is the digest of the file tokenizer.json, at the subword level.
	Tokenizer storage.Digest `json:"tokenizer,omitzero"`
	// Sequence is the length at which a sentence is cut, in words, bytes or tokens, 1 to
	// MaxSequence; 0 means SentenceWords, SentenceBytes or SentenceSubwords. At the image level it
	// follows from Image.
	Sequence int `json:"sequence,omitempty"`
	// Image is the shape of images. The zero value means Default; other levels have none.
	Image images.Shape `json:"image,omitzero"`
	// Unlabelled allows images without a label, with Unknown as its token.
	Unlabelled bool `json:"unlabelled,omitempty"`
	// Pairs reports whether a record is a text and its target, each cut separately at Sequence.
	Pairs bool `json:"pairs,omitempty"`
	// Label is the predicted attribute of a text, at the word level. Its tokens precede those of
	// the words. Images may have TagsLabel: a number for each tag, 0 or 1, instead of one label.
	Label Label `json:"label,omitempty"`
	// Tags are the tags that TagsLabel predicts, one per line.
	Tags string `json:"tags,omitempty"`
	// Timed reports whether records have a time, which orders the records of a user.
	Timed bool `json:"timed,omitempty"`
	// Grouped reports whether records have a group, such as an album or a document.
	Grouped bool `json:"grouped,omitempty"`
	// Rules is the version of the rules for reading texts and images; 0 means FirstRules.
	Rules text.Rules `json:"rules,omitempty"`
	Origin

	differs   *bool               // see recordRules
	tokenizer *subwords.Tokenizer // see WithTokenizer
}

// WithTokenizer returns the reading with the tokenizer of digest Tokenizer. Reading texts at the
// subword level needs it.
func (r Reading) WithTokenizer(t *subwords.Tokenizer) Reading {
	r.tokenizer = t
	return r
}

// Subwords returns the tokenizer of the reading; nil without WithTokenizer.
func (r Reading) Subwords() *subwords.Tokenizer { return r.tokenizer }

// Longest returns the largest length of an example, for a complete reading.
func (r Reading) Longest() int {
	if r.Pairs {
		return 2*r.Sequence + 1
	}
	return r.Sequence + r.labelRoom()
}

// Complete returns the reading with defaults filled in.
func (r Reading) Complete() Reading {
	r.Level = cmp.Or(r.Level, text.WordLevel)
	if r.Level.Scheme().Images {
		r.Image = cmp.Or(r.Image, images.Default)
	}
	r.Sequence = cmp.Or(r.Sequence, r.length())
	return r
}

// Shortest returns the reading with default values left empty, so that equal
// readings have one form in parameters.
func (r Reading) Shortest() Reading {
	if r.Sequence == r.length() {
		r.Sequence = 0
	}
	if r.Image == images.Default {
		r.Image = images.Shape{}
	}
	if r.Rules.First() {
		r.Rules = 0
	}
	return r
}

// length returns the default length of examples, or the default length at which they are cut.
func (r Reading) length() int {
	if r.Level.Scheme().Images {
		return r.ImageLabels() + cmp.Or(r.Image, images.Default).Pixels()
	}
	return r.Level.Scheme().Sequence
}

// ImageLabels returns the count of numbers before the pixels of an image: one label, or one per
// tag.
func (r Reading) ImageLabels() int {
	if r.Label == TagsLabel {
		return len(r.TagList())
	}
	return 1
}

// lines returns the lineForm of sources with this reading. splits determines their splits.
func (r Reading) lines(splits *splitReader) lineForm {
	lines := textLines(r.recordRules())
	scheme, err := labels.Find(r.Label)
	switch {
	case r.Level.Scheme().Images:
		lines = r.imageLines()
	case r.Pairs:
		lines = pairLines(r.recordRules())
	case err == nil:
		lines = r.labelLines(scheme)
	}
	if r.Timed {
		lines = lines.timed()
	}
	if r.Grouped {
		lines = lines.grouped()
	}
	if r.Columns != (forms.Columns{}) {
		lines = r.renamed(lines, splits)
	}
	return lines
}

func (r Reading) Check() error {
	if err := r.Level.Check(); err != nil {
		return err
	}
	level := r.Level.Scheme()
	if err := errors.Join(r.Rules.Check(), r.checkLabel(), r.Origin.Check(level.Images)); err != nil {
		return err
	}
	if level.Subwords != (r.Tokenizer != storage.Digest{}) {
		return fmt.Errorf("a tokenizer at the %s level; expected one at the %s level, and nowhere else", level.Level, text.SubwordLevel)
	}
	if level.Images {
		return r.checkImage()
	}
	if r.Image != (images.Shape{}) || r.Unlabelled {
		return fmt.Errorf("the shape of images at the %s level; expected none", level.Level)
	}
	if r.Sequence < 0 || r.Sequence > text.MaxSequence {
		return fmt.Errorf("sequences of %d words; expected 1 to %d, or 0 for %d", r.Sequence, text.MaxSequence, level.Sequence)
	}
	return nil
}

func (r Reading) checkImage() error {
	if r.Pairs {
		return fmt.Errorf("pairs at the %s level; expected texts", r.Level)
	}
	if err := cmp.Or(r.Image, images.Default).Check(); err != nil {
		return err
	}
	if r.Sequence != 0 && r.Sequence != r.length() {
		return fmt.Errorf("sequences of %d numbers; expected %d, labels and the pixels of an image, or 0 for that", r.Sequence, r.length())
	}
	return nil
}
