package control

import (
	"context"
	"sync"
	"time"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/planned"
)

// planKept is the time for which an unused plan is cached: a plan of a thousand cells takes
// seconds to make, and some tens of MB.
const planKept = time.Minute

// plans caches the plan of the last requested run: a page that shows tasks requests their nodes
// repeatedly.
type plans struct {
	mu        sync.Mutex // held while a plan is made, so that other requests wait for it
	run       string
	submitted time.Time
	plan      *plan.Plan
	forget    *time.Timer
}

// get returns the plan of a run. It must not be changed.
func (x *plans) get(ctx context.Context, archive *storage.Archive, run *runs.Run) (*plan.Plan, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.forget == nil {
		x.forget = time.AfterFunc(planKept, x.drop)
	}
	x.forget.Reset(planKept)
	if x.plan != nil && x.run == run.ID && x.submitted.Equal(run.State.Submitted) {
		return x.plan, nil
	}
	p, err := planned.Plan(ctx, archive, run)
	if err != nil {
		return nil, err
	}
	x.run, x.submitted, x.plan = run.ID, run.State.Submitted, p
	return p, nil
}

func (x *plans) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plan = nil
}
