package control

import (
	"context"
	"log/slog"
	"sync"

	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// verdict caches the failed gates of a run, at a position of its log.
type verdict struct {
	mu       sync.Mutex
	known    bool
	position int
	gate     string              // of the run; "" if no cell has been judged
	breaches map[string][]string // by cell
}

// isGated reports whether some cell has limits of audit.fail_if.
func isGated(spec *experiment.Spec) bool {
	for i := range spec.Cells {
		if audit := spec.Cells[i].Experiment.Audit; audit != nil && audit.FailIf != nil {
			return true
		}
	}
	return false
}

// judged adds the failed gates to the status of a finished run. If its results cannot be read,
// the status has no gates.
func (l *Local) judged(ctx context.Context, run *runs.Run, record *recorded, s *status.Run) *status.Run {
	if !record.gated || !run.State.Phase.Finished() {
		return s
	}
	v := &record.verdict
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known || v.position != run.Position() {
		if err := v.read(ctx, l, run); err != nil {
			slog.Default().Warn("gates of a run cannot be read", "run", run.ID, "error", err)
			return s
		}
	}
	s.Gate = v.gate
	for i := range s.Cells {
		s.Cells[i].Breaches = v.breaches[s.Cells[i].Cell]
	}
	return s
}

// read reads the gates from the results.
func (v *verdict) read(ctx context.Context, l *Local, run *runs.Run) (err error) {
	if len(run.Spec.Experiment) == 0 {
		if run, err = l.runs.Get(ctx, run.ID); err != nil {
			return err
		}
	}
	found, err := l.outcomes.get(ctx, l.archive, run)
	if err != nil {
		return err
	}
	v.known, v.position, v.gate, v.breaches = true, run.Position(), found.Gate(), make(map[string][]string)
	for i := range found.Cells {
		v.breaches[found.Cells[i].Cell] = found.Cells[i].Breaches
	}
	return nil
}
