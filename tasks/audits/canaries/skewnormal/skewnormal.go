// Package skewnormal estimates the exposure of canaries by a skew-normal distribution that is
// fitted to the log-perplexities of random sequences (Carlini et al. 2019, section 4.3):
//
//	audits/skew-normal          the fits for some canaries under one checkpoint
//	audits/skew-normal-summary  the exposures of all canaries, and the outcome
package skewnormal

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Params struct {
	Seed uint64 `json:"seed"`
	// References is the number of random sequences, the same as in random sampling. The first half of them is
	// fitted.
	References int `json:"references"`
	// Bootstrap is the number of fits on resampled data.
	Bootstrap int `json:"bootstrap"`
	// Calibration is the number of fits and tests on data drawn from the fit.
	Calibration int `json:"calibration,omitempty"`
	canaries.Space
	Prefix int `json:"prefix"`
	// First and Count select the canaries of this task.
	First int `json:"first"`
	Count int `json:"count"`
}

// Estimate is the fitted exposure of one canary.
type Estimate struct {
	// LogPerplexity is the canary's log-perplexity after its prefix, in nats.
	LogPerplexity float64 `json:"log_perplexity"`
	// Exposure is -log2 of the fitted distribution function there, in bits. Error is its standard error by
	// the bootstrap.
	Exposure float64 `json:"exposure"`
	Error    float64 `json:"error"`
	// Support is the number of fitted references at or below the canary.
	Support int64 `json:"support"`
	Fit     Fit   `json:"fit"`
}

// Kind fits the log-perplexities of references after each prefix of canaries. Inputs: the checkpoint
// and the canaries.
var Kind = tasks.Kind{Name: "audits/skew-normal", Version: 1, Class: tasks.Compute, Run: audits.Finds(EstimatesBlob, estimate)}

// EstimatesBlob is a JSON array with an Estimate for each canary.
const EstimatesBlob = "estimates"

func estimate(ctx context.Context, t *tasks.Task, p *Params) ([]Estimate, error) {
	list, err := population.ReadPlacements(ctx, t, audits.CanariesInput)
	if err != nil {
		return nil, err
	}
	tables, err := audits.ReadTables(ctx, t)
	if err != nil {
		return nil, err
	}
	references, err := p.draw(ctx, t, tables.Scorer().Model().Config().Vocabulary-text.FirstWord, list)
	if err != nil {
		return nil, err
	}
	own := list[p.First : p.First+p.Count]
	e := &estimator{p, tables.NewTreeScorer(), references, own, make([]Estimate, p.Count)}
	groups := audits.ByPrefix(own, p.Prefix)
	for i, group := range groups {
		if err := e.estimate(ctx, group); err != nil {
			return nil, fmt.Errorf("canaries with the prefix of canary %d: %w", p.First+group.Numbers[0], err)
		}
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(len(groups)), Tokens: e.tree.Work().Advanced})
	}
	return e.estimates, nil
}

func (p *Params) draw(ctx context.Context, t *tasks.Task, ordinary int, list []population.Placement) ([][]int32, error) {
	sampling := randomsampling.Params{Seed: p.Seed, References: p.References, Space: p.Space, Prefix: p.Prefix}
	drawn, err := sampling.DrawReferences(ctx, t, ordinary, list)
	if err != nil {
		return nil, err
	}
	return randomsampling.Sequences(drawn), nil
}

type estimator struct {
	*Params
	tree       *models.TreeScorer
	references [][]int32
	canaries   []population.Placement
	estimates  []Estimate // by canary
}

func (e *estimator) estimate(ctx context.Context, group audits.Prefixed) error {
	score, err := e.scores(ctx, group.Prefix)
	if err != nil {
		return err
	}
	costs, err := score(e.references)
	if err != nil {
		return err
	}
	own := make([]float64, len(group.Numbers))
	for k, i := range group.Numbers {
		cost, err := score([][]int32{e.canaries[i].Tokens[len(group.Prefix):]})
		if err != nil {
			return err
		}
		own[k] = cost[0]
	}
	estimates, err := e.Estimates(ctx, costs, own)
	if err != nil {
		return err
	}
	for k, i := range group.Numbers {
		e.estimates[i] = estimates[k]
	}
	return nil
}

// Estimates returns the estimates of canaries with the same prefix. All costs are in nats, the references in
// the order of their draws.
func (p *Params) Estimates(ctx context.Context, references, canaries []float64) ([]Estimate, error) {
	fit, err := newFit(references)
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("the log-perplexities of %d references have no skew-normal distribution: %w; the model tells none of them from another", len(references), err))
	}
	if err := p.calibrate(ctx, &fit); err != nil {
		return nil, err
	}
	again, err := p.bootstrap(ctx, references[:fit.Fitted])
	if err != nil {
		return nil, err
	}
	fitted := slices.Sorted(slices.Values(references[:fit.Fitted]))
	estimates := make([]Estimate, len(canaries))
	for i, cost := range canaries {
		exposures := lists.Map(again, func(d Distribution) float64 { return bits(d, cost) })
		estimates[i] = Estimate{
			LogPerplexity: cost, Exposure: bits(fit.Distribution, cost), Error: stat.StdDev(exposures, nil),
			Support: atMost(fitted, cost), Fit: fit,
		}
	}
	return estimates, nil
}

// scores returns a function that scores sequences after a prefix.
func (e *estimator) scores(ctx context.Context, prefix []int32) (func(rows [][]int32) ([]float64, error), error) {
	if e.Echoes() {
		return func(rows [][]int32) ([]float64, error) {
			return audits.PairCosts(ctx, e.tree.Scorer(), prefix, rows)
		}, nil
	}
	state, err := audits.PrefixState(e.tree.Scorer(), prefix)
	return func(rows [][]int32) ([]float64, error) { return audits.LogPerplexities(ctx, e.tree, state, rows) }, err
}

func (p *Params) bootstrap(ctx context.Context, fitted []float64) ([]Distribution, error) {
	var all []Distribution
	again := make([]float64, len(fitted))
	for k := range p.Bootstrap {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rng := seeds.Stream(p.Seed, seeds.Bootstrap, uint64(k))
		for i := range again {
			again[i] = fitted[rng.IntN(len(fitted))]
		}
		d, err := FitDistribution(again)
		if err != nil {
			return nil, tasks.Permanent(fmt.Errorf("fit %d of the bootstrap: %w; use more references", k, err))
		}
		all = append(all, d)
	}
	return all, nil
}

// bits returns the exposure: -log2 of the probability of a log-perplexity of at most the canary's, in bits
// (Carlini et al. 2019, section 4.3). It has no upper bound.
func bits(d Distribution, cost float64) float64 { return -d.LogCDF(cost) / math.Ln2 }

func atMost(ascending []float64, limit float64) int64 {
	return int64(sort.Search(len(ascending), func(i int) bool { return !(ascending[i] <= limit) }))
}

type SummaryParams struct {
	Parts int `json:"parts"`
}

// Summary joins the estimates of all canaries of one checkpoint.
var Summary = tasks.Kind{Name: "audits/skew-normal-summary", Version: 2, Class: tasks.Compute, Run: audits.SummaryRun(measures, summarize)}

func summarize(ctx context.Context, t *tasks.Task, p *SummaryParams, placed []population.Placement) (*Outcome, []CanaryOutcome, error) {
	estimates, err := audits.ReadParts[Estimate](ctx, t, EstimatesBlob, len(placed), audits.PartInputs(p.Parts)...)
	if err != nil {
		return nil, nil, err
	}
	outcomes := lists.Map(estimates, func(e Estimate) CanaryOutcome { return e.CanaryOutcome() })
	v := NewOutcome(estimates, func(canary int) bool { return placed[canary].Insertions > 0 })
	return &v, outcomes, nil
}

// NewOutcome summarizes estimates. The highest exposure is over the canaries that count.
func NewOutcome(estimates []Estimate, counts func(canary int) bool) Outcome {
	var v Outcome
	prefixes := map[Distribution]bool{}
	for i := range estimates {
		e := &estimates[i]
		if counts(i) {
			v.Highest = exposure.Higher(v.Highest, e.Exposure)
		}
		if !prefixes[e.Fit.Distribution] {
			prefixes[e.Fit.Distribution] = true
			v.Fits = append(v.Fits, e.Fit)
		}
	}
	return v
}
