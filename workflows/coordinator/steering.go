package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/retention"
	"coalmine/workflows/runs"
)

const (
	// discoverEvery is how often the runs at work are read again, and new ones
	// looked for, without a nudge.
	discoverEvery = 5 * time.Second
	// discoverAllEvery is how often finished runs are read again as well.
	discoverAllEvery = time.Minute
	// maxCompiles is how often a plan is tried before its run is rejected.
	maxCompiles = 5
)

// nudged looks at storage again: somebody has submitted or steered a run.
func (t *term) nudged() {
	t.discoverAll = true
	t.discover()
}

// discover reads the records of the runs, all of them or only those at work.
func (t *term) discover() {
	if t.discovering {
		t.discoverAgain = true
		return
	}
	t.discovering, t.discoverAgain = true, false
	all := t.discoverAll
	t.discoverAll = false
	known := make(map[string]runs.Run, len(t.runs))
	skip := make(map[string]bool)
	for id, r := range t.runs {
		known[id] = *r.record
		skip[id] = !all && r.state.Phase.Finished()
	}
	t.start(reading, func(ctx context.Context) func() {
		fresh, err := t.readRuns(ctx, known, skip)
		return func() {
			t.discovering = false
			if err != nil {
				t.storageFails("reading the runs", err)
				t.discoverAll = true
				t.after(retryPauses[1], t.discover)
				return
			}
			t.storageWorks()
			t.discoveredRuns(fresh)
			if t.discoverAgain {
				t.discover()
			}
		}
	})
}

// readRuns returns all runs that exist, read anew unless they are in skip.
func (t *term) readRuns(ctx context.Context, known map[string]runs.Run, skip map[string]bool) ([]*runs.Run, error) {
	ids, err := t.service.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var fresh []*runs.Run
	for _, id := range ids {
		record, ok := known[id]
		r := &record
		switch {
		case !ok:
			r, err = t.service.Get(ctx, id)
		case !skip[id]:
			_, err = t.service.Refresh(ctx, r)
		}
		if errors.Is(err, storage.ErrNotFound) {
			continue // removed while we were reading
		}
		if errors.Is(err, storage.ErrCorrupt) {
			t.log.Error("run cannot be read; it is left alone", "run", id, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, r)
	}
	return fresh, nil
}

// discoveredRuns takes in what readRuns found.
func (t *term) discoveredRuns(fresh []*runs.Run) {
	exists := make(map[string]bool, len(fresh))
	for _, record := range fresh {
		exists[record.ID] = true
		r := t.runs[record.ID]
		if r == nil {
			r = &run{id: record.ID, record: record}
			t.runs[r.id] = r
			t.order = append(t.order, r)
		}
		t.update(r, record)
	}
	for _, r := range slices.Clone(t.order) {
		if !exists[r.id] {
			t.remove(r)
		}
	}
	slices.SortFunc(t.order, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
	t.discovered = true
	t.sweepAll()
	t.changed = true
}

func (t *term) remove(r *run) {
	t.release(r)
	t.claims.Strike(r.id)
	delete(t.runs, r.id)
	t.order = slices.DeleteFunc(t.order, func(x *run) bool { return x == r })
}

// update takes in a newer record of a run, and follows what it says.
func (t *term) update(r *run, record *runs.Run) {
	if record.Position() >= r.record.Position() {
		r.record = record
	}
	before := r.state
	r.state = r.record.State.Clone()
	for _, e := range r.outbox {
		r.state.Apply(e)
	}
	t.follow(r, before)
}

// follow makes the run's cells and wants what its state says.
func (t *term) follow(r *run, before runs.State) {
	now := r.state.Phase
	if now != before.Phase || r.state.Priority != before.Priority {
		t.log.Info("run", "run", r.id, "phase", now)
		t.dirty, t.changed = true, true
	}
	if now.Finished() {
		t.release(r)
	}
	t.followPins(r, before)
	if r.state.Removed {
		t.erase(r)
		return
	}
	if r.live() {
		failed := r.state.FailedCells()
		for _, c := range r.cells {
			if c.failed != failed[c.plan.Name] {
				c.failed = failed[c.plan.Name]
				t.dirty = true
			}
		}
	}
	switch {
	case r.live() && now == runs.Queued:
		t.record(r, runs.Entry{Kind: runs.Started})
	case !r.live() && (!now.Finished() || !r.claimed):
		t.compile(r)
	}
}

// followPins renews the claims of a run on checkpoints when what is pinned of
// it has changed. Nothing is deleted until they are known.
func (t *term) followPins(r *run, before runs.State) {
	if r.state.Pinned == before.Pinned && slices.Equal(r.state.PinnedCells, before.PinnedCells) {
		return
	}
	if r.live() {
		t.enterClaims(r, r.plan)
	} else {
		r.claimed = false // follow compiles its plan again
	}
}

// enterClaims notes what a run keeps of its chains.
func (t *term) enterClaims(r *run, p *plan.Plan) {
	r.claimed = true
	t.claims.Enter(r.id, retention.ClaimsOf(&r.state, p))
}

// erase deletes the record of a run that was removed, once nothing more is to
// be written to it. What it has computed is left to collection.
func (t *term) erase(r *run) {
	if r.erasing || r.sending || len(r.outbox) > 0 {
		return
	}
	r.erasing = true
	exists := func() bool { return t.runs[r.id] == r }
	t.persist(deleting, "removing run "+r.id, exists, func(ctx context.Context) (func(), error) {
		if err := t.token.Check(ctx); err != nil {
			return nil, err
		}
		return func() {
			if exists() {
				t.remove(r)
				t.changed = true
			}
		}, t.service.Delete(ctx, r.id)
	})
}

// compile makes a run's plan: to work on it, or, if the run has finished, to
// learn which checkpoints it keeps.
func (t *term) compile(r *run) {
	if r.compiling {
		return
	}
	r.compiling = true
	record := r.record
	t.start(reading, func(ctx context.Context) func() {
		p, err := t.Compile(ctx, record)
		if err == nil {
			err = tasks.Permanent(p.Check())
		}
		return func() {
			r.compiling = false
			if t.runs[r.id] == r {
				t.compiled(r, p, err)
			}
		}
	})
}

func (t *term) compiled(r *run, p *plan.Plan, err error) {
	switch {
	case err == nil && r.state.Phase.Finished():
		t.enterClaims(r, p)
	case err == nil:
		t.adopt(r, p)
		t.dirty = true
		t.follow(r, r.state)
	case tasks.IsPermanent(err) || r.compileTries+1 >= maxCompiles:
		t.log.Error("run has no plan", "run", r.id, "error", err)
		r.claimed, r.compileTries = true, 0
		if !r.state.Phase.Finished() {
			t.record(r, runs.Entry{Kind: runs.Rejected, Error: err.Error()})
		}
	default:
		r.compileTries++
		t.log.Warn("plan failed; trying again", "run", r.id, "error", err)
		t.after(backoff(r.compileTries), func() { t.follow(r, r.state) })
		return
	}
	t.sweepAll()
}

// finish ends a run.
func (t *term) finish(r *run, outcomes map[string]runs.Phase) {
	t.record(r, runs.Entry{Kind: runs.Finished, Outcomes: outcomes})
}

// record adds an entry to a run's log. It counts at once; it is stored as soon
// as storage takes it.
func (t *term) record(r *run, e runs.Entry) {
	e.Time = t.now().UTC()
	before := r.state
	r.outbox = append(r.outbox, e)
	r.state = before.Clone()
	r.state.Apply(e)
	t.follow(r, before)
	t.post(r)
}

// post stores what is in a run's outbox, in order.
func (t *term) post(r *run) {
	if r.sending || len(r.outbox) == 0 {
		return
	}
	r.sending = true
	entries := slices.Clone(r.outbox)
	record := *r.record
	sent := 0 // survives tries: what has been appended is not appended again
	exists := func() bool { return t.runs[r.id] == r }
	t.persist(reading, fmt.Sprintf("writing the log of run %s", r.id), exists, func(ctx context.Context) (func(), error) {
		for ; sent < len(entries); sent++ {
			if err := t.service.Append(ctx, r.id, entries[sent]); err != nil {
				return nil, err
			}
		}
		if _, err := t.service.Refresh(ctx, &record); err != nil {
			return nil, err
		}
		if err := t.service.Compact(ctx, &record); err != nil {
			t.log.Warn("log of a run could not be folded; it will be later", "run", r.id, "error", err)
		}
		return func() {
			r.sending, t.changed = false, true
			r.outbox = r.outbox[len(entries):]
			if exists() {
				t.update(r, &record)
				t.post(r)
			}
		}, nil
	})
}

func (t *term) chainsInOrder() []*chain {
	var chains []*chain
	for _, recipe := range plan.SortedKeys(t.chains) {
		chains = append(chains, t.chains[recipe])
	}
	return chains
}
