package coordinator

import (
	"context"
	"errors"
	"io"
	"slices"

	"coalmine/internal/goroutines"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/retention"
)

// followRuns applies the changed states of runs.
func (t *term) followRuns() {
	for len(t.records.toFollow) > 0 {
		r := t.records.toFollow[0]
		t.records.toFollow = t.records.toFollow[1:]
		r.toFollow = false
		if t.records.exists(r) {
			t.follow(r)
		} else {
			t.ledger.Remove(r.ID)
			t.spans.Prune()
			t.deletions.goOnAll() // its claims may have been the last unknown ones
		}
	}
	t.records.toFollow = nil
}

// follow applies the state of a run. It may be called at any time.
func (t *term) follow(r *run) {
	before, phase := r.followed, r.State.Phase
	r.followed = r.State
	if phase != before.Phase || r.State.Priority != before.Priority {
		t.log.Info("run", "run", r.ID, "phase", phase)
	}
	if phase.Finished() {
		t.release(r)
	}
	if r.State.Pinned != before.Pinned || !slices.Equal(r.State.PinnedCells, before.PinnedCells) {
		t.followPins(r)
	}
	switch {
	case r.State.Removed:
		t.records.erase(r)
	case r.Live() && phase == runs.Queued:
		t.records.append(r.Run.Run, runs.Entry{Kind: runs.Started})
	case !r.Live() && (!phase.Finished() || !r.claimed):
		t.compile(r)
	}
}

// release releases a run's plan in the graph.
func (t *term) release(r *run) {
	if !r.Live() {
		return // its plan is being made, or there is none
	}
	view := t.view()
	view.SaveCells(&r.Run)
	t.graph.Release(r.Run.Run)
	t.spans.Prune()
}

// followPins renews the claims of a run on checkpoints when its pins have
// changed. Nothing is deleted until they are known.
func (t *term) followPins(r *run) {
	if r.Live() {
		t.claim(r, r.Plan)
	} else {
		r.claimed = false // follow compiles the plan again
	}
}

// claim records the checkpoints that a run keeps in the chains of its plans.
func (t *term) claim(r *run, plans ...*plan.Plan) {
	r.claimed = true
	for _, p := range plans {
		t.ledger.Record(r.ID, retention.ClaimsOf(&r.State, p))
	}
}

// compile makes the plan of a run: to work on the run or, if it is finished and its plan is not
// recorded, to find the checkpoints that it keeps.
func (t *term) compile(r *run) {
	if r.compiling {
		return
	}
	r.compiling = true
	c := &compilation{term: t, run: r, toWorkOn: !r.State.Phase.Finished()}
	if c.toWorkOn {
		c.make()
	} else {
		c.claimRecorded()
	}
}

// compilation makes a run's plan. It adds each part to the graph before it makes the next, so that memory
// never holds a large plan twice, and the loop handles other events in between.
type compilation struct {
	*term
	run   *run
	parts plan.Parts
	// toWorkOn reports whether to add the plan to the graph. Otherwise claimed collects its cells and
	// chains for the claims.
	toWorkOn bool
	claimed  plan.Plan
	// record is made of all parts.
	record plan.RecordWriter
}

// exists reports whether the run has not been removed meanwhile.
func (c *compilation) exists() bool { return c.records.exists(c.run) }

// claimRecorded claims the kept checkpoints of a finished run from its recorded plans.
func (c *compilation) claimRecorded() {
	c.persist(reading, "reading the plan of run "+c.run.ID, c.exists, func(ctx context.Context) (func(), error) {
		var plans []*plan.Plan
		known, err := plan.ReadOutlines(ctx, c.Archive, c.run.ID, func(p *plan.Plan) { plans = append(plans, p) })
		if errors.Is(err, storage.ErrNewer) {
			c.log.Warn("a newer build recorded the plan of a run", "run", c.run.ID, "error", err)
			known, err = false, nil
		}
		return func() {
			switch {
			case !c.exists():
			case known:
				c.run.compiling = false
				c.claim(c.run, plans...)
				c.records.follow(c.run)
				c.deletions.goOnAll()
			default:
				c.make()
			}
		}, err
	})
}

// make makes the plan of the submission.
func (c *compilation) make() {
	if c.run.spec == nil {
		c.read()
	} else {
		c.begin()
	}
}

// read reads the submission again, because an earlier plan released it.
func (c *compilation) read() {
	c.persist(reading, "reading run "+c.run.ID, c.exists, func(ctx context.Context) (func(), error) {
		record, err := c.records.service.Get(ctx, c.run.ID)
		if errors.Is(err, storage.ErrNotFound) || runs.IsUnreadable(err) {
			return func() { c.goOn(err) }, nil
		}
		return func() {
			c.run.spec = &record.Spec
			c.begin()
		}, err
	})
}

// begin starts the compilation of the submission.
func (c *compilation) begin() {
	record := *c.run.record
	record.Spec, c.run.spec = *c.run.spec, nil
	c.start(compiling, func(ctx context.Context) func() {
		var parts plan.Parts
		err := c.planning(func() (err error) {
			parts, err = c.Compile(ctx, &record)
			return err
		})
		return func() {
			c.parts = parts
			c.goOn(err)
		}
	})
}

// planning calls a function that makes a part of the plan. A panic there rejects the run, because
// the same record would cause it again.
func (c *compilation) planning(do func() error) error {
	err := goroutines.Recover(do)
	if goroutines.IsPanic(err) {
		goroutines.LogPanic(c.log, err, "planning", c.run.ID)
		return tasks.Permanent(err)
	}
	return err
}

// goOn makes the next part, unless there was an error.
func (c *compilation) goOn(err error) {
	switch {
	case !c.exists():
	case err != nil:
		c.run.compiling = false
		c.end(err)
	default:
		c.start(compiling, func(context.Context) func() {
			var part *plan.Plan
			err := c.planning(func() (err error) {
				part, err = c.next()
				return err
			})
			return func() { c.add(part, err) }
		})
	}
}

func (c *compilation) next() (*plan.Plan, error) {
	part, err := c.parts()
	if err != nil {
		return nil, err
	}
	if err = part.Check(); err == nil {
		err = c.record.Add(part)
	}
	return part, tasks.Permanent(err)
}

// add adds a part of the plan, if there was no error.
func (c *compilation) add(part *plan.Plan, err error) {
	if err == nil && c.exists() {
		if c.toWorkOn {
			c.graph.AddPart(c.run.Run.Run, part)
		} else {
			c.claimed.Add(part)
		}
	}
	c.goOn(err)
}

// end handles a complete plan, reported by io.EOF, or an invalid one. A run that has
// finished or resumed meanwhile is followed once more.
func (c *compilation) end(err error) {
	r := c.run
	finished := r.State.Phase.Finished()
	switch {
	case err == io.EOF && !c.toWorkOn:
		c.claim(r, &c.claimed)
		c.records.follow(r)
		c.remember()
	case err == io.EOF && !finished:
		c.keep()
		return
	case err == io.EOF:
		c.claim(r, r.Plan)
		c.graph.Release(r.Run.Run)
	default:
		c.graph.Release(r.Run.Run)
		c.unplanned(r, err)
	}
	c.deletions.goOnAll()
}

// keep records the plan and then begins work on the run.
func (c *compilation) keep() {
	r := c.run
	r.compiling = true
	c.persist(reading, "recording the plan of run "+r.ID, c.exists, func(ctx context.Context) (func(), error) {
		return func() {
			r.compiling = false
			if c.exists() {
				c.kept()
			}
		}, c.store.keepPlan(ctx, r.ID, &c.record)
	})
}

// kept continues after the plan is recorded. The run may have finished meanwhile.
func (c *compilation) kept() {
	r := c.run
	c.claim(r, r.Plan)
	if r.State.Phase.Finished() {
		c.graph.Release(r.Run.Run)
	} else {
		c.graph.Begin(r.Run.Run)
		c.records.follow(r)
	}
	c.deletions.goOnAll()
}

// remember records the plan of a run that finished under a build without recorded plans, if the run's
// outcome is stored under the plan's keys. After a failure another term tries again.
func (c *compilation) remember() {
	r := c.run
	var reports []storage.Key
	for i := range c.claimed.Cells {
		if cell := &c.claimed.Cells[i]; r.State.Outcomes[cell.Name] == runs.Done {
			reports = append(reports, cell.Report.Key)
		}
	}
	if len(reports) == 0 {
		return
	}
	finished := r.State.Finished
	lost := func(n plan.Stored) bool { return !n.Available() || !plan.IsReportOf(n.Commit, finished) }
	c.start(reading, func(ctx context.Context) func() {
		stored, err := plan.LookUpAll(ctx, c.Archive, reports)
		if err == nil && !slices.ContainsFunc(stored, lost) {
			err = c.store.keepPlan(ctx, r.ID, &c.record)
		}
		if err != nil {
			c.log.Warn("the plan of a finished run could not be recorded", "run", r.ID, "error", err)
		}
		return func() {}
	})
}

// unplanned handles a run without a plan: making it failed, for now or permanently.
func (t *term) unplanned(r *run, err error) {
	if !tasks.IsPermanent(err) && r.PlanTries+1 < policy.MaxPlans {
		r.PlanTries++
		t.log.Warn("planning a run failed; trying again", "run", r.ID, "error", err)
		t.after(policy.Backoff(r.PlanTries), func() { t.records.follow(r) })
		return
	}
	t.log.Error("a run cannot be planned", "run", r.ID, "error", err)
	r.claimed, r.PlanTries = true, 0
	if !r.State.Phase.Finished() {
		t.records.append(r.Run.Run, runs.Entry{Kind: runs.Rejected, Error: err.Error()})
	}
}
