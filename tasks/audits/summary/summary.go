// Package summary holds the kind that puts both audits of the canaries together:
//
//	audits/summary  the ranks and extractions of all canaries of one checkpoint
package summary

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/beamsearch"
	"coalmine/tasks/audits/onerun"
	"coalmine/tasks/audits/randomsampling"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
)

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Summary} }

// SamplingInput and BeamInput name the partial audits that a summary joins.
func SamplingInput(i int) string { return fmt.Sprintf("sampling-%d", i) }

// BeamInput names part i of the beam search.
func BeamInput(i int) string { return fmt.Sprintf("beam-%d", i) }

// SummaryParams are the parameters of audits/summary. A method with no parts
// was not asked for.
type SummaryParams struct {
	SamplingParts int `json:"sampling_parts,omitempty"`
	References    int `json:"references,omitempty"`
	BeamParts     int `json:"beam_parts,omitempty"`
	BeamWidth     int `json:"beam_width,omitempty"`
}

// SummaryBlob is the Audit of one checkpoint, as JSON.
const SummaryBlob = "audit"

// Audit is what a checkpoint has memorized, as results print it.
type Audit struct {
	RandomSampling *SamplingVerdict `json:"random_sampling,omitempty"`
	BeamSearch     *BeamVerdict     `json:"beam_search,omitempty"`
	// OneRun is about other canaries than all the rest.
	OneRun *onerun.Verdict `json:"one_run,omitempty"`
	// Canaries are those with at least one copy in the population.
	Canaries []CanaryResult `json:"canaries"`
	// NeverInserted were drawn into no user's data; they count nowhere.
	NeverInserted []CanaryResult `json:"never_inserted"`
	// Controls were held back on purpose.
	Controls []CanaryResult `json:"controls"`
}

// NewAudit is an audit without canaries.
func NewAudit() *Audit {
	return &Audit{Canaries: []CanaryResult{}, NeverInserted: []CanaryResult{}, Controls: []CanaryResult{}}
}

// SamplingVerdict counts the canaries of rank 1.
type SamplingVerdict struct {
	Memorized  int            `json:"memorized"`
	Of         int            `json:"of"`
	References int            `json:"references"`
	Lowest     *Configuration `json:"lowest"`
}

// BeamVerdict counts the canaries that were extracted.
type BeamVerdict struct {
	Memorized int            `json:"memorized"`
	Of        int            `json:"of"`
	Width     int            `json:"width"`
	Lowest    *Configuration `json:"lowest"`
}

// Configuration is how often a canary was meant to be inserted.
type Configuration struct {
	UserProbability    float64 `json:"user_probability"`
	ExampleProbability float64 `json:"example_probability"`
}

// CanaryResult is one canary: where it went and what became of it.
type CanaryResult struct {
	Words              []string `json:"words"`
	UserProbability    float64  `json:"user_probability"`
	ExampleProbability float64  `json:"example_probability"`
	// Users are the sharers, before an iid shuffle; Holders the users that hold
	// copies after it; Insertions the copies.
	Users      int `json:"users"`
	Holders    int `json:"holders"`
	Insertions int `json:"insertions"`
	CanaryOutcome

	configuration canaries.Configuration // the two probabilities, exact
}

// CanaryOutcome is what the audits say of one canary; fields are null where they
// were not asked for.
type CanaryOutcome struct {
	// Rank among the references, in RankExact whether it was counted or estimated.
	Rank          *int64   `json:"rank"`
	RankExact     *bool    `json:"rank_exact"`
	LogPerplexity *float64 `json:"log_perplexity"`
	// Exposure in bits; ExposureSE is its standard error where the rank was
	// estimated. Censored: the rank is 1, so the exposure is only a lower bound.
	Exposure         *float64 `json:"exposure"`
	ExposureSE       *float64 `json:"exposure_se"`
	ExposureCensored *bool    `json:"exposure_censored"`
	Memorized        *bool    `json:"memorized"`
	BeamFound        *bool    `json:"beam_found"`
}

// SetRank takes in what random sampling found among so many references.
func (o *CanaryOutcome) SetRank(rank randomsampling.Rank, references int) {
	exposure, memorized := rank.Exposure(references), rank.Rank == 1
	o.Rank, o.RankExact, o.LogPerplexity = &rank.Rank, &rank.Exact, &rank.LogPerplexity
	o.Exposure, o.ExposureCensored, o.Memorized = &exposure, &memorized, &memorized
	if !rank.Exact {
		o.ExposureSE = &rank.ExposureError
	}
}

// Summary joins the parts of both audits of one checkpoint.
var Summary = tasks.Kind{Name: "audits/summary", Version: 1, Class: tasks.Compute, Run: runSummary}

func runSummary(ctx context.Context, t *tasks.Task) error {
	var p SummaryParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	placements, err := datasets.ReadPlacements(ctx, t, audits.PlacementsInput)
	if err != nil {
		return err
	}
	ranks, err := readParts[randomsampling.Rank](ctx, t, SamplingInput, p.SamplingParts, randomsampling.RanksBlob, len(placements))
	if err != nil {
		return err
	}
	extractions, err := readParts[beamsearch.Extraction](ctx, t, BeamInput, p.BeamParts, beamsearch.ExtractionsBlob, len(placements))
	if err != nil {
		return err
	}
	audit := NewAudit()
	for i, placed := range placements {
		result, err := newResult(placed)
		if err != nil {
			return tasks.Permanent(err)
		}
		if ranks != nil {
			result.SetRank(ranks[i], p.References)
		}
		if extractions != nil {
			result.BeamFound = &extractions[i].Found
		}
		audit.add(result, placed)
	}
	audit.judge(&p)
	return audits.PutJSON(ctx, t, SummaryBlob, audit)
}

// readParts joins the outputs of a split audit; nil if it has no parts.
func readParts[T any](ctx context.Context, t *tasks.Task, input func(int) string, parts int, blob string, want int) ([]T, error) {
	if parts == 0 {
		return nil, nil
	}
	var all []T
	for i := range parts {
		data, err := t.Blob(ctx, input(i), blob)
		if err != nil {
			return nil, err
		}
		var part []T
		if err := json.Unmarshal(data, &part); err != nil {
			return nil, tasks.Permanent(fmt.Errorf("%s of %s: %w", blob, input(i), err))
		}
		all = append(all, part...)
	}
	if len(all) != want {
		return nil, tasks.Permanent(fmt.Errorf("%d %s for %d canaries", len(all), blob, want))
	}
	return all, nil
}

func newResult(p datasets.Placement) (CanaryResult, error) {
	r := CanaryResult{Words: p.Words, Users: p.Users, Holders: p.Holders, Insertions: p.Insertions}
	if p.HeldBack {
		return r, nil
	}
	r.configuration = canaries.Configuration{UserProbability: p.UserProbability, ExampleProbability: p.ExampleProbability}
	user, example, err := r.configuration.Parse()
	if err != nil {
		return r, fmt.Errorf("canary %d: %w", p.Number, err)
	}
	r.UserProbability, _ = user.Float64()
	r.ExampleProbability, _ = example.Float64()
	return r, nil
}

func (a *Audit) add(r CanaryResult, p datasets.Placement) {
	switch {
	case p.HeldBack:
		a.Controls = append(a.Controls, r)
	case p.Insertions == 0:
		a.NeverInserted = append(a.NeverInserted, r)
	default:
		a.Canaries = append(a.Canaries, r)
	}
}

// judge fills in the verdicts.
func (a *Audit) judge(p *SummaryParams) {
	if p.SamplingParts > 0 {
		n, lowest := a.count(func(c *CanaryResult) bool { return *c.Memorized })
		a.RandomSampling = &SamplingVerdict{Memorized: n, Of: len(a.Canaries), References: p.References, Lowest: lowest}
	}
	if p.BeamParts > 0 {
		n, lowest := a.count(func(c *CanaryResult) bool { return *c.BeamFound })
		a.BeamSearch = &BeamVerdict{Memorized: n, Of: len(a.Canaries), Width: p.BeamWidth, Lowest: lowest}
	}
}

// count returns how many canaries are memorized and the lowest configuration
// among them: by expected insertion frequency, then by expected number of users.
func (a *Audit) count(memorized func(*CanaryResult) bool) (n int, lowest *Configuration) {
	var least *CanaryResult
	for i := range a.Canaries {
		c := &a.Canaries[i]
		if !memorized(c) {
			continue
		}
		n++
		if least == nil || c.configuration.Compare(least.configuration) < 0 {
			least = c
		}
	}
	if least != nil {
		lowest = &Configuration{least.UserProbability, least.ExampleProbability}
	}
	return n, lowest
}
