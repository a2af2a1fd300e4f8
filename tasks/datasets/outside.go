package datasets

import (
	"context"
	"fmt"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

// OutOfVocabulary selects the words of a corpus outside a primary model's vocabulary, for a modeler
// to inspect (Augenstein et al. 2020, section 2, T3): every occurrence of a word outside a
// vocabulary becomes an example, its UTF-8 bytes. Begin and End are the start and the end of the
// word. A word has the part and the user of its sentence.
//
// Params: OutOfVocabularyParams. Input "corpus": Import at the word level. Input "vocabulary":
// Encode at the word level. Metrics and blobs are as for Encode at the byte level.
var OutOfVocabulary = tasks.Kind{Name: "datasets/out-of-vocabulary", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runOutOfVocabulary)}

// OutOfVocabularyParams are the parameters of OutOfVocabulary.
type OutOfVocabularyParams struct {
	// Sequence is the length at which words are cut, in bytes, 1 to MaxSequence; 0 means
	// SentenceBytes.
	Sequence int `json:"sequence,omitempty"`
	// Seed and the shares apply to sentences, as in EncodeParams.
	Seed               uint64  `json:"seed"`
	TestFraction       float64 `json:"test_fraction"`
	ValidationFraction float64 `json:"validation_fraction"`
	TrainShare         float64 `json:"train_share,omitempty"`
	// Grouped reports whether the corpus has groups. A word has the group of its sentence.
	Grouped bool `json:"grouped,omitempty"`
	Splits  bool `json:"splits,omitempty"`
}

func (p *OutOfVocabularyParams) encode() EncodeParams {
	return EncodeParams{
		Seed: p.Seed, Level: text.ByteLevel, TestFraction: p.TestFraction, ValidationFraction: p.ValidationFraction, TrainShare: p.TrainShare,
		Grouped: p.Grouped, Splits: p.Splits,
	}
}

func (p *OutOfVocabularyParams) reading() source.Reading {
	return source.Reading{Level: text.ByteLevel, Sequence: p.Sequence}.Complete()
}

func runOutOfVocabulary(ctx context.Context, t *tasks.Task, p *OutOfVocabularyParams) error {
	encode := p.encode()
	if err := encode.check(); err != nil {
		return tasks.Permanent(err)
	}
	if err := p.reading().Check(); err != nil {
		return tasks.Permanent(err)
	}
	e, err := openOutside(ctx, t, p)
	if err != nil {
		return err
	}
	if err := t.Put(ctx, text.VocabularyBlob, text.JoinLines(append(text.Specials(), text.ByteLevel.Scheme().Symbols...))); err != nil {
		return err
	}
	e.metrics.DistinctWords = text.Bytes
	return e.writeParts(ctx)
}

// openOutside returns an encoder that makes examples of words.
func openOutside(ctx context.Context, t *tasks.Task, p *OutOfVocabularyParams) (*encoder, error) {
	e := &encoder{task: t, params: p.encode()}
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	if slices.Equal(e.words, text.ByteLevel.Scheme().Symbols) {
		return nil, tasks.Permanent(fmt.Errorf("the corpus was imported at the %s level; expected words, of which those outside of a vocabulary are selected", text.ByteLevel))
	}
	v, err := text.ReadVocabulary(ctx, t, VocabularyInput)
	if err != nil {
		return nil, err
	}
	e.sequence = p.reading().Sequence
	e.outside = bytesOutside(e.words, v.Words[text.FirstWord:], e.sequence)
	return e, nil
}

// bytesOutside returns, by word, the length in bytes of the words outside a vocabulary, at most a
// sequence; 0 for words in it.
func bytesOutside(words, vocabulary []string, sequence int) []int32 {
	known := setOf(vocabulary)
	lengths := make([]int32, len(words))
	for w, text := range words {
		if !known[text] {
			lengths[w] = int32(min(len(text), sequence))
		}
	}
	return lengths
}

// eachOutside calls do with the bytes of every word outside the vocabulary, as tokens.
func (e *encoder) eachOutside(words []int32, do func(tokens []int32) error) error {
	for _, w := range words {
		if e.outside[w] == 0 {
			continue
		}
		e.bytes = e.bytes[:0]
		for _, b := range []byte(e.words[w][:e.outside[w]]) {
			e.bytes = append(e.bytes, text.FirstWord+int32(b))
		}
		if err := do(e.bytes); err != nil {
			return err
		}
	}
	return nil
}

// Outside makes a Recipe select the words outside a vocabulary. The zero value selects no words.
type Outside struct {
	// Size is the number of words of the vocabulary, the most frequent words of the training part without
	// faults.
	Size int `json:"size,omitempty"`
	// Sequence is the length in words at which sentences are cut; 0 means SentenceWords.
	Sequence int `json:"sequence,omitempty"`
}
