package modelaudit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"coalmine/internal/score"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// Command is a model that a command scores texts by, in the contract "score".
type Command struct {
	// Client asks it.
	Client *score.Client
	// Batch is how many texts a request has.
	Batch int
	// Ranked is called after each canary, if it is not nil.
	Ranked func(done, of int)

	vocabulary *Vocabulary
}

// NewCommand returns a model with the vocabulary of its canaries and references:
// BytesVocabulary, or one of ReadWords.
func NewCommand(client *score.Client, vocabulary *Vocabulary, batch int) (*Command, error) {
	return &Command{Client: client, Batch: batch, vocabulary: vocabulary}, checkBatch(batch)
}

// BytesVocabulary is that of canaries which are texts as they stand.
func BytesVocabulary() *Vocabulary {
	return &Vocabulary{tokens: &datasets.Vocabulary{Words: append(datasets.Specials(), datasets.ByteLevel.Scheme().Symbols...)}}
}

// ReadWords reads the words that canaries and references of a command consist of: those of a
// file that coalmine export has written, or a JSON list of words.
func ReadWords(file io.Reader) (*Vocabulary, error) {
	v, err := ReadVocabulary(file, -1)
	if err != nil || !v.listed {
		return v, err
	}
	words := datasets.Specials()
	for _, id := range v.ids {
		word := v.texts[id]
		if read := datasets.Tokenize(word); len(read) != 1 || read[0] != word || slices.Contains(words, word) {
			return nil, fmt.Errorf("entry %d of the list is %q; expected words as texts are read, each once, such as %q", id+1, word, "pin")
		}
		words = append(words, word)
	}
	return exportedVocabulary(words), nil
}

// Commanded counts the requests to a command, and states the precision of its answers.
type Commanded struct {
	Command string `json:"command"`
	// Model is the model's name by the command; Deterministic, whether the command claims
	// to be so.
	Model         string `json:"model"`
	Deterministic bool   `json:"deterministic"`
	Asked
	// MostExposure is the exposure of rank 1 among the references, in bits, beyond which no
	// canary can be measured; null without references.
	MostExposure *float64 `json:"most_exposure"`
}

// Written says whether a model writes the rest of a canary, by its answers for the canary
// alone.
type Written struct {
	// LogProbability is the natural logarithm of the probability that a sample of the model
	// after the prefix is the rest of the canary.
	LogProbability *float64 `json:"probabilistic_log_probability,omitempty"`
	// Queries is how many samples have it with probability 1/2; absent above 1.8e308.
	Queries *float64 `json:"probabilistic_queries,omitempty"`
	// Greedy says that greedy decoding after the prefix gives the rest of the canary.
	Greedy *bool `json:"greedy_extractable,omitempty"`
}

var errCommandBeam = errors.New("beam search needs the probability of every token that may come next, which a command does not tell: leave it out, with a beam width of 0; its answers say whether greedy decoding gives a canary")

// Run audits the model: it says of every canary whether the model writes it, and ranks it
// among references that are scored one after another. The error has every canary that the
// vocabulary or the prefix has no room for.
func (c *Command) Run(ctx context.Context, list []Line, o Options) (*Report, error) {
	if o.BeamWidth != 0 {
		return nil, errCommandBeam
	}
	d := &c.Client.Description
	commanded := &Commanded{Command: c.Client.Name(), Model: d.Model, Deterministic: d.Deterministic}
	a := remote{
		scorer: c, vocabulary: c.vocabulary, options: o, batch: c.Batch, ranked: c.Ranked,
		asked: &commanded.Asked, report: &Report{Command: commanded},
	}
	a.before = func(ctx context.Context, encoded []canary) ([]float64, error) { return c.written(ctx, &a, encoded) }
	if o.References > 0 {
		commanded.MostExposure = new((&randomsampling.Rank{Rank: 1}).Exposure(o.References))
	}
	return a.run(ctx, list)
}

// written asks about the canaries alone, and returns their log-perplexities.
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
	return costsOf(answers), nil
}

func (c *Command) costs(ctx context.Context, list []sequence, batch int) ([]float64, error) {
	answers, err := c.answers(ctx, list, batch)
	return costsOf(answers), err
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

func costsOf(answers []score.Answer) []float64 {
	costs := make([]float64, len(answers))
	for i, answer := range answers {
		costs[i] = -answer.LogProb
	}
	return costs
}

func (c *Command) requests() int64 { return c.Client.Requests() }

// pairs are sequences as texts.
func (c *Command) pairs(list []sequence) ([]score.Pair, error) {
	pairs := make([]score.Pair, len(list))
	for i, s := range list {
		pairs[i] = external.PairOf(c.vocabulary.tokens, s.prefix, s.suffix)
		if !utf8.ValidString(pairs[i].Context) || !utf8.ValidString(pairs[i].Continuation) {
			return nil, fmt.Errorf("the text %q with %q after it is not UTF-8, of which requests are; expected a prefix that ends between characters, and symbols of one byte each", pairs[i].Context, pairs[i].Continuation)
		}
	}
	return pairs, nil
}
