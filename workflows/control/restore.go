package control

import (
	"context"
	"fmt"

	"coalmine/workflows/runs"
	"coalmine/workflows/runs/availability"
)

// missing counts the outputs of a done run that are gone from storage, for a command that makes
// the run recompute them; 0 for other commands.
func (l *Local) missing(ctx context.Context, run *runs.Run, e runs.Entry) (int, error) {
	if run.State.Phase != runs.Done || len(e.Keys) > 0 || e.Kind != runs.RetryEntry && e.Kind != runs.ResumeEntry {
		return 0, nil
	}
	p, err := l.plans.get(ctx, l.archive, run)
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", run.ID, err)
	}
	found, err := availability.LookUpAll(ctx, l.archive, p.Kept())
	missing := 0
	for _, n := range found {
		if !n.Available() {
			missing++
		}
	}
	return missing, err
}
