package beamsearch

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// SummaryParams are the parameters of audits/beam-search-summary.
type SummaryParams struct {
	// Parts are the tasks that searched for the canaries.
	Parts int `json:"parts"`
	// Width is how many sequences they kept.
	Width int `json:"width"`
}

// Summary joins what was found of all canaries of one checkpoint. Its inputs are the
// parts, audits.PlacementsInput, and datasets.PartsInput for the words of tokens; its
// blobs those of audits.PutSummary, its metrics Metrics.
var Summary = tasks.Kind{Name: "audits/beam-search-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

// Metrics are what the curve keeps of an outcome.
type Metrics struct {
	Memorized int `json:"beam_search_memorized"`
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
	extractions, err := audits.ReadParts[Extraction](ctx, t, p.Parts, ExtractionsBlob, len(placed))
	if err != nil {
		return err
	}
	vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
	if err != nil {
		return err
	}
	outcomes := make([]CanaryOutcome, len(extractions))
	for i := range extractions {
		if outcomes[i], err = extractions[i].CanaryOutcome(vocabulary); err != nil {
			return fmt.Errorf("canary %d: %w", i, err)
		}
	}
	found, err := audits.Count(placed, func(canary int) bool { return extractions[canary].Found })
	if err != nil {
		return err
	}
	outcome := Outcome{Memorized: found.Memorized, Of: found.Of, Width: p.Width, Lowest: found.Lowest}
	return audits.PutSummary(ctx, t, outcome, outcomes, Metrics{found.Memorized})
}

// CanaryOutcome is what the search says of its canary, in the words of a vocabulary.
func (e *Extraction) CanaryOutcome(v *datasets.Vocabulary) (CanaryOutcome, error) {
	best, err := audits.Words(v, e.Best)
	return CanaryOutcome{Found: &e.Found, Best: best, LogPerplexity: &e.LogPerplexity, CanaryLogPerplexity: &e.CanaryLogPerplexity}, err
}
