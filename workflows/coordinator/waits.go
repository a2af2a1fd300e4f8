package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/runs"
)

// Pace says how an unfinished run gets on.
type Pace string

// The paces of a run.
const (
	// Working: nothing holds it up but the work.
	Working Pace = "working"
	// Slow: something holds it up that passes by itself.
	Slow Pace = "slow"
	// Stuck: it does not go on until somebody does something, or until what is
	// away comes back.
	Stuck Pace = "stuck"
	// Resting: it is paused.
	Resting Pace = "paused"
)

// Cause is what a run waits for.
type Cause string

// The causes of waiting, the gravest first.
const (
	// WaitPaused: to be resumed.
	WaitPaused Cause = "paused"
	// WaitCoordinator: for a process that leads.
	WaitCoordinator Cause = "no-coordinator"
	// WaitQueue and WaitStore: for a server that does not answer.
	WaitQueue Cause = "queue-away"
	WaitStore Cause = "store-away"
	// WaitSpace: for room in the store.
	WaitSpace Cause = "store-full"
	// WaitWorker: for any worker that takes tasks.
	WaitWorker Cause = "no-worker"
	// WaitKind: for a worker that knows a kind of task, in its version.
	WaitKind Cause = "no-worker-for-kind"
	// WaitKey: for a worker that holds the secret key of a training.
	WaitKey Cause = "no-worker-with-key"
	// WaitPlan: for its plan, which failed to be made and is tried again.
	WaitPlan Cause = "plan"
	// WaitRetry: for another attempt at a task that has failed.
	WaitRetry Cause = "retry"
	// WaitReturned: for another attempt at a task that a worker has handed back.
	WaitReturned Cause = "handed-back"
	// WaitStraggler: for an attempt that takes far longer than its siblings.
	WaitStraggler Cause = "straggler"
	// WaitLimit: for others of a class whose number is limited.
	WaitLimit Cause = "class-limit"
	// WaitSlot: for a slot, which all have work.
	WaitSlot Cause = "no-free-slot"
	// WaitTidying: for the deletion of old rounds, at its end.
	WaitTidying Cause = "tidying"
)

// blocks reports whether the cause holds up everything that it concerns until
// somebody acts or something comes back.
func (c Cause) blocks() bool {
	return slices.Contains([]Cause{WaitCoordinator, WaitQueue, WaitStore, WaitSpace, WaitWorker, WaitKind, WaitKey}, c)
}

// Wait is one thing that holds a run up.
type Wait struct {
	Cause Cause `json:"cause"`
	// Since when, as far as this leader has seen.
	Since time.Time `json:"since,omitzero"`
	// Detail is for people.
	Detail string `json:"detail"`
	// Tasks is how many tasks it concerns; 0 for the run as a whole.
	Tasks int `json:"tasks,omitempty"`
	// Key, Attempt and Error are those of the task, where it is just one that
	// failed or is slow; Worker is who runs it.
	Key     *storage.Key `json:"key,omitempty"`
	Attempt int          `json:"attempt,omitempty"`
	Error   string       `json:"error,omitempty"`
	Worker  string       `json:"worker,omitempty"`
}

// waitFor tells what a run waits for from all else that it waits for.
type waitFor struct {
	cause Cause
	what  string // the kind, the class, the task
}

// waits collects what holds a run up.
type waits struct {
	term   *term
	run    *run
	atWork bool // a worker has something of the run
	list   []Wait
	at     map[waitFor]int
	kept   map[waitFor]time.Time
}

// fleeting is how long causes are left unsaid that come and go by the second
// while a run works as it should.
const fleeting = 5 * time.Second

// add notes a wait, or one more task of a wait that there is already. It is shown
// once it has lasted for patience.
func (w *waits) add(of waitFor, patience time.Duration, wait Wait) {
	if i, known := w.at[of]; known {
		if i >= 0 {
			w.list[i].Tasks += wait.Tasks
		}
		return
	}
	now := w.term.now()
	since, ok := w.run.waiting[of]
	if !ok {
		since = now
		if !wait.Since.IsZero() {
			since = wait.Since
		}
	}
	w.kept[of] = since
	w.at[of] = -1
	if now.Sub(since) < patience {
		return
	}
	wait.Cause, wait.Since = of.cause, since
	w.at[of] = len(w.list)
	w.list = append(w.list, wait)
}

// addWaits says what the run waits for, and how it gets on.
func (t *term) addWaits(s *Status, r *run) {
	if s.Phase.Finished() {
		return
	}
	w := &waits{term: t, run: r, atWork: t.atWork(r), at: make(map[waitFor]int), kept: make(map[waitFor]time.Time)}
	if r.state.Phase == runs.Paused {
		w.add(waitFor{cause: WaitPaused}, 0, Wait{Detail: "paused"})
	} else {
		t.addServices(w)
		t.addTasks(w)
	}
	r.waiting = w.kept
	s.Waits = w.list
	for _, wait := range w.list {
		s.Reasons = append(s.Reasons, wait.Detail)
	}
	s.Pace = pace(w.list, w.atWork)
}

// pace judges by what a run waits for and whether something of it is at work.
func pace(list []Wait, atWork bool) Pace {
	blocked := slices.ContainsFunc(list, func(w Wait) bool { return w.Cause.blocks() })
	away := slices.ContainsFunc(list, func(w Wait) bool { return w.Cause == WaitStore || w.Cause == WaitSpace })
	switch {
	case len(list) == 0:
		return Working
	case list[0].Cause == WaitPaused:
		return Resting
	case away, blocked && !atWork:
		return Stuck
	}
	return Slow
}

// atWork reports whether a worker has an attempt that the run wants.
func (t *term) atWork(r *run) bool {
	for _, f := range t.flights {
		if f.worker != "" && !f.stopping && slices.Contains(f.task.wants, r) {
			return true
		}
	}
	return false
}

// heartbeatPatience is how long workers have to be heard of before a run waits
// for them.
const heartbeatPatience = 3 * time.Second

const storeFull = "the store is full: make room, and the run goes on by itself"

// addServices adds what all runs wait for.
func (t *term) addServices(w *waits) {
	if x := &t.queueDown; !x.since.IsZero() {
		w.add(waitFor{cause: WaitQueue}, 0, Wait{Since: x.since, Detail: fmt.Sprintf("queue unreachable since %s: %v", x.since.Format(time.TimeOnly), x.err)})
	}
	switch x := &t.storageDown; {
	case errors.Is(x.err, storage.ErrFull):
		w.add(waitFor{cause: WaitSpace}, 0, Wait{Since: x.since, Detail: storeFull})
	case !x.since.IsZero():
		w.add(waitFor{cause: WaitStore}, 0, Wait{Since: x.since, Detail: fmt.Sprintf("storage unreachable since %s: %v", x.since.Format(time.TimeOnly), x.err)})
	}
	if len(t.slots) == 0 && t.now().Sub(t.begun) > heartbeatPatience {
		detail := "no live worker"
		if n := len(t.workers); n > 0 {
			detail = fmt.Sprintf("no live worker takes tasks: all %d are draining", n)
		}
		w.add(waitFor{cause: WaitWorker}, 0, Wait{Detail: detail})
	}
}

// addTasks adds what single tasks of the run wait for.
func (t *term) addTasks(w *waits) {
	r := w.run
	if !r.live() {
		if r.compileTries > 0 {
			w.add(waitFor{cause: WaitPlan}, 0, Wait{Detail: fmt.Sprintf("its plan could not be made, %d times so far; it is tried again", r.compileTries)})
		}
		return
	}
	if errors.Is(t.storageDown.err, storage.ErrFull) {
		return // what the tasks say of it says no more
	}
	gravest := []taskState{parked, pausing, flying}
	if !w.atWork {
		gravest = append(gravest, backlogged)
	}
	var list []*task
	for x := range t.tasksOf(r) {
		if slices.Contains(gravest, x.state) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b *task) int {
		return cmp.Or(cmp.Compare(slices.Index(gravest, a.state), slices.Index(gravest, b.state)), a.key.Compare(b.key))
	})
	for _, x := range list {
		t.addTask(w, x)
	}
	if !r.tidying.IsZero() {
		w.add(waitFor{cause: WaitTidying}, 0, Wait{Since: r.tidying, Detail: "deleting old rounds"})
	}
}

func (t *term) addTask(w *waits, x *task) {
	one := Wait{Tasks: 1, Key: &x.key, Attempt: x.number}
	switch {
	case x.state == parked:
		t.addParked(w, x)
	case x.store == WaitSpace: // also while it is tried again, or the wait would come and go
		w.add(waitFor{cause: WaitSpace}, 0, Wait{Tasks: 1, Detail: storeFull})
	case x.state == pausing && x.store == WaitStore:
		one.Error = x.lastErr
		one.Detail = fmt.Sprintf("%s: the store failed its last attempt, and another follows: %s", x.label, x.lastErr)
		w.add(waitFor{WaitRetry, x.key.String()}, 0, one)
	case x.state == pausing && x.lastErr != "":
		one.Error = x.lastErr
		one.Detail = fmt.Sprintf("%s: attempt %d of %d at %s, after: %s", x.label, x.tries+1, t.MaxTries, x.waiting.Format(time.TimeOnly), x.lastErr)
		w.add(waitFor{WaitRetry, x.key.String()}, 0, one)
	case x.state == pausing:
		one.Detail = x.label + ": handed back by its worker"
		w.add(waitFor{WaitReturned, x.key.String()}, fleeting, one)
	case x.state == flying:
		t.addFlying(w, x, one)
	case x.state == backlogged:
		t.addBacklogged(w, x)
	}
}

// addParked adds a task that no live worker can run.
func (t *term) addParked(w *waits, x *task) {
	detail := t.lacking(x)
	if detail == "" {
		return // one has come, and takes it next
	}
	cause := WaitKind
	if t.kinds[advertised(x)] {
		cause = WaitKey
	}
	w.add(waitFor{cause, detail}, 0, Wait{Tasks: 1, Detail: detail})
}

// addFlying adds an attempt that takes far longer than its siblings did.
func (t *term) addFlying(w *waits, x *task, one Wait) {
	f := x.flights[0]
	median, n := t.samplesOf(x).median()
	if f.worker == "" || n < stragglerSamples || f.running <= max(stragglerFactor*median, stragglerFloor.Seconds()) {
		return
	}
	one.Worker, one.Attempt = f.worker, f.number
	one.Since = t.now().Add(-time.Duration(f.running * float64(time.Second)))
	one.Detail = fmt.Sprintf("%s: at work on %s since %s, its siblings took %.3g s", x.label, f.worker, one.Since.Format(time.TimeOnly), median)
	if len(x.flights) > 1 {
		one.Detail += "; a second attempt is under way"
	}
	w.add(waitFor{WaitStraggler, x.key.String()}, 0, one)
}

// addBacklogged adds a task that could run while nothing of its run does.
func (t *term) addBacklogged(w *waits, x *task) {
	class := t.classOf(x)
	if most, limited := t.Limits[class]; limited && t.flying[class] >= most {
		w.add(waitFor{WaitLimit, string(class)}, fleeting, Wait{Tasks: 1,
			Detail: fmt.Sprintf("class %s is at its limit: %d of %d tasks are queued or at work", class, t.flying[class], most)})
		return
	}
	if slots := t.slots[class]; slots > 0 {
		w.add(waitFor{WaitSlot, string(class)}, fleeting, Wait{Tasks: 1,
			Detail: fmt.Sprintf("all %d slots of class %s work for %s", slots, class, strings.Join(t.busyWith(class), ", "))})
	}
}

// busyWith names the runs that attempts of a class are at work for.
func (t *term) busyWith(class tasks.Class) []string {
	var names []string
	for _, f := range t.flightsInOrder() {
		if f.class == class {
			names = append(names, f.run.id)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
