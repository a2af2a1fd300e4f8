package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan"
)

// addOutcomes adds to the curve the outcomes of audits whose description requests every round
// (EveryRound). It omits outcomes that storage no longer has.
func addOutcomes(ctx context.Context, archive *storage.Archive, report *plan.Node, r *reports.Report) error {
	if len(r.Curve) < 2 {
		return nil
	}
	for _, d := range all.Audits() {
		if !d.EveryRound {
			continue
		}
		for i := range r.Curve {
			p := &r.Curve[i]
			key := report.Input(reports.AuditInput(d.Name, p.Round))
			if key == (storage.Key{}) {
				break // audit not requested
			}
			if err := addOutcome(ctx, archive, key, d.Name, d.OutcomeBlob, p); err != nil {
				return fmt.Errorf("%s after round %d: %w", d.Name, p.Round, err)
			}
		}
	}
	return nil
}

func addOutcome(ctx context.Context, archive *storage.Archive, key storage.Key, name, blob string, p *reports.Point) error {
	data, err := archive.ReadOutput(ctx, key, blob)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return p.Metrics.Set(name, json.RawMessage(data))
}
