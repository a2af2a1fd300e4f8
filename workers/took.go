package workers

import (
	"context"
	"math"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
)

// took returns Provenance.Took of an attempt that made these blobs; nil if it does not end a
// step of a training. It reads the commits of the task's inputs, which are cached; an unreadable
// one leaves a gap.
func (a *attempt) took(ctx context.Context, blobs []storage.Blob) []float64 {
	if a.Step == 0 || !slices.ContainsFunc(blobs, hasRows) {
		return nil
	}
	before := (a.Step - 1) % tasks.SegmentSteps
	took := make([]float64, before, before+1)
	began := a.started
	for _, in := range a.Inputs {
		if in.Name == tasks.PreviousInput && before == 0 {
			continue // of another segment
		}
		c, err := a.source.Commit(ctx, in.Key)
		switch {
		case err != nil:
		case in.Name == tasks.PreviousInput && len(c.Provenance.Took) == before:
			copy(took, c.Provenance.Took)
		case tasks.IsPart(in.Name) && c.Provenance.Started.Before(began):
			began = c.Provenance.Started
		}
	}
	return append(took, microseconds(time.Since(began)))
}

// hasRows reports whether a task ends a step rather than being a part of one.
func hasRows(b storage.Blob) bool { return b.Name == tasks.RowsBlob || b.Name == tasks.SegmentBlob }

// microseconds returns a time in seconds, rounded to microseconds for a short text.
func microseconds(d time.Duration) float64 { return math.Round(1e6*d.Seconds()) / 1e6 }
