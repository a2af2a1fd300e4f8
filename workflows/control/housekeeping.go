package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/availability"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/planned"
	"coalmine/workflows/runs/retention"
)

// CollectOptions are the options of a collection.
type CollectOptions struct {
	// DryRun deletes nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// OlderThan is the minimum age of deleted objects, in seconds; nil for the
	// timeout of tasks plus an hour.
	OlderThan *float64 `json:"older_than_seconds,omitempty"`
	// Progress, if set, is called with the number of deleted objects and the total.
	Progress func(deleted, of int) `json:"-"`
}

// Removed is the answer to the removal of a run.
type Removed struct {
	Run string `json:"run"`
	// Freed counts the objects that the next collection can delete, once they are old enough: all
	// objects that no run needs, including those of this run.
	Freed *retention.Result `json:"freed"`
}

// Collect implements API. Only the leader deletes: the coordinator of this
// process if it leads, or this process if no coordinator leads.
func (l *Local) Collect(ctx context.Context, o CollectOptions) (*retention.Result, error) {
	c, err := l.collector(o.OlderThan)
	if err != nil {
		return nil, err
	}
	if o.DryRun {
		return c.Preview(ctx)
	}
	c.Progress = o.Progress
	var out *retention.Result
	err = l.asLeader(ctx, func(ctx context.Context, token *leadership.Token) error {
		out, err = c.Collect(ctx, token)
		return err
	})
	return out, err
}

// collector returns a collector with a minimum age in seconds, nil for the default.
func (l *Local) collector(olderThan *float64) (*retention.Collector, error) {
	age := policy.TaskTimeout + retention.SafetyMargin
	if l.coordinator != nil {
		age = l.coordinator.TaskTimeout() + retention.SafetyMargin
	}
	if olderThan != nil {
		const most = 100 * 365 * 24 * time.Hour
		if !(*olderThan >= 0 && *olderThan <= most.Seconds()) {
			return nil, fmt.Errorf("an age of %g seconds %w: expected 0 or more, at most a hundred years", *olderThan, ErrInput)
		}
		age = time.Duration(*olderThan * float64(time.Second))
	}
	return &retention.Collector{Archive: l.archive, Compile: planned.Compile, Sources: planned.Sources, OlderThan: age}, nil
}

// asLeader calls do with the right to delete.
func (l *Local) asLeader(ctx context.Context, do func(context.Context, *leadership.Token) error) error {
	if l.coordinator != nil {
		token, err := l.coordinator.Token()
		if err != nil {
			return err
		}
		return do(ctx, token)
	}
	if l.away != nil {
		return fmt.Errorf("it is not known whether another process leads, and so must do the deleting: %w", l.away)
	}
	var q leadership.Queue
	if l.queue != nil {
		q = l.queue
	}
	err := leadership.Temporarily(ctx, l.archive, q, person(), do)
	if errors.Is(err, leadership.ErrLed) {
		return fmt.Errorf("%w; ask that process, by --server URL or COALMINE_SERVER", err)
	}
	return err
}

// Remove implements API. The leader deletes the record; without a leader this process does.
func (l *Local) Remove(ctx context.Context, name string) (*Removed, error) {
	id, err := l.Steer(ctx, name, runs.Entry{Kind: runs.RemoveEntry})
	switch {
	case runs.IsUnreadable(err):
		id = name
		err = l.deleteRecord(ctx, func(ctx context.Context) error { return l.runs.DeleteUnreadable(ctx, id) })
	case err == nil && l.coordinator == nil:
		err = l.deleteRecord(ctx, func(ctx context.Context) error { return l.runs.Delete(ctx, id) })
		if l.away != nil || errors.Is(err, leadership.ErrLed) {
			err = nil // the leader will find the removed run
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := l.collector(nil)
	if err != nil {
		return nil, err
	}
	freed, err := c.Preview(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("run %s is removed, but what that frees is not known: %w", id, err)
	}
	return &Removed{id, freed}, nil
}

// deleteRecord deletes the objects of a run's record, as the leader.
func (l *Local) deleteRecord(ctx context.Context, do func(context.Context) error) error {
	return l.asLeader(ctx, func(ctx context.Context, token *leadership.Token) error {
		if err := token.Check(ctx); err != nil {
			return err
		}
		return do(ctx)
	})
}

// checkCells returns an error if an entry pins cells that the run does not have.
func (l *Local) checkCells(ctx context.Context, run *runs.Run, e runs.Entry) error {
	if len(e.Cells) == 0 {
		return nil
	}
	if e.Kind != runs.PinEntry {
		return fmt.Errorf("%q %w for single cells", e.Kind, ErrInput)
	}
	spec, err := l.specOf(ctx, run)
	if err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
	}
	var names []string
	for i := range spec.Cells {
		names = append(names, spec.Cells[i].Name)
	}
	for _, cell := range e.Cells {
		if !slices.Contains(names, cell) {
			return fmt.Errorf("run %s: cell %q %w: it has %s", run.ID, cell, ErrInput, strings.Join(names, ", "))
		}
	}
	return nil
}

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
