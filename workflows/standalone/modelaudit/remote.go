package modelaudit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"coalmine/internal/lists"
	"coalmine/internal/score"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/tasks/external"
)

// sequence is a text in tokens, split into a given prefix and a suffix.
type sequence struct{ prefix, suffix []int32 }

// scorer is a remote model. It only computes the probabilities of texts.
type scorer interface {
	// costs returns the log-perplexities of the suffixes, in nats, in their order. Each request has batch sequences.
	costs(ctx context.Context, list []sequence, batch int) ([]float64, error)
	// logProbs returns the log-probabilities of the suffixes' tokens, at most 0, or nil if the model does
	// not provide them by token.
	logProbs(ctx context.Context, list []sequence, batch int) ([][]float64, error)
	// requests returns the number of requests so far.
	requests() int64
}

// Queries describes the requests to a remote model, and the precision of its answers.
type Queries struct {
	// Sequences is the number of scored sequences; Requests is the number of requests, including repeated ones.
	Sequences int64 `json:"sequences"`
	Requests  int64 `json:"requests"`
	// Compared is the number of sequences that were scored singly and in a batch. LargestDifference is the
	// largest difference of their log-perplexities, in nats: in a batch, a server may add in another order.
	Compared          int     `json:"compared"`
	LargestDifference float64 `json:"largest_difference"`
}

// compared is the number of references scored singly and in a batch, for each length of canaries.
const compared = 32

// remote is an audit of a remote model.
type remote struct {
	scorer     scorer
	vocabulary *Vocabulary
	options    Options
	batch      int
	ranked     func(done, of int)
	// before, if not nil, is called with the canaries before the ranking. It returns their
	// log-perplexities, in nats.
	before func(context.Context, []canary) ([]float64, error)
	report *Report
	asked  *Queries // of the report

	costs     []float64 // of the canaries, scored in batches, by place in the list
	all, done int       // numbers of canaries and of ranked canaries
}

// run ranks every canary among references that are scored one after another.
func (a *remote) run(ctx context.Context, list []Line) (*Report, error) {
	encoded, err := a.encode(list)
	if err != nil {
		return nil, err
	}
	a.all, a.report.Canaries = len(encoded), make([]Canary, len(list))
	groups, err := a.groups(encoded)
	if err != nil {
		return nil, err
	}
	if a.before == nil {
		a.before = a.canaryCosts
	}
	if a.costs, err = a.before(ctx, encoded); err != nil {
		return nil, err
	}
	n, err := checkTotal(ctx, a.scorer, a.vocabulary, encoded[0].tokens[:a.options.Prefix], a.batch)
	if a.asked.Sequences += int64(n); err != nil {
		return nil, err
	}
	if err := auditGroups(ctx, groups); err != nil {
		return nil, err
	}
	a.asked.Requests = a.scorer.requests()
	a.report.name(list, encoded)
	a.report.judge(a.options)
	return a.report, nil
}

// checkTotal scores n tokens after a prefix. It returns an error if their probabilities add up to more than 1.
func checkTotal(ctx context.Context, s scorer, v *Vocabulary, prefix []int32, batch int) (n int, err error) {
	var list []sequence
	for _, token := range external.FollowingTokens(v.tokens) {
		next := sequence{prefix, []int32{token}}
		if _, text := v.tokens.Texts(next.prefix, next.suffix); utf8.ValidString(text) { // a whole character
			list = append(list, next)
		}
	}
	costs, err := s.costs(ctx, list, batch)
	if err != nil {
		return 0, err
	}
	for i := range costs {
		costs[i] = -costs[i]
	}
	if total := score.Total(costs); total > score.MaxTotal {
		return 0, fmt.Errorf("after one text the model gives %d tokens probabilities that add up to %.4g; expected at most 1: "+
			"an audit needs natural logarithms of probabilities, not logits, logarithms to base 10 or means over tokens", len(costs), total)
	}
	return len(costs), nil
}

// encode checks and completes the options, and looks up the canaries.
func (a *remote) encode(list []Line) ([]canary, error) {
	o := &a.options
	if err := o.check(a.vocabulary.tokens); err != nil {
		return nil, err
	}
	if a.vocabulary.listed && (o.Format != "" || o.Symbols != "") {
		return nil, fmt.Errorf("format %q and symbols %q with a list of tokens, whose canaries are lists of ids: expected neither, or --vocabulary with a model written by coalmine export", o.Format, o.Symbols)
	}
	if err := o.complete(a.vocabulary.tokens); err != nil {
		return nil, err
	}
	return encode(list, a.vocabulary.lexicon(), o)
}

// canaryCosts returns the log-perplexities of the canaries.
func (a *remote) canaryCosts(ctx context.Context, encoded []canary) ([]float64, error) {
	return a.score(ctx, sequencesOf(encoded, a.options.Prefix), a.batch)
}

// sequencesOf returns canaries as sequences with a prefix of the given length.
func sequencesOf(group []canary, prefix int) []sequence {
	return lists.Map(group, func(c canary) sequence { return sequence{c.tokens[:prefix], c.tokens[prefix:]} })
}

// score returns log-perplexities, in nats, and counts the sequences.
func (a *remote) score(ctx context.Context, list []sequence, batch int) ([]float64, error) {
	costs, err := a.scorer.costs(ctx, list, batch)
	if err == nil {
		a.asked.Sequences += int64(len(list))
	}
	return costs, err
}

// auditGroups compares single and batched scores for all lengths, and then fits and ranks with the largest
// difference.
func auditGroups(ctx context.Context, groups []*remoteGroup) error {
	for _, step := range []func(*remoteGroup, context.Context) error{(*remoteGroup).compare, (*remoteGroup).fit, (*remoteGroup).rank} {
		for _, g := range groups {
			if err := step(g, ctx); err != nil {
				return fmt.Errorf("canaries of length %d: %w", len(g.canaries[0].tokens), err)
			}
		}
	}
	return nil
}

// remoteGroup is the part of an audit with the canaries of one length.
type remoteGroup struct {
	*remote
	canaries []canary
	// references are shared by all measurements of the group.
	references *randomsampling.Sequential
}

// groups returns the canaries by length. It returns an error if the references cannot be drawn.
func (a *remote) groups(encoded []canary) (groups []*remoteGroup, err error) {
	for length, canaries := range byLength(encoded) {
		params := a.options.sampling(length, len(canaries))
		g := &remoteGroup{remote: a, canaries: canaries}
		g.references = &randomsampling.Sequential{
			Params: &params, Canaries: placements(canaries), Vocabulary: a.vocabulary.tokens,
			Score: func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error) {
				return a.score(ctx, after(prefix, suffixes), a.batch)
			},
		}
		if err := g.references.CheckRoom(g.drawn()); err != nil {
			return nil, fmt.Errorf("canaries of length %d: %w", length, err)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// drawn returns the number of references to draw.
func (g *remoteGroup) drawn() int { return max(g.options.References, g.options.SkewNormal) }

// after returns sequences with the same prefix.
func after(prefix []int32, suffixes [][]int32) []sequence {
	return lists.Map(suffixes, func(suffix []int32) sequence { return sequence{prefix, suffix} })
}

// compare also scores the canaries and the first references singly, and records the largest difference.
func (g *remoteGroup) compare(ctx context.Context) error {
	o := &g.options
	rows, err := g.references.FirstSequences(min(compared, g.drawn()))
	if err != nil {
		return err
	}
	prefix := g.canaries[0].tokens[:o.Prefix]
	together, err := g.references.FirstCosts(ctx, prefix, len(rows))
	if err != nil {
		return err
	}
	together = slices.Concat(g.ownCosts(), together)
	if len(together) > 1 && slices.Min(together) == slices.Max(together) {
		return fmt.Errorf("the model gives all %d sequences the log-perplexity %g nats, so ranks are meaningless; expected scores that differ between texts (a constant score often indicates an error)", len(together), together[0])
	}
	singly, err := g.score(ctx, slices.Concat(sequencesOf(g.canaries, o.Prefix), after(prefix, rows)), 1)
	if err != nil {
		return err
	}
	g.asked.Compared += len(singly)
	for i, cost := range together {
		g.asked.LargestDifference = max(g.asked.LargestDifference, math.Abs(cost-singly[i]))
	}
	return nil
}

// ownCosts returns the log-perplexities of the group's canaries.
func (g *remoteGroup) ownCosts() []float64 {
	return lists.Map(g.canaries, func(c canary) float64 { return g.costs[c.place] })
}

// fit fits distributions to the log-perplexities of references after each prefix.
func (g *remoteGroup) fit(ctx context.Context) error {
	if g.options.SkewNormal == 0 {
		return nil
	}
	estimates, costs := make([]skewnormal.Estimate, len(g.canaries)), g.ownCosts()
	params := g.options.fit(len(g.canaries[0].tokens), len(g.canaries))
	for _, alike := range audits.ByPrefix(g.references.Canaries, g.options.Prefix) {
		canaryCosts := lists.Map(alike.Numbers, func(i int) float64 { return costs[i] })
		references, err := g.references.FirstCosts(ctx, alike.Prefix, params.References)
		if err != nil {
			return err
		}
		found, err := params.Estimates(ctx, references, canaryCosts)
		if err != nil {
			return err
		}
		for k, i := range alike.Numbers {
			estimates[i] = found[k]
		}
	}
	g.report.fitted(g.canaries, estimates)
	return nil
}

// rank ranks the canaries among the references.
func (g *remoteGroup) rank(ctx context.Context) error {
	if g.options.References == 0 {
		return nil
	}
	for i, cost := range g.ownCosts() {
		rank, interval, err := g.references.Rank(ctx, g.canaries[i].tokens[:g.options.Prefix], cost, g.asked.LargestDifference)
		if err != nil {
			return err
		}
		c := &g.report.Canaries[g.canaries[i].place]
		c.Ranked, c.RankLow, c.RankHigh = rank.CanaryOutcome(g.options.References), &interval.Low, &interval.High
		g.done++
		if g.ranked != nil {
			g.ranked(g.done, g.all)
		}
	}
	return nil
}

// Endpoint is a model served over HTTP.
type Endpoint struct {
	// Client is the client of the endpoint. NewEndpoint sets its Texts.
	Client *CompletionsClient
	// Batch is the number of sequences per request.
	Batch int
	// Ranked is called after each canary, if it is not nil.
	Ranked func(done, of int)

	vocabulary *Vocabulary
}

// NewEndpoint returns a served model with its vocabulary. It returns an error if batch is less than 1, or
// if the URL is invalid.
func NewEndpoint(client *CompletionsClient, vocabulary *Vocabulary, batch int) (*Endpoint, error) {
	if err := checkBatch(batch); err != nil {
		return nil, err
	}
	client.Texts = vocabulary.texts
	return &Endpoint{Client: client, Batch: batch, vocabulary: vocabulary}, client.CheckURL()
}

// Served describes an audit of an endpoint: the number of requests, and the precision of the answers.
type Served struct {
	URL   string `json:"url"`
	Model string `json:"model"`
	// NoBegin reports whether sequences have no begin token.
	NoBegin bool `json:"no_begin,omitempty"`
	// Begins are tokens of the vocabulary with which texts of a model often begin.
	Begins []Token `json:"begins,omitempty"`
	Queries
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
var errBeam = errors.New("beam search needs the probabilities of all next tokens, which an endpoint of completions does not report: set the beam width to 0")

// Run audits a served model: it ranks every canary among references that are scored one after another. The
// error lists every canary that does not fit the vocabulary or the prefix.
func (e *Endpoint) Run(ctx context.Context, list []Line, o Options) (*Report, error) {
	if o.BeamWidth != 0 {
		return nil, errBeam
	}
	served := e.Served()
	a := remote{
		scorer: e, vocabulary: e.vocabulary, options: o, batch: e.Batch, ranked: e.Ranked,
		asked: &served.Queries, report: &Report{Endpoint: served},
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
	prompts := lists.Map(list, func(s sequence) []int32 { return e.vocabulary.prompt(s.prefix, s.suffix) })
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
