// These files collect garbage: they delete objects that no run needs. Retention
// deletes behind each training while it runs; a collection deletes other
// garbage, such as the objects of removed runs and of lost attempts.
//
// A collection marks the objects that existing runs need (mark.go), and sweeps the
// unmarked objects of an inventory of the store (sweep.go); it keeps no state between
// collections. Young objects stay in any case: an attempt stores its blobs some time
// before its commit, and a submission its source before its run.
//
// A collection may run during live runs. They may begin to use a node that is being
// deleted. That costs only a replay, because a lost blob is work (invariant 6). For
// other objects, the runs are read again just before each batch:
//
//   - The outcome of a run that finds all of it cached. The leader looks at the
//     outcome of every run before it declares its end, and looks again if a batch
//     was running ([leadership.Token.Quiet]).
//   - A source, which nothing makes again. A submission looks for its sources
//     once more after its run is recorded.

package retention

import (
	"cmp"
	"context"
	"fmt"
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
	// Compile makes the plan of a run without a recorded plan ([plan.Record]). It MUST give the
	// same plan every time; an error marked tasks.Permanent means that the run has no plan.
	Compile func(ctx context.Context, run *runs.Run) (*plan.Plan, error)
	// Sources returns the sources of such a run.
	Sources func(run *runs.Run) ([]storage.Digest, error)
	// OlderThan is the minimum age of deleted objects; sources must also be at least MinSourceAge old.
	// The timeout of tasks plus SafetyMargin is always safe.
	OlderThan time.Duration
	// Now defaults to time.Now. It is compared with the store's clock.
	Now func() time.Time
	// Progress, if set, is called with the number of deleted objects and the total.
	Progress func(deleted, of int)
}

// Ages of collected objects.
const (
	// SafetyMargin is added to the longest duration of an attempt to give the
	// minimum age of collected objects.
	SafetyMargin = time.Hour
	// MinSourceAge leaves a submission time between uploading and recording.
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

// Result counts the objects that a collector has deleted, or would delete.
type Result struct {
	DryRun bool `json:"dry_run"`
	// OlderThan is the minimum age, in seconds.
	OlderThan float64 `json:"older_than_seconds"`
	// Runs is the number of runs. Their needs stay.
	Runs int `json:"runs"`
	// Held lists the runs with unknown needs, with the reasons. Because of them every node and
	// source stays.
	Held []Held `json:"held,omitempty"`
	// Collected has the amounts by kind of object that were deleted, or would be without a dry run.
	Collected map[storage.ObjectKind]*Amount `json:"collected"`
	// Young counts unneeded objects that are not old enough.
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

func (c *Result) take(objects []storage.Object) {
	for _, o := range objects {
		c.Collected[o.Kind].add(o)
	}
}

// Preview counts the objects that Collect would delete now, if the runs named in
// without were removed. It deletes nothing and needs no token.
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
	batches, out, err := c.sweep(ctx, inv, all)
	if err != nil {
		return nil, err
	}
	out.DryRun = true
	for _, batch := range batches {
		out.take(batch)
	}
	return out, nil
}

// Collect deletes objects that no run needs, batch by batch. It checks the
// token before each batch, and marks anew if the runs have changed. An
// interrupted collection returns its deletions so far; the next one continues.
func (c *Collector) Collect(ctx context.Context, token *leadership.Token) (*Result, error) {
	if err := c.eraseRemoved(ctx, token); err != nil {
		return nil, err
	}
	inv, err := c.takeInventory(ctx)
	if err != nil {
		return nil, err
	}
	sum := c.newResult()
	for {
		all, err := c.readRuns(ctx)
		if err != nil {
			return sum, err
		}
		batches, out, err := c.sweep(ctx, inv, all)
		if err != nil {
			return sum, err
		}
		sum.Runs, sum.Held, sum.Young, sum.Kept = out.Runs, out.Held, out.Young, out.Kept
		done, err := c.deleteBatches(ctx, batches, inv, all, token, sum)
		if done || err != nil {
			return sum, err
		}
	}
}

// eraseRemoved deletes the records of removed runs that a leader has not yet deleted.
func (c *Collector) eraseRemoved(ctx context.Context, token *leadership.Token) error {
	all, err := c.readRuns(ctx)
	if err != nil {
		return err
	}
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
	return nil
}

func (c *Collector) newResult() *Result {
	out := &Result{OlderThan: c.OlderThan.Seconds(), Collected: map[storage.ObjectKind]*Amount{}}
	for _, kind := range collectedKinds {
		out.Collected[kind] = &Amount{}
	}
	return out
}

// deleteBatches stops and returns false if the runs have changed.
func (c *Collector) deleteBatches(ctx context.Context, batches [][]storage.Object, inv *inventory, all *allRuns, token *leadership.Token, sum *Result) (bool, error) {
	total, deleted := 0, 0
	for _, batch := range batches {
		total += len(batch)
	}
	for _, batch := range batches {
		same, err := c.deleteBatch(ctx, batch, all, token)
		if !same || err != nil {
			return false, err
		}
		inv.forget(batch)
		sum.take(batch)
		if deleted += len(batch); c.Progress != nil {
			c.Progress(deleted, total)
		}
	}
	return true, nil
}

// deleteBatch returns false without deleting anything if the runs have changed.
func (c *Collector) deleteBatch(ctx context.Context, batch []storage.Object, all *allRuns, token *leadership.Token) (bool, error) {
	defer token.BeginBatch()()
	same, err := c.stillSo(ctx, all, token)
	if !same || err != nil {
		return false, err
	}
	if err := c.Archive.DeleteObjects(ctx, batch...); err != nil {
		return false, fmt.Errorf("collecting garbage: %w", err)
	}
	return true, nil
}

// checkLasts is the validity of the check before a batch: a process that was
// suspended in between checks again.
const checkLasts = 10 * time.Second

// stillSo checks, just before a batch, that this process leads and that the
// runs have not changed since the batch was computed.
func (c *Collector) stillSo(ctx context.Context, all *allRuns, token *leadership.Token) (bool, error) {
	for {
		begun := time.Now()
		now, err := c.readRuns(ctx)
		if err != nil || !all.same(now) {
			return false, err
		}
		if err := token.Check(ctx); err != nil {
			return false, fmt.Errorf("collecting garbage: %w", err)
		}
		if time.Since(begun) < checkLasts {
			return true, nil
		}
	}
}

func sameRun(a, b *runs.Run) bool { return a.ID == b.ID && a.Position() == b.Position() }

// allRuns holds all runs by id.
type allRuns struct {
	runs       []*runs.Run
	unreadable []runs.Unreadable
}

func (k *allRuns) same(other *allRuns) bool {
	sameID := func(a, b runs.Unreadable) bool { return a.ID == b.ID }
	return slices.EqualFunc(k.runs, other.runs, sameRun) && slices.EqualFunc(k.unreadable, other.unreadable, sameID)
}

func (c *Collector) readRuns(ctx context.Context) (*allRuns, error) {
	all, unreadable, err := runs.NewService(c.Archive, nil).Readable(ctx)
	if err != nil {
		return nil, fmt.Errorf("collecting garbage needs to know all runs: %w", err)
	}
	slices.SortFunc(all, func(a, b *runs.Run) int { return cmp.Compare(a.ID, b.ID) })
	return &allRuns{all, unreadable}, nil
}

func (c *Collector) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}
