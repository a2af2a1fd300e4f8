package coordinator

import (
	"context"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// finishIfEnded ends a run when all its cells have ended, the retired outputs
// of its chains are deleted, and its results are verified in storage.
func (t *term) finishIfEnded(r *run) {
	verified := r.verified
	r.verified = false
	if !r.Active() {
		return
	}
	outcomes := r.Outcomes()
	switch {
	case outcomes == nil || t.tidying(r):
	case !verified:
		t.verify(r)
	default:
		t.records.append(r.Run.Run, runs.Entry{Kind: runs.Finished, Outcomes: outcomes})
	}
}

// tidying reports whether a run with ended cells should wait for pending
// deletions, so that a process that ends with its run leaves nothing behind.
func (t *term) tidying(r *run) bool {
	busy := false
	for recipe := range r.Plan.Chains {
		ch := t.graph.Chain(recipe)
		busy = busy || ch.Surveyed && t.deletions.busy(ch)
	}
	if !busy {
		r.Tidying = time.Time{}
		return false
	}
	if r.Tidying.IsZero() {
		r.Tidying = t.now()
		t.after(policy.TidyPatience, func() { t.graph.CheckEnd(r.Run.Run) })
	}
	return t.now().Sub(r.Tidying) < policy.TidyPatience
}

// tidied ends the runs that have waited for deletions.
func (t *term) tidied() {
	for _, ch := range t.deletions.advanced {
		for _, r := range t.graph.Runs() {
			if slices.Contains(ch.Runs, r) {
				t.graph.CheckEnd(r)
			}
		}
	}
	t.deletions.advanced = nil
}

// verification is the verification of a run's outcome in storage before the run ends.
type verification struct {
	*run
	targets map[storage.Key]graph.Dependency
	reports map[storage.Key]bool
	keys    []storage.Key // targets not looked up yet
	found   bool          // all targets looked up so far were found
	// batches is the number of batches of collections when the verification began; quiet reports whether
	// none was running then.
	batches int
	quiet   bool
}

// verifyAtOnce is the number of targets that one job looks up. One job could not look up all: the 20,000
// targets of 10,000 cells take a minute in a store that answers within 20 ms.
const verifyAtOnce = 1000

// verify verifies the results of a run in storage before the run ends: cached outputs may have been
// collected meanwhile, or be damaged. During a batch of a collection the answer would be unreliable. A
// collection that begins afterwards reads all runs first, including this one.
func (t *term) verify(r *run) {
	if r.verifying {
		return
	}
	r.verifying = true
	x := &verification{run: r, targets: r.Targets(), reports: make(map[storage.Key]bool), found: true}
	x.keys = plan.SortedKeys(x.targets)
	for _, c := range r.Cells {
		x.reports[c.Plan.Report.Key] = true
	}
	x.batches, x.quiet = t.store.token.Quiet()
	t.verifyNext(x)
}

// verifyNext looks up some targets, and then the next ones.
func (t *term) verifyNext(x *verification) {
	keys := x.keys[:min(len(x.keys), verifyAtOnce)]
	t.persist(reading, "looking at the outcome of run "+x.ID, x.stillVerifying, func(ctx context.Context) (func(), error) {
		found, err := t.store.lookUpOutcome(ctx, keys, x.reports)
		return func() {
			if !x.stillVerifying() {
				return
			}
			x.found = t.confirm(x.targets, keys, found) && x.found
			if x.keys = x.keys[len(keys):]; len(x.keys) > 0 {
				t.verifyNext(x)
				return
			}
			batches, quiet := t.store.token.Quiet()
			t.verified(x.run, x.found && x.quiet && quiet && batches == x.batches)
		}, err
	})
}

// stillVerifying reports whether the outcome is still to be verified.
func (r *run) stillVerifying() bool {
	r.verifying = r.Active()
	return r.verifying
}

// confirm reports whether all targets were found. Missing targets are looked up again.
func (t *term) confirm(targets map[storage.Key]graph.Dependency, keys []storage.Key, found []plan.Stored) bool {
	all := true
	for i, key := range keys {
		if !found[i].Available() {
			t.graph.Recheck(targets[key])
			all = false
		}
	}
	return all
}

// verified ends the run if its outcome was verified; otherwise it verifies the outcome again.
func (t *term) verified(r *run, seen bool) {
	r.verifying, r.verified = false, seen
	if seen {
		t.graph.CheckEnd(r.Run.Run)
		return
	}
	t.after(policy.VerifyAgain, func() { t.graph.CheckEnd(r.Run.Run) })
}
