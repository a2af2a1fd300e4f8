package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// Config returns the network for the data: a language model over their vocabulary including special tokens,
// an encoder-decoder for pairs, or a network for images. Choices that equal defaults of models.Config are
// omitted, so that each model has one identity.
func (m *Model) Config(d *Data) models.Config {
	if m.Kind.ForImages() {
		shape := models.ImageShape(d.Reading().Image)
		if d.Label == source.TagsLabel {
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
		c.Blocks, _ = m.blocks() // checker.model reports the error
		if a := m.Adapters; a != nil {
			c.Adapters = models.NewAdapters(a.Rank, a.Alpha, a.Matrices)
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
		c.Separator = text.Separator
	}
	return c
}

// blocks returns the options of a transformer's blocks.
func (m *Model) blocks() (b models.Blocks, err error) {
	if len(m.Blocks) == 0 {
		return b, nil
	}
	return b, encoding.UnmarshalJSON(m.Blocks, &b)
}

// Begin sets the network to that of a pretrained model, and its initial weights to the checkpoint with this digest.
func (m *Model) Begin(c models.Config, digest storage.Digest) error {
	m.Embedding, m.Units, m.Layers, m.Heads, m.Context, m.Untied = c.Embedding, c.Units, max(1, c.Layers), c.Heads, c.Context, c.Untied
	m.Blocks, m.PretrainedSHA256 = nil, digest.String()
	if c.Blocks == (models.Blocks{}) {
		return nil
	}
	blocks, err := json.Marshal(c.Blocks)
	var fields map[string]any
	if err := errors.Join(err, json.Unmarshal(blocks, &fields)); err != nil {
		return err
	}
	m.Blocks, err = json.Marshal(fields) // the names are sorted
	return err
}

// Initial returns the digest of the checkpoint at which the training starts, or zero if the weights are random.
func (m *Model) Initial() storage.Digest {
	digest, _ := storage.ParseDigest(m.PretrainedSHA256) // zero if it is empty
	return digest
}

// unread reports whether the folder of a pretrained model has yet to be read.
func (m *Model) unread() bool { return m.Pretrained != "" && m.PretrainedSHA256 == "" }

// pretrained checks a model that starts with pretrained weights.
func (c *checker) pretrained() {
	const field = "model.pretrained"
	m := &c.Model
	if m.Pretrained == "" {
		if m.PretrainedSHA256 != "" {
			c.fail([]string{"model.pretrained_sha256"}, "is given without %s; expected both, or neither", field)
		}
		return
	}
	if c.Data.Level != text.SubwordLevel {
		c.fail([]string{field, "data.level"}, "needs the tokens of its tokenizer, but data.level is %s; expected %s", c.Data.Level, text.SubwordLevel)
	}
	if !m.unread() {
		if _, err := storage.ParseDigest(m.PretrainedSHA256); err != nil {
			c.fail([]string{"model.pretrained_sha256"}, "%v", err)
		}
		return
	}
	for _, name := range []string{"embedding", "units", "layers", "heads", "context", "untied", "blocks"} {
		if path := "model." + name; c.givenTogether(path, field) {
			c.fail([]string{path, field}, "describes the network, which %s already defines; remove it for this cell", m.Pretrained)
		}
	}
}

// reader returns the network that predicts labels of texts.
func (m *Model) reader(d *Data) models.Config {
	c := models.Config{Kind: m.Kind, Vocabulary: d.Tokens(), Embedding: m.Embedding, Units: m.Units, Labels: d.Labels()}
	if m.Layers > 1 {
		c.Layers = m.Layers
	}
	return c
}

// adversarial returns the fields of a gan, or zero for other kinds.
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

// MaxCanaryWords is the default number of words from which canaries at the subword level are drawn. It
// bounds the parameters of tasks; five of these words form 2^45 sequences.
const MaxCanaryWords = 512

// unlistedWords represent the words of canaries until the tokenizer is read.
var unlistedWords = makeUnlistedWords()

func makeUnlistedWords() string {
	words := make([]string, MaxCanaryWords)
	for i := range words {
		words[i] = strconv.Itoa(i)
	}
	return strings.Join(words, " ")
}

// ListCanaryWords sets the words from which canaries at the subword level are drawn, at most MaxCanaryWords, in the
// formats without a list. Other experiments stay unchanged. It is an error if there are no words.
func (e *Experiment) ListCanaryWords(words []string) error {
	if e.Canaries == nil || e.Data.Level != text.SubwordLevel {
		return nil
	}
	words = words[:min(len(words), MaxCanaryWords)]
	c := *e.Canaries
	c.Formats = slices.Clone(c.Formats)
	formats := []*CanaryFormat{&c.CanaryFormat}
	if len(c.Formats) > 0 {
		formats = nil
	}
	for i := range c.Formats {
		formats = append(formats, &c.Formats[i])
	}
	for _, f := range formats {
		if len(f.Symbols) > 0 {
			continue
		}
		if len(words) == 0 {
			return fmt.Errorf("%s has no words that are single tokens; list words as symbols", e.Data.Tokenizer)
		}
		f.Symbols = words
	}
	e.Canaries = &c
	return nil
}

// checkRead repeats the checks after the tokenizer has determined the words of canaries, or the pretrained
// model its sizes.
func (c *Cell) checkRead() error {
	e := &c.Experiment
	where, content := "canaries", "words of "+e.Data.Tokenizer
	if e.Model.Pretrained != "" {
		where, content = "model", "the sizes of "+e.Model.Pretrained
	} else if e.Data.Level != text.SubwordLevel || e.Canaries == nil {
		return nil
	}
	if err := e.check(); err != nil {
		return fmt.Errorf("%s: with %s: %w", c.Where(where), content, err)
	}
	return nil
}

// subwords checks the fields that the subword level needs or excludes.
func (c *checker) subwords() {
	if c.Data.Level != text.SubwordLevel {
		return
	}
	if c.Data.Tokenizer == "" {
		c.fail([]string{"data.tokenizer", "data.level"}, "missing, but data.level is %s; expected the path of a file tokenizer.json", c.Data.Level)
	}
	if c.Data.Sanitize != nil {
		c.fail([]string{"data.sanitize", "data.level"}, "looks for patterns in words or bytes, but data.level is %s; expected another level", c.Data.Level)
	}
}
