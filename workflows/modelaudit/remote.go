package modelaudit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/randomsampling"
	"coalmine/tasks/audits/skewnormal"
	"coalmine/tasks/datasets"
)

// sequence is a text in tokens, of which the first part is given.
type sequence struct{ prefix, suffix []int32 }

// scorer is a model elsewhere, which can only be asked how probable a text is.
type scorer interface {
	// costs are the log-perplexities of the suffixes, in nats, in their order. Requests have
	// batch sequences each.
	costs(ctx context.Context, list []sequence, batch int) ([]float64, error)
	// requests is how many were sent so far.
	requests() int64
}

// Asked says what was asked of a model elsewhere, and how exact its answers are.
type Asked struct {
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

// remote is an audit of a model elsewhere.
type remote struct {
	scorer     scorer
	vocabulary *Vocabulary
	options    Options
	batch      int
	ranked     func(done, of int)
	// before is called with the canaries before anything is ranked, if it is not nil.
	before func(context.Context, []canary) error
	report *Report
	asked  *Asked // of the report

	canaries, done int
}

// run ranks every canary among references that are scored one after another.
func (a *remote) run(ctx context.Context, list []Line) (*Report, error) {
	encoded, err := a.encode(list)
	if err != nil {
		return nil, err
	}
	a.canaries, a.report.Canaries = len(encoded), make([]Canary, len(list))
	if a.before != nil {
		if err := a.before(ctx, encoded); err != nil {
			return nil, err
		}
	}
	if err := a.audit(ctx, encoded); err != nil {
		return nil, err
	}
	a.asked.Requests = a.scorer.requests()
	a.report.name(list, encoded)
	a.report.judge(a.options)
	return a.report, nil
}

// encode checks the options and completes them, and looks up the canaries.
func (a *remote) encode(list []Line) ([]canary, error) {
	o := &a.options
	if err := o.check(a.vocabulary.tokens); err != nil {
		return nil, err
	}
	if a.vocabulary.listed && (o.Format != "" || o.Symbols != "") {
		return nil, fmt.Errorf("format %q and symbols %q with a list of tokens, whose canaries are lists of ids: expected neither, or --vocabulary of a model that coalmine export has written", o.Format, o.Symbols)
	}
	if err := o.complete(a.vocabulary.tokens); err != nil {
		return nil, err
	}
	return encode(list, a.vocabulary.lexicon(), o)
}

// audit compares scores alone and in batches for all lengths, fits, and ranks with the largest
// difference.
func (a *remote) audit(ctx context.Context, encoded []canary) error {
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
func (a *remote) compare(ctx context.Context, length int, group []canary) ([]float64, error) {
	prefix := a.options.Prefix
	list := sequencesOf(group, prefix)
	params := a.options.sampling(length, len(group))
	params.References = max(params.References, a.options.SkewNormal)
	references, err := params.DrawIn(a.vocabulary.tokens, placements(group))
	if err != nil {
		return nil, err
	}
	for suffix := range references {
		list = append(list, sequence{group[0].tokens[:prefix], slices.Clone(suffix)})
		if len(list) == len(group)+compared {
			break
		}
	}
	together, err := a.score(ctx, list, a.batch)
	if err != nil {
		return nil, err
	}
	alone, err := a.score(ctx, list, 1)
	if err != nil {
		return nil, err
	}
	a.asked.Compared += len(list)
	for i := range list {
		a.asked.LargestDifference = max(a.asked.LargestDifference, math.Abs(together[i]-alone[i]))
	}
	return together[:len(group)], nil
}

// sequencesOf are canaries of which so many tokens are given.
func sequencesOf(group []canary, prefix int) []sequence {
	list := make([]sequence, len(group))
	for i, c := range group {
		list[i] = sequence{c.tokens[:prefix], c.tokens[prefix:]}
	}
	return list
}

// fit fits the log-perplexities of references after each prefix, and takes those of the
// canaries as they are known.
func (a *remote) fit(ctx context.Context, encoded []canary, costs map[int][]float64) error {
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
func (a *remote) references(ctx context.Context, p *skewnormal.Params, placed []datasets.Placement, prefix []int32) ([]float64, error) {
	sampling := randomsampling.Params{Seed: p.Seed, References: p.References, Space: p.Space, Prefix: p.Prefix}
	drawn, err := sampling.DrawIn(a.vocabulary.tokens, placed)
	if err != nil {
		return nil, err
	}
	var list []sequence
	for suffix := range drawn {
		list = append(list, sequence{prefix, slices.Clone(suffix)})
	}
	return a.score(ctx, list, a.batch)
}

// score returns log-perplexities, in nats, and counts them.
func (a *remote) score(ctx context.Context, list []sequence, batch int) ([]float64, error) {
	costs, err := a.scorer.costs(ctx, list, batch)
	if err == nil {
		a.asked.Sequences += int64(len(list))
	}
	return costs, err
}

// rank ranks one canary of a group.
func (a *remote) rank(ctx context.Context, length int, group []canary, i int, cost float64) error {
	prefix := group[i].tokens[:a.options.Prefix]
	scores := func(ctx context.Context, suffixes [][]int32) ([]float64, error) {
		list := make([]sequence, len(suffixes))
		for i, suffix := range suffixes {
			list[i] = sequence{prefix, suffix}
		}
		return a.score(ctx, list, a.batch)
	}
	params := a.options.sampling(length, len(group))
	rank, interval, err := params.RankSequentially(ctx, placements(group), a.vocabulary.tokens, cost, a.asked.LargestDifference, scores)
	if err != nil {
		return err
	}
	c := &a.report.Canaries[group[i].place]
	c.Ranked, c.RankLow, c.RankHigh = rank.Outcome(a.options.References), &interval.Low, &interval.High
	a.done++
	if a.ranked != nil {
		a.ranked(a.done, a.canaries)
	}
	return nil
}
