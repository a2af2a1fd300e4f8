package modelaudit

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/samples"
	"coalmine/tasks/datasets"
)

// SampleOptions are the options of samples from a model.
type SampleOptions struct {
	Seed uint64
	// Count is the number of samples, Length the maximum number of words or bytes
	// after the prefix, including the end; 0 for the default length of sentences.
	Count, Length int
	models.Sampling
	// Prefix is the text that every sample begins with, tokenized like texts of the data.
	Prefix string
}

// MaxSamples is the maximum number of samples in a call.
const MaxSamples = 1_000_000

func (o *SampleOptions) check() error {
	if o.Count < 1 || o.Count > MaxSamples {
		return fmt.Errorf("%d samples: expected from 1 to %d", o.Count, MaxSamples)
	}
	if most := datasets.MaxSequence + 1; o.Length < 0 || o.Length > most {
		return fmt.Errorf("samples of at most %d words or bytes: expected from 1 to %d, or 0 for the default", o.Length, most)
	}
	return o.Check()
}

// Sample draws samples from a model, one after another. With the seed and the settings of an
// experiment's audit.samples, and without a prefix, it draws those of the audit. A Text
// holds the probability of the tokens after the prefix.
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
	draw := models.Draw{Sampling: o.Sampling, Prefix: append([]int32{datasets.Begin}, prefix...), End: model.end, AtMost: o.Length}
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

// encode reads a text as the model does. A word that is not in its vocabulary is an error,
// because the model cannot distinguish such words.
func (m *Model) encode(text string) ([]int32, error) {
	l := m.texts
	var tokens []int32
	for _, word := range l.words(&Line{Text: text}) {
		token, known := l.tokens[word]
		if !known {
			return nil, fmt.Errorf("prefix %q: the word %q is not in the model's vocabulary; expected words such as %s", text, word, strings.Join(m.vocabulary.Words[datasets.FirstWord:][:min(3, m.vocabulary.Ordinary())], ", "))
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}
