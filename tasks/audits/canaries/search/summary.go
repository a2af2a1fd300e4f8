package search

import (
	"context"
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// SummaryParams are the parameters of audits/search-summary.
type SummaryParams struct {
	// Parts are the searches, each by its last task.
	Parts int `json:"parts"`
}

// Summary joins what was found of all canaries of one checkpoint. Its inputs are the
// searches in the order of their canaries, audits.PlacementsInput, and
// datasets.PartsInput for the words of tokens; its blobs those of audits.PutSummary, its
// metrics Metrics.
var Summary = tasks.Kind{Name: "audits/search-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

// Metrics are what the curve keeps of an outcome.
type Metrics struct {
	Extracted int `json:"search_extracted"`
}

func runSummary(ctx context.Context, t *tasks.Task) error {
	var p SummaryParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	placed, err := datasets.ReadPlacements(ctx, t, audits.PlacementsInput)
	if err != nil {
		return err
	}
	vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
	if err != nil {
		return err
	}
	searches, err := readSearches(ctx, t, p.Parts, len(placed))
	if err != nil {
		return err
	}
	var v Outcome
	var outcomes []CanaryOutcome
	for _, s := range searches {
		v.count(s)
		for _, canary := range s.canaries {
			o, err := s.of.outcome(canary, vocabulary)
			if err != nil {
				return fmt.Errorf("canary %d: %w", len(outcomes), err)
			}
			outcomes = append(outcomes, o)
		}
	}
	if err := v.judge(placed, outcomes); err != nil {
		return err
	}
	return audits.PutSummary(ctx, t, v, outcomes, Metrics{v.Extracted})
}

// search is the canaries of a part, and the search that is theirs: their own, or that of
// an earlier canary with the same prefix.
type search struct {
	canaries []Sequence
	of       *Found
	shared   bool
}

// readSearches reads the searches of all canaries, in order.
func readSearches(ctx context.Context, t *tasks.Task, parts, canaries int) ([]search, error) {
	searches := make([]search, parts)
	var of []*Found // by canary
	for i := range searches {
		found := new(Found)
		if err := t.InputJSON(ctx, tasks.PartInput(i), FoundBlob, found); err != nil {
			return nil, err
		}
		searches[i] = search{found.Canaries, found, found.SameAs != nil}
		if same := found.SameAs; same != nil {
			if *same < 0 || *same >= len(of) {
				return nil, fmt.Errorf("search %d is the same as that of canary %d of %d: %w", i, *same, len(of), storage.ErrCorrupt)
			}
			searches[i].of = of[*same]
		}
		of = append(of, slices.Repeat([]*Found{searches[i].of}, len(found.Canaries))...)
	}
	if len(of) != canaries {
		return nil, tasks.Permanent(fmt.Errorf("searches for %d canaries of %d", len(of), canaries))
	}
	return searches, nil
}

// outcome is what the search says of a canary, in the words of a vocabulary.
func (f *Found) outcome(canary Sequence, v *datasets.Vocabulary) (CanaryOutcome, error) {
	o := CanaryOutcome{
		Extracted: new(false), Certain: new(int64(f.Certain)), CanaryLogPerplexity: &canary.LogPerplexity,
		Expanded: new(int64(f.Expanded)), Iterations: new(int64(f.Iterations)), Sequences: &f.Sequences, Ratio: new(f.Sequences / float64(max(1, f.Expanded))),
		Stop: &f.Stop, Complete: new(f.Stop.complete()),
	}
	for i, s := range f.Best {
		words, err := audits.Words(v, s.Tokens)
		if err != nil {
			return CanaryOutcome{}, err
		}
		o.Results = append(o.Results, Result{words, s.LogPerplexity})
		if slices.Equal(s.Tokens, canary.Tokens) {
			o.Rank, o.RankExact, o.Extracted = new(int64(i+1)), new(i < f.Certain), new(i == 0)
		}
	}
	return o, nil
}
