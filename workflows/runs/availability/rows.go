package availability

import (
	"context"
	"encoding/json"
	"errors"
	"sort"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/external"
	"coalmine/workflows/plan"
)

// LastStep returns the step that a training has reached; 0 if no step is recorded.
// Records of boundaries last, and records of steps while their segment is open, so
// both can be bisected.
func LastStep(ctx context.Context, archive *storage.Archive, chain *plan.Chain) (int, error) {
	var failed error
	missing := func(step int) bool {
		there, err := archive.HasCommit(ctx, chain.Key(step))
		if err != nil {
			failed = err
		}
		return !there
	}
	if !missing(chain.Steps) {
		return chain.Steps, failed
	}
	whole := sort.Search(plan.Segment(chain.Steps), func(i int) bool { return missing((i + 1) * tasks.SegmentSteps) })
	from := whole * tasks.SegmentSteps
	open := sort.Search(min(tasks.SegmentSteps-1, chain.Steps-from), func(i int) bool { return missing(from + i + 1) })
	return from + open, failed
}

// Rows returns metric rows of a training's steps, in order: all rows of its open
// segment, and of closed segments the first, the last and others evenly between them,
// about most rows in total, or all rows if most is 0. Rows without a record are left
// out.
func Rows(ctx context.Context, archive *storage.Archive, chain *plan.Chain, most int) ([]checkpoints.Row, error) {
	done, err := LastStep(ctx, archive, chain)
	if err != nil || done == 0 {
		return nil, err
	}
	whole, stride := plan.Segment(done), 1
	if most > 0 {
		stride = max(1, (whole+most-1)/most)
	}
	var rows []checkpoints.Row
	for i := 1; i <= whole; i++ {
		if i%stride != 0 && i != 1 && i != whole {
			continue
		}
		segment, err := readRows(ctx, archive, chain.Key(i*tasks.SegmentSteps), tasks.SegmentBlob, checkpoints.DecodeSegment)
		if err != nil {
			return nil, err
		}
		rows = append(rows, segment...)
	}
	if plan.Boundary(done) {
		return rows, nil
	}
	open, err := stepRows(ctx, archive, chain.Key(done))
	return append(rows, open...), err
}

// StepRow returns the metric row of a step, nil if its record is gone.
func StepRow(ctx context.Context, archive *storage.Archive, chain *plan.Chain, step int) (*checkpoints.Row, error) {
	name, decode := tasks.RowsBlob, checkpoints.DecodeRows
	if plan.Boundary(step) {
		name, decode = tasks.SegmentBlob, checkpoints.DecodeSegment
	}
	rows, err := readRows(ctx, archive, chain.Key(step), name, decode)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[len(rows)-1], nil
}

// TailRows returns the metric rows of the tail of a training; for a running command, the rows
// reported so far.
func TailRows(ctx context.Context, archive *storage.Archive, key storage.Key) ([]checkpoints.Row, error) {
	rows, err := stepRows(ctx, archive, key)
	if len(rows) > 0 || err != nil {
		return rows, err
	}
	so, err := archive.ReadUnfinished(ctx, key)
	if so == nil || err != nil {
		return nil, err
	}
	var state external.State
	if err := json.Unmarshal(so.State, &state); err != nil {
		return nil, nil // of another version: the training begins again
	}
	return state.Rows, nil
}

// stepRows returns the rows in the record of a step of an open segment, or of
// the tail of a training; nil if the record is gone.
func stepRows(ctx context.Context, archive *storage.Archive, key storage.Key) ([]checkpoints.Row, error) {
	return readRows(ctx, archive, key, tasks.RowsBlob, checkpoints.DecodeRows)
}

func readRows(ctx context.Context, archive *storage.Archive, key storage.Key, name string, decode func([]byte) ([]checkpoints.Row, error)) ([]checkpoints.Row, error) {
	data, err := archive.ReadOutput(ctx, key, name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(data)
}
