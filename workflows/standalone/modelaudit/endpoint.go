package modelaudit

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Endpoint is a model that is served over HTTP.
type Endpoint struct {
	// Client is the client of the endpoint; NewEndpoint sets its Texts.
	Client *CompletionsClient
	// Batch is the number of sequences per request.
	Batch int
	// Ranked is called after each canary, if it is not nil.
	Ranked func(done, of int)

	vocabulary *Vocabulary
}

// NewEndpoint returns a served model with its vocabulary.
func NewEndpoint(client *CompletionsClient, vocabulary *Vocabulary, batch int) (*Endpoint, error) {
	if err := checkBatch(batch); err != nil {
		return nil, err
	}
	client.Texts = vocabulary.texts
	return &Endpoint{Client: client, Batch: batch, vocabulary: vocabulary}, client.CheckURL()
}

// Served counts the requests to an endpoint, and states the precision of its answers.
type Served struct {
	URL   string `json:"url"`
	Model string `json:"model"`
	// NoBegin reports that sequences have no begin token.
	NoBegin bool `json:"no_begin,omitempty"`
	// Begins are tokens of the vocabulary that texts of a model often begin with.
	Begins []Token `json:"begins,omitempty"`
	Asked
}

// Token is a token of a served model.
type Token struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

// beginnings are models' names of the token before every text.
var beginnings = []string{"<s>", "<bos>", "[BOS]", "[CLS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"}

// begins returns the tokens with these names.
func (v *Vocabulary) begins() (found []Token) {
	for id, text := range v.texts {
		if slices.Contains(beginnings, text) {
			found = append(found, Token{id, text})
		}
	}
	return found
}

// errBeam is the error for a beam search on a served model.
var errBeam = errors.New("beam search needs the probability of every token that may come next, which an endpoint of completions does not tell: leave it out, with a beam width of 0")

// Run audits a served model: every canary is ranked among references that are scored one
// after another. The error lists every canary that does not fit the vocabulary or the
// prefix.
func (e *Endpoint) Run(ctx context.Context, list []Line, o Options) (*Report, error) {
	if o.BeamWidth != 0 {
		return nil, errBeam
	}
	served := e.Served()
	a := remote{
		scorer: e, vocabulary: e.vocabulary, options: o, batch: e.Batch, ranked: e.Ranked,
		asked: &served.Asked, report: &Report{Endpoint: served},
	}
	return a.run(ctx, list)
}

// Served returns the facts that are known before the first request.
func (e *Endpoint) Served() *Served {
	served := &Served{URL: e.Client.Name(), Model: e.Client.Model}
	if len(e.vocabulary.begin) == 0 {
		served.NoBegin, served.Begins = true, e.vocabulary.begins()
	}
	return served
}

func (e *Endpoint) logProbs(ctx context.Context, list []sequence, batch int) ([][]float64, error) {
	prompts := make([][]int32, len(list))
	for i, s := range list {
		prompts[i] = e.vocabulary.prompt(s.prefix, s.suffix)
	}
	logProbs, err := e.Client.Score(ctx, prompts, batch)
	if err != nil {
		return nil, err
	}
	for i, tokens := range logProbs {
		logProbs[i] = tokens[len(tokens)-len(list[i].suffix):]
		for k, p := range logProbs[i] {
			logProbs[i][k] = min(0, p)
		}
	}
	return logProbs, nil
}

func (e *Endpoint) costs(ctx context.Context, list []sequence, batch int) ([]float64, error) {
	logProbs, err := e.logProbs(ctx, list, batch)
	return sumsOf(logProbs), err
}

// sumsOf returns the log-perplexities of texts.
func sumsOf(logProbs [][]float64) []float64 {
	costs := make([]float64, len(logProbs))
	for i, tokens := range logProbs {
		for _, p := range tokens {
			costs[i] -= p
		}
	}
	return costs
}

func (e *Endpoint) requests() int64 { return e.Client.Requests() }

func checkBatch(batch int) error {
	if batch < 1 {
		return fmt.Errorf("batches of %d sequences: expected at least 1", batch)
	}
	return nil
}
