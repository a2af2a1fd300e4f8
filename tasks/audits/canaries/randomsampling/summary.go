package randomsampling

import (
	"context"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// SummaryParams are the parameters of audits/random-sampling-summary.
type SummaryParams struct {
	// Parts are the tasks that the canaries were ranked by.
	Parts int `json:"parts"`
	// References is the size of the reference set.
	References int `json:"references"`
}

// Summary joins the ranks of all canaries of one checkpoint. Its inputs are the parts
// and audits.PlacementsInput, its blobs those of audits.PutSummary, its metrics
// Metrics.
var Summary = tasks.Kind{Name: "audits/random-sampling-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

// Metrics are what the curve keeps of an outcome.
type Metrics struct {
	Memorized int `json:"random_sampling_memorized"`
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
	ranks, err := audits.ReadParts[Rank](ctx, t, p.Parts, RanksBlob, len(placed))
	if err != nil {
		return err
	}
	outcomes := make([]CanaryOutcome, len(ranks))
	for i, rank := range ranks {
		outcomes[i] = rank.CanaryOutcome(p.References)
	}
	found, err := audits.Count(placed, func(canary int) bool { return ranks[canary].Rank == 1 })
	if err != nil {
		return err
	}
	outcome := Outcome{Memorized: found.Memorized, Of: found.Of, References: p.References, Lowest: found.Lowest}
	return audits.PutSummary(ctx, t, outcome, outcomes, Metrics{found.Memorized})
}
