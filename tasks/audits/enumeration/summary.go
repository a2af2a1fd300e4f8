package enumeration

import (
	"context"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// SummaryParams are the parameters of audits/enumeration-summary.
type SummaryParams struct {
	// Parts are the tasks that the sequences were enumerated by.
	Parts int `json:"parts"`
	// Sequences is how many may follow a prefix.
	Sequences int64 `json:"sequences"`
}

// Summary adds up what the parts have counted, and ranks all canaries of one checkpoint.
// Its inputs are the parts and audits.PlacementsInput, its blobs those of
// audits.PutSummary, its metrics Metrics.
var Summary = tasks.Kind{Name: "audits/enumeration-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

// Metrics are what the curve keeps of a verdict.
type Metrics struct {
	Memorized int `json:"enumeration_memorized"`
	// Highest exposure of an inserted canary, in bits; 0 if none was.
	Highest float64 `json:"enumeration_highest_exposure"`
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
	tallies, err := sumTallies(ctx, t, p.Parts, len(placed))
	if err != nil {
		return err
	}
	outcomes, highest := make([]Outcome, len(tallies)), 0.0
	for i := range tallies {
		outcomes[i] = tallies[i].Outcome(p.Sequences)
		if placed[i].Insertions > 0 {
			highest = max(highest, *outcomes[i].Exposure)
		}
	}
	found, err := audits.Count(placed, func(canary int) bool { return tallies[canary].AtMost == 1 })
	if err != nil {
		return err
	}
	verdict := Verdict{Memorized: found.Memorized, Of: found.Of, Sequences: p.Sequences, Lowest: found.Lowest}
	return audits.PutSummary(ctx, t, verdict, outcomes, Metrics{found.Memorized, highest})
}

// sumTallies adds up the counts of all parts, by canary.
func sumTallies(ctx context.Context, t *tasks.Task, parts, canaries int) ([]Tally, error) {
	all, err := audits.ReadParts[Tally](ctx, t, parts, TalliesBlob, parts*canaries)
	if err != nil {
		return nil, err
	}
	sums := all[:canaries]
	for i, tally := range all[canaries:] {
		sums[i%canaries].AtMost += tally.AtMost
	}
	return sums, nil
}
