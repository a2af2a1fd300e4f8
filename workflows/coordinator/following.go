package coordinator

import (
	"context"
	"slices"

	"coalmine/tasks"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/retention"
	"coalmine/workflows/runs"
)

// followRuns does what the states of runs say that have changed.
func (t *term) followRuns() {
	for len(t.records.toFollow) > 0 {
		r := t.records.toFollow[0]
		t.records.toFollow = t.records.toFollow[1:]
		r.toFollow = false
		if t.records.exists(r) {
			t.follow(r)
		} else {
			t.ledger.Strike(r.ID)
			t.spans.letGo()
			t.deletions.goOnAll() // its claims may have been the last that were not known
		}
	}
	t.records.toFollow = nil
}

// follow does what the state of a run says. It may be called at any time.
func (t *term) follow(r *run) {
	before, phase := r.followed, r.State.Phase
	r.followed = r.State
	if phase != before.Phase || r.State.Priority != before.Priority {
		t.log.Info("run", "run", r.ID, "phase", phase)
	}
	if phase.Finished() {
		t.letGo(r)
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

// letGo has the graph let go of a run's plan.
func (t *term) letGo(r *run) {
	view := t.view()
	view.LetGo(&r.Run)
	t.graph.Release(r.Run.Run)
	t.spans.letGo()
}

// followPins renews the claims of a run on checkpoints when what is pinned of
// it has changed. Nothing is deleted until they are known.
func (t *term) followPins(r *run) {
	if r.Live() {
		t.claim(r, r.Plan)
	} else {
		r.claimed = false // follow compiles its plan again
	}
}

// claim notes what a run keeps of its chains.
func (t *term) claim(r *run, p *plan.Plan) {
	r.claimed = true
	t.ledger.Enter(r.ID, retention.ClaimsOf(&r.State, p))
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
			if t.records.exists(r) {
				t.compiled(r, p, err)
			}
		}
	})
}

func (t *term) compiled(r *run, p *plan.Plan, err error) {
	switch {
	case err == nil && r.State.Phase.Finished():
		t.claim(r, p)
	case err == nil:
		t.claim(r, p)
		t.graph.Adopt(r.Run.Run, p)
		t.records.follow(r)
	case tasks.IsPermanent(err) || r.PlanTries+1 >= policy.MaxPlans:
		t.log.Error("run has no plan", "run", r.ID, "error", err)
		r.claimed, r.PlanTries = true, 0
		if !r.State.Phase.Finished() {
			t.records.append(r.Run.Run, runs.Entry{Kind: runs.Rejected, Error: err.Error()})
		}
	default:
		r.PlanTries++
		t.log.Warn("plan failed; trying again", "run", r.ID, "error", err)
		t.after(policy.Backoff(r.PlanTries), func() { t.records.follow(r) })
		return
	}
	t.deletions.goOnAll()
}
