package skewnormal

import (
	"context"

	"coalmine/internal/skewnormal"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// SummaryParams are the parameters of audits/skew-normal-summary.
type SummaryParams struct {
	// Parts are the tasks that the canaries were looked at by.
	Parts int `json:"parts"`
}

// Summary joins the estimates of all canaries of one checkpoint. Its inputs are the parts
// and audits.PlacementsInput, its blobs those of audits.PutSummary, its metrics Metrics.
var Summary = tasks.Kind{Name: "audits/skew-normal-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

// Metrics are what the curve keeps of an outcome.
type Metrics struct {
	// Highest exposure of an inserted canary, in bits; 0 if none was.
	Highest float64 `json:"skew_normal_highest_exposure"`
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
	estimates, err := audits.ReadParts[Estimate](ctx, t, p.Parts, EstimatesBlob, len(placed))
	if err != nil {
		return err
	}
	outcomes := make([]CanaryOutcome, len(estimates))
	for i := range estimates {
		outcomes[i] = estimates[i].CanaryOutcome()
	}
	v := NewOutcome(estimates, func(canary int) bool { return placed[canary].Insertions > 0 })
	return audits.PutSummary(ctx, t, v, outcomes, Metrics{v.Highest})
}

// NewOutcome is that of canaries, of which only those that count make the highest exposure.
func NewOutcome(estimates []Estimate, counts func(canary int) bool) Outcome {
	var v Outcome
	prefixes := map[skewnormal.Distribution]bool{}
	for i := range estimates {
		e := &estimates[i]
		if counts(i) {
			v.Highest = max(v.Highest, e.Exposure)
		}
		if !prefixes[e.Fit.Distribution] {
			prefixes[e.Fit.Distribution] = true
			v.Fits = append(v.Fits, e.Fit)
		}
	}
	return v
}
