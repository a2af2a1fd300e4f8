package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs"
)

// outcome applies a worker's report that an attempt has ended.
func (t *term) outcome(a *graph.Attempt, o attempts.Outcome) {
	x := a.Task
	switch o.Result {
	case attempts.Done:
		t.measure(a, o)
		t.succeed(x, o.Objects)
	case attempts.Refused:
		t.logTrouble(x, attemptFailed(o))
		t.fail(x, o.Error)
	case attempts.Missing:
		t.inputMissing(x, o)
	case attempts.Returned:
		t.handedBack(a, o.Error)
	case attempts.StoreAway:
		t.storeFailed(a, o)
	case attempts.Failed:
		fallthrough
	default: // an unknown result of a worker of another version
		t.tryAgain(x, o)
	}
	if o.Result != attempts.StoreAway {
		x.StoreAnswered()
	}
}

// measure records the duration of an attempt.
func (t *term) measure(a *graph.Attempt, o attempts.Outcome) {
	t.graph.Durations(a.Task).Add(o.Seconds)
	t.dispatcher.UseTime(a.Task, o.Seconds)
	if r := t.records.byID[a.Run.ID]; r != nil {
		r.Tokens.Add(t.now(), o.Tokens)
	}
}

// succeed ends a task with an available output. objects are its objects if they are known.
func (t *term) succeed(x *graph.Task, objects []storage.Blob) {
	if x.State() == graph.Finished {
		return
	}
	for _, in := range x.Spec().Inputs {
		delete(t.losses, loss{in.Key, x.Key})
	}
	t.spans.EndTask(x, nil)
	t.graph.Commit(x, objects, t.now())
}

// storeFailed retries a task after a failure of the store. An outage may last
// hours, so it is logged once.
func (t *term) storeFailed(a *graph.Attempt, o attempts.Outcome) {
	x, trouble := a.Task, graph.StoreAway
	if o.StoreFull {
		trouble = graph.StoreFull
	}
	if x.Trouble().Store != trouble {
		t.logOf(x).Warn("an attempt failed on the store; its task waits for the store", "attempt", o.Number, "worker", o.Worker, "error", o.Error)
	}
	noted := x.AddTrouble()
	noted.Store, noted.Error = trouble, o.Error
	t.handedBack(a, o.Error)
}

// handedBack handles an attempt that was returned untried: because the coordinator asked for it, because
// its worker shuts down or is of another build, or because the store was away. A task is never given up
// because of such returns.
func (t *term) handedBack(a *graph.Attempt, why string) {
	x := a.Task
	if a.Stopping {
		t.relaunch(x) // wanted again meanwhile
		return
	}
	trouble := x.AddTrouble()
	trouble.Returned++
	trouble.HandedBack = cmp.Or(why, "no reason given")
	x.Urgent = true
	t.pause(x, policy.ReturnedPause(x.Key, trouble.Returned))
}

// pause delays the next attempt at a task: the next try if it is idle, and another second attempt if
// it has a straggler.
func (t *term) pause(x *graph.Task, d time.Duration) {
	x.AddTrouble().Until = t.now().Add(d)
	if x.State() == graph.Idle {
		t.graph.Pause(x)
		t.after(d, func() { t.graph.Resume(x) })
	}
}

// tryAgain counts a retryable error.
func (t *term) tryAgain(x *graph.Task, o attempts.Outcome) {
	trouble := x.AddTrouble()
	trouble.Tries++
	if o.Kept = o.Kept && x.Number-trouble.Returned < policy.MaxFurther; o.Kept {
		trouble.Tries, o.Exit = 0, "" // after progress the next attempt may end differently
	}
	alike := policy.Repeats(trouble.Exit, o.Exit)
	trouble.Error, trouble.Exit = o.Error, o.Exit
	t.logTrouble(x, attemptFailed(o))
	if trouble.Tries >= t.MaxTries || alike {
		t.fail(x, fmt.Sprintf("failed %s, last on worker %s: %s", readable.Count(trouble.Tries, "time"), o.Worker, o.Error))
		return
	}
	pause := policy.Backoff(trouble.Tries)
	t.pause(x, pause)
	if x.State() != graph.Pausing {
		return // another attempt is still running
	}
	t.logOf(x).Warn("attempt failed; trying again", "attempt", o.Number, "worker", o.Worker, "tries", trouble.Tries, "pause", pause, "error", readable.Brief(o.Error))
	// A torn record may have caused the failure; it must not block the next try.
	pausing := func() bool { return x.State() == graph.Pausing }
	t.persist(reading, "removing a torn commit", pausing, func(ctx context.Context) (func(), error) {
		_, err := t.store.lookUp(ctx, x.Key)
		return nil, err
	})
}

// inputMissing replans an input that a worker could not read.
func (t *term) inputMissing(x *graph.Task, o attempts.Outcome) {
	if o.MissingNode == nil {
		o.Error = "an input is missing, but the worker's report does not name it: " + o.Error
		t.tryAgain(x, o)
		return
	}
	key := *o.MissingNode
	in, ok := t.graph.Input(x, key)
	switch {
	case !ok:
		o.Error = fmt.Sprintf("node %s is missing, but it is not an input of %s: %s", key.Short(), x.Label(), o.Error)
		t.tryAgain(x, o)
	case t.purging[key]: // the task continues when the input has been replanned
	case !in.There:
		t.graph.Requeue(x)
	default:
		t.inputLost(x, in, o)
	}
}

// inputLost replans an input that was presumed available. It counts these losses until the task ends.
func (t *term) inputLost(x *graph.Task, in graph.Input, o attempts.Outcome) {
	key := *o.MissingNode
	lost := loss{key, x.Key}
	t.losses[lost]++
	count := t.losses[lost]
	if count > policy.MaxMissing {
		delete(t.losses, lost)
		t.fail(x, fmt.Sprintf("its input %s was recomputed %s and is still missing: %s", key.Short(), readable.Count(count-1, "time"), o.Error))
		return
	}
	t.logOf(x).Info("an input is missing and will be recomputed", "attempt", o.Number, "input", key.Short(), "times", count)
	if count < policy.PurgeAfter {
		in.Lose()
		t.graph.Requeue(x)
		return
	}
	t.purging[key] = true
	t.persist(deleting, "removing damaged blobs", always, func(ctx context.Context) (func(), error) {
		err := t.store.purge(ctx, key)
		return func() {
			delete(t.purging, key)
			in.Lose()
			t.graph.Requeue(x)
		}, err
	})
}

// fail gives a task up for all runs that want it, and fails their cells that need it. A later run retries it.
func (t *term) fail(x *graph.Task, evidence string) {
	if len(x.Wants) == 0 {
		t.logOf(x).Info("a node failed that no run wants any more", "attempt", x.Number, "error", readable.Brief(evidence))
	} else {
		t.logOf(x).Error("node failed", "attempt", x.Number, "error", readable.Brief(evidence))
		t.counters.Failures.WithLabelValues(x.Kind()).Inc()
	}
	t.spans.EndTask(x, errors.New(evidence))
	key := x.Key
	for _, r := range slices.Clone(x.Wants) {
		entry := runs.Entry{Kind: runs.NodeFailed, Key: &key, Label: x.Label(), Error: evidence, Attempts: max(x.Trouble().Tries, 1)}
		entry.Cells = t.cellsLeft(x, r)
		t.records.append(r, entry)
	}
	t.graph.GiveUp(x)
}

// cellsLeft returns the names of a run's cells that need a task and have not failed.
func (t *term) cellsLeft(x *graph.Task, r *graph.Run) []string {
	var names []string
	for _, c := range t.graph.CellsOf(x, r) {
		if !c.Failed {
			names = append(names, c.Plan.Name)
		}
	}
	return names
}

// attemptFailed returns the entry of a failed attempt, which need not be the last one launched.
func attemptFailed(o attempts.Outcome) runs.Entry {
	return runs.Entry{Kind: runs.AttemptFailed, Error: o.Error, Attempts: o.Number, Worker: o.Worker, Seconds: o.Seconds, Kept: o.Kept}
}

// logTrouble logs a task's failure in an attempt for all runs that want the task.
func (t *term) logTrouble(x *graph.Task, e runs.Entry) {
	key := x.Key
	e.Key, e.Label = &key, x.Label()
	for _, r := range x.Wants {
		e.Cells = t.cellsLeft(x, r)
		e.Cells = e.Cells[:min(len(e.Cells), runs.MaxEventNames)]
		t.records.append(r, e)
	}
}

// diverged records that two attempts have committed different bytes.
func (t *term) diverged(x *graph.Task, o attempts.Outcome) {
	t.logOf(x).Error("two attempts at a node have different outputs: its kind is not deterministic",
		"attempt", o.Number, "worker", o.Worker, "difference", o.Divergent)
	t.counters.Divergent.WithLabelValues(x.Kind()).Inc()
	t.logTrouble(x, runs.Entry{Kind: runs.Diverged, Error: o.Divergent, Attempts: o.Number, Worker: o.Worker})
}

// died records that a worker has died some seconds into an attempt at a task. It gives the
// task up, and returns true, if the deaths reach a limit.
func (t *term) died(x *graph.Task, d runs.Death, seconds float64) (givenUp bool) {
	trouble := x.AddTrouble()
	trouble.Deaths, trouble.HandedBack = append(trouble.Deaths, d), ""
	t.logTrouble(x, runs.Entry{Kind: runs.WorkerDied, Attempts: d.Attempt, Worker: d.Worker, Seconds: seconds, MemoryBytes: d.MemoryBytes, MemoryLimitBytes: d.MemoryLimitBytes})
	if policy.DeathsLeft(trouble.Deaths) <= 0 {
		t.fail(x, evidenceOfDeaths(trouble.Deaths))
		return true
	}
	t.counters.Takeovers.Inc()
	return false
}

// tookOver counts a task that a worker finished after another had died with it. Workers
// that are gone are forgotten, because ids are never reused.
func (t *term) tookOver(x *graph.Task, worker string) {
	deaths := x.Trouble().Deaths
	if len(deaths) == 0 || deaths[len(deaths)-1].Worker == worker {
		return
	}
	live := map[string]bool{worker: true}
	for _, w := range t.dispatcher.Fleet.Workers {
		live[w.ID] = true
	}
	maps.DeleteFunc(t.takeovers, func(id string, _ int) bool { return !live[id] })
	t.takeovers[worker]++
}

// evidenceOfDeaths reports the deaths of a task's workers by cause, and the remedy.
func evidenceOfDeaths(deaths []runs.Death) string {
	var all []string
	for _, d := range deaths {
		all = append(all, d.String())
	}
	memory, _ := policy.Deaths(deaths)
	advice := "if their machines were taken away, retry the run; otherwise see the workers' last log lines"
	if memory >= policy.MaxMemoryDeaths {
		advice = "the task probably needs more memory than they have: raise --memory, lower --slots, or use larger machines, and retry the run"
	}
	return fmt.Sprintf("its worker %s: %s (memory at the last heartbeat); %s", policy.DeathsText(deaths), strings.Join(all, ", "), advice)
}
