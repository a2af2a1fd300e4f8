package modelaudit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/randomsampling"
	"coalmine/tasks/audits/skewnormal"
	"coalmine/tasks/datasets"
	"coalmine/workflows/modelaudit/completions"
)

// Endpoint is a model that is served over HTTP.
type Endpoint struct {
	// Client asks it; NewEndpoint sets its Texts.
	Client *completions.Client
	// Batch is how many sequences a request has.
	Batch int
	// Ranked is called after each canary, if it is not nil.
	Ranked func(done, of int)

	vocabulary *Vocabulary
}

// NewEndpoint is a served model with its vocabulary.
func NewEndpoint(client *completions.Client, vocabulary *Vocabulary, batch int) (*Endpoint, error) {
	if batch < 1 {
		return nil, fmt.Errorf("batches of %d sequences: expected at least 1", batch)
	}
	client.Texts = vocabulary.texts
	return &Endpoint{Client: client, Batch: batch, vocabulary: vocabulary}, client.CheckURL()
}

// Served says what was asked, and how exact the answers are.
type Served struct {
	URL   string `json:"url"`
	Model string `json:"model"`
	// Sequences were scored by Requests, repeated ones included.
	Sequences int64 `json:"sequences"`
	Requests  int64 `json:"requests"`
	// Compared sequences were scored alone and in a batch. LargestDifference is that of
	// their log-perplexities, in nats: a server may add in another order in a batch.
	Compared          int     `json:"compared"`
	LargestDifference float64 `json:"largest_difference"`
}

// compared is how many references are scored alone and in a batch, for each length.
const compared = 32

// errBeam says why a served model has no beam search.
var errBeam = errors.New("beam search needs the probability of every token that may come next, which an endpoint of completions does not tell: leave it out, with a beam width of 0")

// Run audits a served model: every canary is ranked among references that are scored one
// after another. The error has every canary that the vocabulary or the prefix has no room
// for.
func (e *Endpoint) Run(ctx context.Context, list []Line, o Options) (*Report, error) {
	if o.BeamWidth != 0 {
		return nil, errBeam
	}
	if err := o.check(e.vocabulary.tokens); err != nil {
		return nil, err
	}
	if e.vocabulary.listed && (o.Format != "" || o.Symbols != "") {
		return nil, fmt.Errorf("format %q and symbols %q with a list of tokens, whose canaries are lists of ids: expected neither, or --vocabulary of a model that coalmine export has written", o.Format, o.Symbols)
	}
	if err := o.complete(e.vocabulary.tokens); err != nil {
		return nil, err
	}
	encoded, err := encode(list, e.vocabulary.lexicon(), &o)
	if err != nil {
		return nil, err
	}
	a := served{
		Endpoint: e, options: o, canaries: len(encoded),
		report: &Report{Canaries: make([]Canary, len(list)), Endpoint: &Served{URL: e.Client.Name(), Model: e.Client.Model}},
	}
	if err := a.audit(ctx, encoded); err != nil {
		return nil, err
	}
	a.report.Endpoint.Requests = e.Client.Requests()
	a.report.name(list, encoded)
	a.report.judge(o)
	return a.report, nil
}

// served is one execution of Endpoint.Run.
type served struct {
	*Endpoint
	options          Options
	report           *Report
	canaries, ranked int
}

// audit compares scores alone and in batches for all lengths, fits, and ranks with the largest
// difference.
func (a *served) audit(ctx context.Context, encoded []canary) error {
	costs := map[int][]float64{} // of the canaries, by length
	for length, group := range byLength(encoded) {
		var err error
		if costs[length], err = a.compare(ctx, length, group); err != nil {
			return err
		}
	}
	if a.options.SkewNormal > 0 {
		if err := a.fit(ctx, encoded, costs); err != nil {
			return err
		}
	}
	if a.options.References == 0 {
		return nil
	}
	for length, group := range byLength(encoded) {
		for i := range group {
			if err := a.rank(ctx, length, group, i, costs[length][i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare scores canaries and some references alone and in batches, notes the largest
// difference, and returns the log-perplexities of the canaries in batches.
func (a *served) compare(ctx context.Context, length int, group []canary) ([]float64, error) {
	prefix := a.options.Prefix
	var prompts [][]int32
	for _, c := range group {
		prompts = append(prompts, a.vocabulary.prompt(c.tokens))
	}
	params := a.options.sampling(length, len(group))
	params.References = max(params.References, a.options.SkewNormal)
	references, err := params.DrawIn(a.vocabulary.tokens, placements(group))
	if err != nil {
		return nil, err
	}
	for suffix := range references {
		prompts = append(prompts, a.vocabulary.prompt(group[0].tokens[:prefix], suffix))
		if len(prompts) == len(group)+compared {
			break
		}
	}
	together, err := a.score(ctx, prompts, length-prefix, a.Batch)
	if err != nil {
		return nil, err
	}
	alone, err := a.score(ctx, prompts, length-prefix, 1)
	if err != nil {
		return nil, err
	}
	r := a.report.Endpoint
	r.Compared += len(prompts)
	for i := range prompts {
		r.LargestDifference = max(r.LargestDifference, math.Abs(together[i]-alone[i]))
	}
	return together[:len(group)], nil
}

// fit fits the log-perplexities of references after each prefix, and takes those of the
// canaries as they are known.
func (a *served) fit(ctx context.Context, encoded []canary, costs map[int][]float64) error {
	for length, group := range byLength(encoded) {
		estimates := make([]skewnormal.Estimate, len(group))
		params, placed := a.options.fit(length, len(group)), placements(group)
		for _, alike := range audits.ByPrefix(placed, a.options.Prefix) {
			own := make([]float64, len(alike.Numbers))
			for k, i := range alike.Numbers {
				own[k] = costs[length][i]
			}
			references, err := a.references(ctx, &params, placed, alike.Prefix)
			if err != nil {
				return err
			}
			found, err := params.Estimates(ctx, references, own)
			if err != nil {
				return fmt.Errorf("canaries of length %d: %w", length, err)
			}
			for k, i := range alike.Numbers {
				estimates[i] = found[k]
			}
		}
		a.report.fitted(group, estimates)
	}
	return nil
}

// references are the log-perplexities of those that a fit looks at, after a prefix.
func (a *served) references(ctx context.Context, p *skewnormal.Params, placed []datasets.Placement, prefix []int32) ([]float64, error) {
	sampling := randomsampling.Params{Seed: p.Seed, References: p.References, Space: p.Space, Prefix: p.Prefix}
	drawn, err := sampling.DrawIn(a.vocabulary.tokens, placed)
	if err != nil {
		return nil, err
	}
	var prompts [][]int32
	for suffix := range drawn {
		prompts = append(prompts, a.vocabulary.prompt(prefix, suffix))
	}
	return a.score(ctx, prompts, p.Words-p.Prefix, a.Batch)
}

// score returns the log-perplexities, in nats, of the last tokens of prompts.
func (a *served) score(ctx context.Context, prompts [][]int32, suffix, batch int) ([]float64, error) {
	logProbs, err := a.Client.Score(ctx, prompts, batch)
	if err != nil {
		return nil, err
	}
	a.report.Endpoint.Sequences += int64(len(prompts))
	costs := make([]float64, len(prompts))
	for i, tokens := range logProbs {
		for _, p := range tokens[len(tokens)-suffix:] {
			costs[i] += max(0, -p)
		}
	}
	return costs, nil
}

// rank ranks one canary of a group.
func (a *served) rank(ctx context.Context, length int, group []canary, i int, cost float64) error {
	prefix := group[i].tokens[:a.options.Prefix]
	scores := func(ctx context.Context, suffixes [][]int32) ([]float64, error) {
		prompts := make([][]int32, len(suffixes))
		for i, suffix := range suffixes {
			prompts[i] = a.vocabulary.prompt(prefix, suffix)
		}
		return a.score(ctx, prompts, length-a.options.Prefix, a.Batch)
	}
	params := a.options.sampling(length, len(group))
	rank, interval, err := params.RankSequentially(ctx, placements(group), a.vocabulary.tokens, cost, a.report.Endpoint.LargestDifference, scores)
	if err != nil {
		return err
	}
	c := &a.report.Canaries[group[i].place]
	c.Ranked, c.RankLow, c.RankHigh = rank.Outcome(a.options.References), &interval.Low, &interval.High
	a.ranked++
	if a.Ranked != nil {
		a.Ranked(a.ranked, a.canaries)
	}
	return nil
}
