package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"coalmine/internal/goroutines"
	"coalmine/storage"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs"
)

// run is a run in a term.
type run struct {
	observe.Run
	// spec is the submission, nil once its plan is made, because the spec of a large grid takes a tenth of
	// the memory of its tasks.
	spec *runs.Spec
	// record is the run as last read from storage, without its spec; outbox holds the entries yet to be
	// stored. The run's state is the fold of both.
	record  *runs.Run
	outbox  []runs.Entry
	posting bool
	erasing bool // its record is being deleted

	toFollow bool
	followed runs.State // when it was last followed

	compiling bool
	claimed   bool       // its claims on checkpoints are known
	verifying bool       // its outcome is being verified
	verified  bool       // its outcome was just verified
	shown     runs.Phase // as last published
}

// records holds the existing runs with their logs: it reads the entries of other
// processes, and appends those of this leader.
type records struct {
	*jobs
	store   leaderStore
	service *runs.Service
	graph   *graph.Graph

	byID map[string]*run
	// left holds the logged reason of each unreadable run.
	left *sync.Map
	// toFollow lists runs with state that may have changed since they were followed.
	toFollow []*run

	// discovered reports that all runs have been read once.
	discovered                              bool
	discovering, discoverAgain, discoverAll bool
}

// inOrder returns the runs ordered by id.
func (c *records) inOrder() []*run {
	var all []*run
	for _, r := range c.graph.Runs() {
		all = append(all, c.byID[r.ID])
	}
	return all
}

// nudged reads storage again after a submission or a control command.
func (c *records) nudged() {
	c.discoverAll = true
	c.discover()
}

// discover reads the records of all runs, or only of the active ones.
func (c *records) discover() {
	if c.discovering {
		c.discoverAgain = true
		return
	}
	c.discovering, c.discoverAgain = true, false
	all := c.discoverAll
	c.discoverAll = false
	known := make(map[string]runs.Run, len(c.byID))
	skip := make(map[string]bool)
	for id, r := range c.byID {
		known[id] = *r.record
		skip[id] = !all && r.State.Phase.Finished()
	}
	c.start(reading, func(ctx context.Context) func() {
		fresh, err := c.read(ctx, known, skip)
		return func() { c.haveRead(fresh, err) }
	})
}

// read returns all runs that exist, read anew unless they are in skip.
func (c *records) read(ctx context.Context, known map[string]runs.Run, skip map[string]bool) ([]*runs.Run, error) {
	ids, err := c.service.IDs(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]*runs.Run, len(ids))
	err = goroutines.Each(ctx, len(ids), runs.ReadAtOnce, func(ctx context.Context, i int) (err error) {
		id := ids[i]
		record, ok := known[id]
		r := &record
		err = goroutines.Recover(func() (err error) {
			switch {
			case !ok:
				r, err = c.service.Get(ctx, id)
			case !skip[id]:
				_, err = c.service.Refresh(ctx, r)
			}
			return err
		})
		goroutines.LogPanic(c.log, err, "reading", id)
		switch {
		case errors.Is(err, storage.ErrNotFound): // removed while we were reading
			return nil
		case runs.IsUnreadable(err), goroutines.IsPanic(err):
			c.leave(id, err)
			return nil
		}
		found[i] = r
		return err
	})
	return slices.DeleteFunc(found, func(r *runs.Run) bool { return r == nil }), err
}

// leave logs, once each, the reasons why a run cannot be read.
func (c *records) leave(id string, err error) {
	if before, said := c.left.Swap(id, err.Error()); !said || before != err.Error() {
		c.log.Error("cannot read a run; skipping it", "run", id, "error", err)
	}
}

func (c *records) haveRead(fresh []*runs.Run, err error) {
	c.discovering = false
	if err != nil {
		c.storeFails("reading the runs", err)
		c.discoverAll = true
		c.after(policy.StorageRetries[1], c.discover)
		return
	}
	c.storeAnswers()
	c.takeIn(fresh)
	if c.discoverAgain {
		c.discover()
	}
}

// takeIn updates the runs from all existing records.
func (c *records) takeIn(fresh []*runs.Run) {
	exists := make(map[string]bool, len(fresh))
	for _, record := range fresh {
		exists[record.ID] = true
		r := c.byID[record.ID]
		if r == nil {
			spec := record.Spec
			r = &run{record: record, spec: &spec}
			r.Run.Run, r.Name = c.graph.AddRun(record.ID), spec.Name
			c.byID[r.ID] = r
		}
		c.update(r, record)
	}
	for _, r := range c.inOrder() {
		if !exists[r.ID] {
			c.remove(r)
		}
	}
	c.discovered = true
	c.changed = true
}

// remove releases a run without a record.
func (c *records) remove(r *run) {
	c.graph.RemoveRun(r.Run.Run)
	delete(c.byID, r.ID)
	c.follow(r)
}

// exists reports whether the run has not been removed meanwhile.
func (c *records) exists(r *run) bool { return c.byID[r.ID] == r }

// update replaces the record of a run by a newer one.
func (c *records) update(r *run, record *runs.Run) {
	record.Spec = runs.Spec{}
	if record.Position() >= r.record.Position() {
		r.record = record
	}
	state := r.record.State.Clone()
	for _, e := range r.outbox {
		state.Apply(e)
	}
	c.graph.SetState(r.Run.Run, state)
	c.follow(r)
}

// follow makes the term apply the state of a run.
func (c *records) follow(r *run) {
	if !r.toFollow {
		r.toFollow = true
		c.toFollow = append(c.toFollow, r)
	}
}

// append adds an entry to a run's log. The entry counts at once, and is stored as soon as storage accepts it.
func (c *records) append(owner *graph.Run, e runs.Entry) {
	r := c.byID[owner.ID]
	if r == nil {
		return // the run has been removed
	}
	e.Time = c.now().UTC()
	r.outbox = append(r.outbox, e)
	state := r.State.Clone()
	state.Apply(e)
	c.graph.SetState(r.Run.Run, state)
	c.follow(r)
	c.post(r)
}

// post stores the entries in a run's outbox, in order.
func (c *records) post(r *run) {
	if r.posting || len(r.outbox) == 0 {
		return
	}
	r.posting = true
	entries := slices.Clone(r.outbox)
	record := *r.record
	sent := 0 // survives retries, so that no entry is appended twice
	exists := func() bool { return c.exists(r) }
	c.persist(reading, fmt.Sprintf("writing the log of run %s", r.ID), exists, func(ctx context.Context) (func(), error) {
		for ; sent < len(entries); sent++ {
			if err := c.service.Append(ctx, r.ID, entries[sent]); err != nil {
				return nil, err
			}
		}
		if _, err := c.service.Refresh(ctx, &record); err != nil {
			return nil, err
		}
		if err := c.service.Compact(ctx, &record); err != nil {
			c.log.Warn("cannot fold the log of a run; retrying later", "run", r.ID, "error", err)
		}
		return func() {
			r.posting, c.changed = false, true
			r.outbox = r.outbox[len(entries):]
			if exists() {
				c.update(r, &record)
				c.post(r)
			}
		}, nil
	})
}

// erase deletes the record of a removed run, once no write to it is pending.
// Collection deletes its outputs.
func (c *records) erase(r *run) {
	if r.erasing || r.posting || len(r.outbox) > 0 {
		return
	}
	r.erasing = true
	exists := func() bool { return c.exists(r) }
	c.persist(deleting, "removing run "+r.ID, exists, func(ctx context.Context) (func(), error) {
		if err := c.store.token.Check(ctx); err != nil {
			return nil, err
		}
		return func() {
			if exists() {
				c.remove(r)
				c.changed = true
			}
		}, c.service.Delete(ctx, r.ID)
	})
}
