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

// LastStep is the step that a training has reached; 0 where none is recorded.
// Boundaries last, and the steps of the open segment while it is open, so that both
// can be bisected.
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

// Rows are metric rows of a training's steps, in order: those of its open segment, and
// of whole segments the first, the last and others evenly between them, about most in
// all, or every one where most is 0. Rows whose record has gone are left out.
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

// StepRow is the metric row of a step whose record is there, nil where it has gone.
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

// TailRows are those of the tail of a training; of a command that still runs those that it has
// told of so far.
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
		return nil, nil // of another version, whose training begins anew
	}
	return state.Rows, nil
}

// stepRows are the rows that a step of an open segment carries, or the tail of a
// training; none where its record has gone.
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
