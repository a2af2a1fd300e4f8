// These files collect garbage: they delete objects that no run needs. Retention deletes behind each training while it
// runs; a collection deletes other garbage, such as the objects of removed runs and of lost attempts.
//
// A collection marks the objects that existing runs need (mark.go), and sweeps the unmarked objects of an
// inventory of the store (sweep.go). It keeps no state between collections. Young objects stay in any case:
// an attempt stores its blobs some time before its commit, and a submission its source before its run.
//
// A collection may run beside live runs. A run may begin to use a node that is being deleted; that costs
// only a replay, because a lost blob is work (invariant 6). For two other objects, changed runs are read
// again just before each batch:
//
//   - The outcome of a run whose outputs were all cached. The leader looks at the
//     outcome of every run before it declares the run's end, and looks again if a batch
//     was running ([leadership.Token.Quiet]).
//   - A source, which no task can make again. A submission looks for its sources
//     once more after its run is recorded.

package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
)

// Collector deletes objects that no run needs.
type Collector struct {
	Archive *storage.Archive
	// Compile makes the plan of a run without a recorded plan ([plan.Record]). It MUST return the same plan
	// every time. An error marked tasks.Permanent means that the run has no plan.
	Compile func(ctx context.Context, run *runs.Run) (*plan.Plan, error)
	// Sources returns the sources of a run without a recorded plan.
	Sources func(run *runs.Run) ([]storage.Digest, error)
	// OlderThan is the minimum age of deleted objects; sources are also at least MinSourceAge old. The
	// timeout of tasks plus SafetyMargin is always safe.
	OlderThan time.Duration
	// Now returns the time. It defaults to the clock of the store, which stamps the objects.
	Now func() time.Time
	// Progress, if not nil, is called with the number of deleted objects and the total.
	Progress func(deleted, of int)
}

// Ages of collected objects.
const (
	// SafetyMargin plus the longest duration of an attempt is a safe minimum age of collected objects.
	SafetyMargin = time.Hour
	// MinSourceAge gives a submission time between uploading a source and recording its run.
	MinSourceAge = time.Hour
)

// Amount is a number of objects with their size.
type Amount struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func (a *Amount) add(objects ...storage.Object) {
	for _, o := range objects {
		a.Objects++
		a.Bytes += o.Size
	}
}

// Result counts the objects that a collection has deleted, or would delete.
type Result struct {
	DryRun bool `json:"dry_run"`
	// OlderThan is the minimum age of deleted objects, in seconds.
	OlderThan float64 `json:"older_than_seconds"`
	// Runs is the number of runs.
	Runs int `json:"runs"`
	// Held lists the runs with unknown needs, with the reasons. Because of them every node and source stays.
	Held []Held `json:"held,omitempty"`
	// Collected holds the amounts that were deleted, or would be without a dry run, by kind of object.
	Collected map[storage.ObjectKind]*Amount `json:"collected"`
	// Young counts unneeded objects that are too young to delete.
	Young Amount `json:"young"`
	// Kept counts all other objects.
	Kept Amount `json:"kept"`
}

// Total sums up the collected objects.
func (c *Result) Total() Amount {
	var sum Amount
	for _, a := range c.Collected {
		sum.Objects += a.Objects
		sum.Bytes += a.Bytes
	}
	return sum
}

func (c *Result) setRuns(all *allRuns, x *marks) {
	c.Runs, c.Held = len(all.runs)+len(all.unreadable), x.held
}

func (c *Result) take(objects []storage.Object) {
	for _, o := range objects {
		c.Collected[o.Kind].add(o)
	}
}

// Preview counts the objects that Collect would delete now, if the runs named in without were removed. It deletes
// nothing and needs no token. Ages are by the clock of the store, or of this machine if the store cannot be written.
func (c *Collector) Preview(ctx context.Context, without ...string) (*Result, error) {
	inv, err := c.takeInventory(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.readRuns(ctx)
	if err != nil {
		return nil, err
	}
	all.runs = slices.DeleteFunc(all.runs, func(r *runs.Run) bool { return slices.Contains(without, r.ID) })
	all.unreadable = slices.DeleteFunc(all.unreadable, func(r runs.Unreadable) bool { return slices.Contains(without, r.ID) })
	x, err := c.mark(ctx, inv, all)
	if err != nil {
		return nil, err
	}
	now, err := c.now(ctx)
	if err != nil { // asking the store writes an object, which a reader may not
		now = time.Now()
	}
	batches, out, err := c.sweep(ctx, x, now)
	if err != nil {
		return nil, err
	}
	out.DryRun = true
	out.setRuns(all, x)
	for _, batch := range batches {
		out.take(batch)
	}
	return out, nil
}

// Collect deletes objects that no run needs, batch by batch. Before each batch it
// checks the token, and marks the needs of the runs that are new or have changed. An
// interrupted collection returns its deletions so far; the next one continues.
func (c *Collector) Collect(ctx context.Context, token *leadership.Token) (*Result, error) {
	all, err := c.readRuns(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.eraseRemoved(ctx, all, token); err != nil {
		return nil, err
	}
	inv, err := c.takeInventory(ctx)
	if err != nil {
		return nil, err
	}
	x, err := c.mark(ctx, inv, all)
	if err != nil {
		return nil, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return nil, fmt.Errorf("collecting garbage: %w", err)
	}
	batches, sum, err := c.sweep(ctx, x, now)
	if err != nil {
		return nil, err
	}
	err = c.deleteBatches(ctx, batches, x, all, token, sum)
	sum.setRuns(all, x)
	return sum, err
}

// eraseRemoved deletes the records of removed runs that a leader has not yet deleted.
func (c *Collector) eraseRemoved(ctx context.Context, all *allRuns, token *leadership.Token) error {
	for _, r := range all.runs {
		if !r.State.Removed {
			continue
		}
		if err := token.Check(ctx); err != nil {
			return fmt.Errorf("collecting garbage: %w", err)
		}
		if err := runs.NewService(c.Archive, nil).Delete(ctx, r.ID); err != nil {
			return err
		}
	}
	all.runs = slices.DeleteFunc(all.runs, func(r *runs.Run) bool { return r.State.Removed })
	return nil
}

func (c *Collector) newResult() *Result {
	out := &Result{OlderThan: c.OlderThan.Seconds(), Collected: map[storage.ObjectKind]*Amount{}}
	for _, kind := range collectedKinds {
		out.Collected[kind] = &Amount{}
	}
	return out
}

func (c *Collector) deleteBatches(ctx context.Context, batches [][]storage.Object, x *marks, all *allRuns, token *leadership.Token, sum *Result) error {
	total, done := 0, 0
	for _, batch := range batches {
		total += len(batch)
	}
	for _, batch := range batches {
		deleted, kept, err := c.deleteBatch(ctx, batch, x, all, token)
		if err != nil {
			return err
		}
		sum.take(deleted)
		sum.Kept.add(kept...)
		if done += len(batch); c.Progress != nil {
			c.Progress(done, total)
		}
	}
	return nil
}

// deleteBatch deletes a batch, except the objects that new or changed runs need.
func (c *Collector) deleteBatch(ctx context.Context, batch []storage.Object, x *marks, all *allRuns, token *leadership.Token) (deleted, kept []storage.Object, err error) {
	defer token.BeginBatch()()
	if err := c.check(ctx, x, all, token); err != nil {
		return nil, nil, err
	}
	for _, o := range batch {
		if x.needsNow(o) {
			kept = append(kept, o)
		} else {
			deleted = append(deleted, o)
		}
	}
	if err := c.Archive.DeleteObjects(ctx, deleted...); err != nil {
		return nil, nil, fmt.Errorf("collecting garbage: %w", err)
	}
	return deleted, kept, nil
}

const (
	// checkLasts is the validity of the check before a batch. A process that was suspended in between checks again.
	checkLasts = 10 * time.Second
	// checks is the number of consecutive checks that may take longer. A store that is busy for a moment
	// passes; a slow one makes the collection fail.
	checks = 5
)

// check checks, just before a batch, that this process leads, and marks the needs of the runs that are new
// or have changed.
func (c *Collector) check(ctx context.Context, x *marks, all *allRuns, token *leadership.Token) error {
	var took time.Duration
	for range checks {
		begun := time.Now()
		if err := c.catchUp(ctx, x, all); err != nil {
			return err
		}
		if err := token.Check(ctx); err != nil {
			return fmt.Errorf("collecting garbage: %w", err)
		}
		if took = time.Since(begun); took < checkLasts {
			return nil
		}
	}
	return fmt.Errorf("collecting garbage: %w: looking for changes of all runs took %s in the last of %d tries; expected less than %s: collect from a machine nearer to the store, or remove runs",
		storage.ErrAway, took.Round(time.Second), checks, checkLasts)
}

// catchUp marks the needs of the runs that are new or have changed since they were read. Earlier marks stay.
func (c *Collector) catchUp(ctx context.Context, x *marks, all *allRuns) error {
	ends, err := c.Archive.LogEnds(ctx)
	if err != nil {
		return fmt.Errorf("collecting garbage needs to know all runs: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		if all.lists(id) && all.ends[id] == ends[id] {
			continue
		}
		if err := c.readAgain(ctx, x, all, id); err != nil {
			return err
		}
	}
	all.ends = ends
	all.runs = slices.DeleteFunc(all.runs, func(r *runs.Run) bool { return !all.lists(r.ID) })
	return x.markChains(ctx)
}

// readAgain reads a run that is new or has changed, and marks its needs.
func (c *Collector) readAgain(ctx context.Context, x *marks, all *allRuns, id string) error {
	run, err := runs.NewService(c.Archive, nil).Get(ctx, id)
	all.forget(id)
	x.held = slices.DeleteFunc(x.held, func(h Held) bool { return h.Run == id })
	switch {
	case errors.Is(err, storage.ErrNotFound): // removed
		return nil
	case runs.IsUnreadable(err):
		all.unreadable = append(all.unreadable, runs.Unreadable{ID: id, Err: err})
		return needsOf(id, c.markUnreadable(ctx, x, runs.Unreadable{ID: id, Err: err}))
	case err != nil:
		return fmt.Errorf("collecting garbage needs to know all runs: %w", err)
	}
	all.runs = append(all.runs, run)
	return needsOf(id, c.markRun(ctx, x, run))
}

// allRuns holds the runs as they were last read.
type allRuns struct {
	runs       []*runs.Run
	unreadable []runs.Unreadable
	// ends holds the number of the newest log entry by run, as of before the runs were read.
	ends map[string]int
}

func (k *allRuns) lists(id string) bool {
	_, listed := k.ends[id]
	return listed
}

func (k *allRuns) forget(id string) {
	k.runs = slices.DeleteFunc(k.runs, func(r *runs.Run) bool { return r.ID == id })
	k.unreadable = slices.DeleteFunc(k.unreadable, func(r runs.Unreadable) bool { return r.ID == id })
}

func (c *Collector) readRuns(ctx context.Context) (*allRuns, error) {
	ends, err := c.Archive.LogEnds(ctx)
	if err != nil {
		return nil, fmt.Errorf("collecting garbage needs to know all runs: %w", err)
	}
	all, unreadable, err := runs.NewService(c.Archive, nil).Readable(ctx)
	if err != nil {
		return nil, fmt.Errorf("collecting garbage needs to know all runs: %w", err)
	}
	slices.SortFunc(all, func(a, b *runs.Run) int { return cmp.Compare(a.ID, b.ID) })
	return &allRuns{all, unreadable, ends}, nil
}

// now returns the time by which ages are computed.
func (c *Collector) now(ctx context.Context) (time.Time, error) {
	if c.Now != nil {
		return c.Now(), nil
	}
	return c.Archive.Now(ctx)
}
