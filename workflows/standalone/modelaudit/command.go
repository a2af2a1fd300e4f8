package modelaudit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/models/generatedimages"
	"coalmine/tasks/audits/models/samples"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
)

// Command is a model behind a command in the contract "score".
type Command struct {
	// Client is the client of the command.
	Client *score.Client
	// Batch is the number of texts per request.
	Batch int
	// Ranked is called after each canary, if it is not nil.
	Ranked func(done, of int)

	vocabulary *Vocabulary
}

// NewCommand returns a model with the vocabulary of its canaries and references, from BytesVocabulary or
// ReadWords. It returns an error if batch is less than 1.
func NewCommand(client *score.Client, vocabulary *Vocabulary, batch int) (*Command, error) {
	return &Command{Client: client, Batch: batch, vocabulary: vocabulary}, checkBatch(batch)
}

// BytesVocabulary returns the vocabulary of canaries that are plain texts.
func BytesVocabulary() *Vocabulary {
	return &Vocabulary{tokens: &text.Vocabulary{Words: append(text.Specials(), text.ByteLevel.Scheme().Symbols...)}}
}

// ReadWords reads the words of canaries and references for a command, from a file of coalmine export or a
// JSON list of words.
func ReadWords(file io.Reader) (*Vocabulary, error) {
	v, err := ReadVocabulary(file, -1)
	if err != nil || !v.listed {
		return v, err
	}
	words := text.Specials()
	for _, id := range v.ids {
		word := v.texts[id]
		if read := text.Tokenize(word); len(read) != 1 || read[0] != word || slices.Contains(words, word) {
			return nil, fmt.Errorf("entry %d of the list is %q; expected words as texts are read, each once, such as %q", id+1, word, "pin")
		}
		words = append(words, word)
	}
	return exportedVocabulary(words), nil
}

// Commanded describes an audit of a command: the number of requests, and the precision of the answers.
type Commanded struct {
	Command string `json:"command"`
	// Model is the model's name, as the command reports it. Deterministic reports whether the command
	// claims to be deterministic.
	Model         string `json:"model"`
	Deterministic bool   `json:"deterministic"`
	Queries
	// MaxExposure is the exposure of rank 1 among the references, in bits: the maximum that can be
	// measured. It is null without references.
	MaxExposure *float64 `json:"most_exposure"`
}

// Written describes whether a model writes the suffix of a canary, by the canary's own score.
type Written struct {
	// LogProbability is the natural logarithm of the probability that the model samples the
	// suffix after the prefix.
	LogProbability *float64 `json:"probabilistic_log_probability,omitempty"`
	// Queries is the number of samples that contain the suffix with probability 1/2. It is absent above 1.8e308.
	Queries *float64 `json:"probabilistic_queries,omitempty"`
	// Greedy reports whether greedy decoding after the prefix gives the suffix.
	Greedy *bool `json:"greedy_extractable,omitempty"`
}

var errCommandBeam = errors.New("beam search needs the probabilities of all next tokens, which a command does not report: set the beam width to 0 (its answers show whether greedy decoding gives a canary)")

// Run audits the model: it reports for every canary whether the model writes it, and its rank among references that
// are scored one after another. The error lists every canary that does not fit the vocabulary or the prefix.
func (c *Command) Run(ctx context.Context, list []Line, o Options) (*Report, error) {
	if o.BeamWidth != 0 {
		return nil, errCommandBeam
	}
	d := &c.Client.Description
	commanded := &Commanded{Command: c.Client.Name(), Model: d.Model, Deterministic: d.Deterministic}
	a := remote{
		scorer: c, vocabulary: c.vocabulary, options: o, batch: c.Batch, ranked: c.Ranked,
		asked: &commanded.Queries, report: &Report{Command: commanded},
	}
	a.before = func(ctx context.Context, encoded []canary) ([]float64, error) { return c.written(ctx, &a, encoded) }
	if o.References > 0 {
		commanded.MaxExposure = new((&randomsampling.Rank{Rank: 1}).Exposure(o.References))
	}
	return a.run(ctx, list)
}

// written scores the canaries alone, and returns their log-perplexities.
func (c *Command) written(ctx context.Context, a *remote, encoded []canary) ([]float64, error) {
	answers, err := c.answers(ctx, sequencesOf(encoded, a.options.Prefix), c.Batch)
	if err != nil {
		return nil, err
	}
	a.asked.Sequences += int64(len(answers))
	for i, answer := range answers {
		w := &a.report.Canaries[encoded[i].place].Written
		w.LogProbability, w.Greedy = &answer.LogProb, &answer.Greedy
		if n := probabilisticextraction.Queries(answer.LogProb, probabilisticextraction.EvenChance); !math.IsInf(n, 1) {
			w.Queries = &n
		}
	}
	return external.CostsOf(answers), nil
}

func (c *Command) costs(ctx context.Context, list []sequence, batch int) ([]float64, error) {
	answers, err := c.answers(ctx, list, batch)
	return external.CostsOf(answers), err
}

func (c *Command) logProbs(ctx context.Context, list []sequence, batch int) ([][]float64, error) {
	if !c.Client.Description.Has(score.TokenLogProbs) {
		return nil, nil
	}
	pairs, err := c.pairs(list)
	if err != nil {
		return nil, err
	}
	return c.Client.TokenLogProbs(ctx, pairs, batch)
}

func (c *Command) answers(ctx context.Context, list []sequence, batch int) ([]score.Answer, error) {
	pairs, err := c.pairs(list)
	if err != nil {
		return nil, err
	}
	return c.Client.LogLikelihoods(ctx, pairs, batch)
}

func (c *Command) requests() int64 { return c.Client.Requests() }

// pairs returns sequences as texts.
func (c *Command) pairs(list []sequence) ([]score.Pair, error) {
	pairs := make([]score.Pair, len(list))
	for i, s := range list {
		pairs[i] = external.PairOf(c.vocabulary.tokens, s.prefix, s.suffix)
		if !utf8.ValidString(pairs[i].Context) || !utf8.ValidString(pairs[i].Continuation) {
			return nil, fmt.Errorf("the text %q followed by %q is not UTF-8, which requests need; expected a prefix that ends between characters, and symbols of one byte each", pairs[i].Context, pairs[i].Continuation)
		}
	}
	return pairs, nil
}

// SampleOptions are the options of samples from a model.
type SampleOptions struct {
	Seed uint64
	// Count is the number of samples. Length is the maximum number of words or bytes after the prefix,
	// including the end; 0 means the default length of sentences.
	Count, Length int
	models.Sampling
	// Prefix is the text with which every sample begins. It is tokenized like texts of the data.
	Prefix string
}

// MaxSamples is the maximum number of samples in a call.
const MaxSamples = 1_000_000

func (o *SampleOptions) check() error {
	if o.Count < 1 || o.Count > MaxSamples {
		return fmt.Errorf("%d samples: expected from 1 to %d", o.Count, MaxSamples)
	}
	if most := text.MaxSequence + 1; o.Length < 0 || o.Length > most {
		return fmt.Errorf("samples of at most %d words or bytes: expected 1 to %d, or 0 for the default", o.Length, most)
	}
	return o.Check()
}

// Sample draws samples from a model and calls give with each. With the seed and the settings of an
// experiment's audit.samples, and without a prefix, they equal those of the audit. A Text holds the
// probability of the tokens after the prefix.
func Sample(ctx context.Context, model *Model, o SampleOptions, give func(samples.Text) error) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Length = cmp.Or(o.Length, model.vocabulary.Level().Scheme().Sequence+1)
	prefix, err := model.encode(o.Prefix)
	if err != nil {
		return err
	}
	scorer, err := model.scorer()
	if err != nil {
		return err
	}
	draw := models.Draw{Sampling: o.Sampling, Prefix: append([]int32{text.Begin}, prefix...), End: model.end, AtMost: o.Length}
	reader := samples.NewReader(model.vocabulary)
	for _, span := range audits.Split(o.Count, samples.Together) {
		if err := ctx.Err(); err != nil {
			return err
		}
		drawn, err := samples.Draw(scorer, draw, o.Seed, span.First, span.Count)
		if err != nil {
			return err
		}
		for _, d := range drawn {
			text, err := reader.Text(&samples.Drawn{Tokens: append(prefix[:len(prefix):len(prefix)], d.Tokens...), LogProbability: d.LogProbability})
			if err != nil {
				return err
			}
			if err := give(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// encode reads a text as the model does. A word outside of its vocabulary is an error, because the model
// cannot distinguish such words.
func (m *Model) encode(content string) ([]int32, error) {
	l := m.texts
	var tokens []int32
	for _, word := range l.words(&Line{Text: content}) {
		token, known := l.tokens[word]
		if !known {
			return nil, fmt.Errorf("prefix %q: the word %q is not in the model's vocabulary; expected words such as %s", content, word, strings.Join(m.vocabulary.Words[text.FirstWord:][:min(3, m.vocabulary.Ordinary())], ", "))
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// Generator is a finished model that makes images.
type Generator struct {
	// Width and Height are those of an image in pixels; Channels is the number of values of a pixel.
	Width, Height, Channels int
	model                   *checkpoints.Model
}

// OpenGenerator reads a file of coalmine export. It returns false for a model that makes no images, such as
// a language model.
func OpenGenerator(file []byte) (*Generator, bool, error) {
	model, err := checkpoints.Decode(file)
	if err != nil {
		return nil, false, err
	}
	if _, ok := model.Network.(models.Generating); !ok {
		return nil, false, nil
	}
	shape := model.Network.Config().Image.ImageShape
	return &Generator{Width: shape.Width, Height: shape.Height, Channels: shape.Channels, model: model}, true, nil
}

// Images makes images and calls give with each: values from 0 to 255, row by row, channels innermost. With
// the seed of an experiment, they equal those of its audit.generated_images.
func (g *Generator) Images(ctx context.Context, seed uint64, count int, give func(image []byte) error) error {
	if count < 1 || count > MaxSamples {
		return fmt.Errorf("%d images: expected from 1 to %d", count, MaxSamples)
	}
	return generatedimages.Generate(ctx, g.model, seed, count, give)
}

// Sheet returns a PNG file with the images in the given number of columns.
func (g *Generator) Sheet(images [][]byte, columns int) ([]byte, error) {
	return g.shape().Sheet(images, columns)
}

// PNG returns a PNG file with one image.
func (g *Generator) PNG(image []byte) ([]byte, error) { return g.shape().PNG(image) }

func (g *Generator) shape() images.Shape {
	return images.Shape{Width: g.Width, Height: g.Height, Channels: g.Channels}
}
