package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/retention"
)

// CollectOptions are the options of a collection.
type CollectOptions struct {
	// DryRun counts the objects but deletes none.
	DryRun bool `json:"dry_run,omitempty"`
	// OlderThan is the minimum age of deleted objects, in seconds. If it is nil, it is the timeout of tasks
	// plus an hour.
	OlderThan *float64 `json:"older_than_seconds,omitempty"`
	// Progress, if not nil, is called with the number of deleted objects and the total.
	Progress func(deleted, of int) `json:"-"`
}

// Removed is the answer to the removal of a run.
type Removed struct {
	Run string `json:"run"`
	// Freed counts all objects that no run needs after the removal. The next collection can delete them
	// once they are old enough.
	Freed *retention.Result `json:"freed"`
}

// Collect implements API. Only the leader deletes: the coordinator of this process if it leads, or this
// process if no coordinator leads.
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

// collector returns a collector with a minimum age in seconds, or the default age if olderThan is nil.
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
	return &retention.Collector{Archive: l.archive, Compile: runs.Compile, Sources: runs.Sources, OlderThan: age}, nil
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
		return fmt.Errorf("cannot find out whether another process leads; only the leader deletes: %w", l.away)
	}
	var q leadership.Queue
	if l.queue != nil {
		q = l.queue
	}
	err := leadership.Temporarily(ctx, l.archive, q, person(), do)
	if errors.Is(err, leadership.ErrLed) {
		return fmt.Errorf("%w; send the command to that process with --server URL or COALMINE_SERVER", err)
	}
	return err
}

// Remove implements API. The leader deletes the record, or this process if there is no leader.
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
		return nil, fmt.Errorf("run %s is removed, but the objects that a collection can now delete could not be counted: %w", id, err)
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
	names := lists.Map(spec.Cells, func(c experiment.Cell) string { return c.Name })
	for _, cell := range e.Cells {
		if !slices.Contains(names, cell) {
			return fmt.Errorf("run %s: cell %q %w: the run has %s", run.ID, cell, ErrInput, strings.Join(names, ", "))
		}
	}
	return nil
}

// missing counts the outputs of a done run that are missing from storage or damaged, if the entry is a
// command that makes the run recompute them; else it returns 0. It deletes damaged outputs.
func (l *Local) missing(ctx context.Context, run *runs.Run, e runs.Entry) (int, error) {
	if run.State.Phase != runs.Done || len(e.Keys) > 0 || e.Kind != runs.RetryEntry && e.Kind != runs.ResumeEntry {
		return 0, nil
	}
	p, err := l.plans.get(ctx, l.archive, run)
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", run.ID, err)
	}
	found, err := plan.LookUpAll(ctx, l.archive, p.Kept())
	if err != nil {
		return 0, err
	}
	missing := lists.Count(found, func(n plan.Stored) bool { return !n.Available() })
	damaged, err := plan.Damaged(ctx, l.archive, found, func(storage.Key) bool { return true })
	if err != nil || len(damaged) == 0 {
		return missing, err
	}
	return missing + len(damaged), l.asLeader(ctx, func(ctx context.Context, token *leadership.Token) error {
		return retention.Purge(ctx, l.archive, token, damaged)
	})
}

// Housekeeping is the periodic work of a coordinator. The zero value does nothing.
type Housekeeping struct {
	// Every is the time between two collections, 0 for no collections. They begin at its multiples in UTC,
	// independent of the start of the process: for 24 hours, at midnight.
	Every time.Duration
	// Retain is the time for which a finished run without pins keeps its record; 0 means for ever. Expired runs are
	// removed just before a collection.
	Retain time.Duration
	// Log receives messages. Default slog.Default().
	Log *slog.Logger
	// Metrics registers the metrics of housekeeping; nil exports none.
	Metrics prometheus.Registerer
}

// Check returns an error for invalid values.
func (h *Housekeeping) Check() error {
	switch {
	case h.Every < 0 || h.Retain < 0:
		return fmt.Errorf("housekeeping every %v for runs older than %v %w: expected durations of 0 or more", h.Every, h.Retain, ErrInput)
	case h.Retain > 0 && h.Every == 0:
		return fmt.Errorf("removing runs after %v %w without an interval between collections", h.Retain, ErrInput)
	case h.Every > 0 && h.Every < time.Minute:
		return fmt.Errorf("a collection every %v %w: each lists the whole store; expected a minute or more", h.Every, ErrInput)
	}
	return nil
}

// KeepHouse collects periodically until ctx is done, while the coordinator of this process leads. A stand-by leaves
// collections to the leader. KeepHouse logs and counts errors; the next collection tries again.
func (l *Local) KeepHouse(ctx context.Context, h Housekeeping) error {
	if err := h.Check(); err != nil {
		return err
	}
	h.Log = cmp.Or(h.Log, slog.Default())
	m := newHousekeepingMetrics(h.Metrics)
	for h.Every > 0 && goroutines.Sleep(ctx, time.Until(nextMultiple(time.Now(), h.Every))) == nil {
		var removed int
		var c *retention.Result
		err := goroutines.Recover(func() (err error) {
			removed, c, err = l.tidy(ctx, h.Retain)
			return err
		})
		goroutines.LogPanic(h.Log, err, "doing", "housekeeping")
		if errors.Is(err, leadership.ErrStandby) || ctx.Err() != nil {
			continue
		}
		m.count(removed, c, err)
		if err != nil {
			h.Log.Warn("housekeeping failed; it will be retried", "next", nextMultiple(time.Now(), h.Every), "error", err)
			continue
		}
		for _, held := range c.Held {
			h.Log.Warn("no commit, blob or source is deleted, because the objects that a run needs are unknown", "run", held.Run, "reason", held.Reason)
		}
		total := c.Total()
		h.Log.Info("housekeeping", "removed_runs", removed, "objects", total.Objects, "bytes", total.Bytes, "kept_objects", c.Kept.Objects, "kept_bytes", c.Kept.Bytes)
	}
	return nil
}

// nextMultiple returns the first multiple of a duration after now.
func nextMultiple(now time.Time, every time.Duration) time.Time {
	return now.UTC().Truncate(every).Add(every)
}

// tidy removes expired runs and collects. The error wraps leadership.ErrStandby if this process does not lead.
func (l *Local) tidy(ctx context.Context, retain time.Duration) (removed int, c *retention.Result, err error) {
	err = l.asLeader(ctx, func(ctx context.Context, token *leadership.Token) error {
		if retain > 0 {
			now, err := l.archive.Now(ctx) // the clock of this machine may have jumped ahead
			if err != nil {
				return err
			}
			if removed, err = l.removeOlder(ctx, now.Add(-retain)); err != nil {
				return err
			}
		}
		collector, err := l.collector(nil)
		if err != nil {
			return err
		}
		c, err = collector.Collect(ctx, token)
		return err
	})
	return removed, c, err
}

// removeOlder removes the runs without pins that finished before moment.
func (l *Local) removeOlder(ctx context.Context, moment time.Time) (removed int, err error) {
	all, err := l.list(ctx)
	if err != nil {
		return 0, err
	}
	for _, run := range all {
		s := &run.State
		if !s.Phase.Finished() || s.IsPinned() || !s.Finished.Before(moment) {
			continue
		}
		err := l.runs.Steer(ctx, run.ID, runs.Entry{Kind: runs.RemoveEntry, By: "housekeeping"})
		if errors.Is(err, runs.ErrState) || errors.Is(err, storage.ErrNotFound) {
			continue // it was just resumed, pinned or removed
		}
		if err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// housekeepingMetrics count the work of KeepHouse.
type housekeepingMetrics struct {
	collections    *prometheus.CounterVec
	last           prometheus.Gauge
	removed        prometheus.Counter
	objects, bytes *prometheus.CounterVec
}

// newHousekeepingMetrics registers the metrics with r, if it is not nil.
func newHousekeepingMetrics(r prometheus.Registerer) *housekeepingMetrics {
	auto := promauto.With(r)
	return &housekeepingMetrics{
		collections: auto.NewCounterVec(prometheus.CounterOpts{Name: "coalmine_collections_total",
			Help: "Periodic collections by this process while it led, by outcome: done or failed."}, []string{"outcome"}),
		last: auto.NewGauge(prometheus.GaugeOpts{Name: "coalmine_last_collection_timestamp_seconds",
			Help: "Time of the last successful periodic collection, in seconds since 1970; 0 if there was none."}),
		removed: auto.NewCounter(prometheus.CounterOpts{Name: "coalmine_retired_runs_total", Help: "Runs removed because their retention time had passed."}),
		objects: auto.NewCounterVec(prometheus.CounterOpts{Name: "coalmine_collected_objects_total",
			Help: "Objects that periodic collections have deleted, by kind."}, []string{"kind"}),
		bytes: auto.NewCounterVec(prometheus.CounterOpts{Name: "coalmine_collected_bytes_total",
			Help: "Bytes of objects that periodic collections have deleted, by kind."}, []string{"kind"}),
	}
}

func (m *housekeepingMetrics) count(removed int, c *retention.Result, err error) {
	m.removed.Add(float64(removed))
	if c != nil { // includes the deletions before a failure
		for kind, amount := range c.Collected {
			m.objects.WithLabelValues(string(kind)).Add(float64(amount.Objects))
			m.bytes.WithLabelValues(string(kind)).Add(float64(amount.Bytes))
		}
	}
	if err != nil {
		m.collections.WithLabelValues("failed").Inc()
		return
	}
	m.collections.WithLabelValues("done").Inc()
	m.last.SetToCurrentTime()
}
