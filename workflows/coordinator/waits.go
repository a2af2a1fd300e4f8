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
	"coalmine/workflows/status"
)

// waitFor tells what a run waits for from all else that it waits for.
type waitFor struct {
	reason status.WaitReason
	what   string // the kind, the class, the task
}

// waits collects what holds a run up.
type waits struct {
	term   *term
	run    *run
	atWork bool // a worker has something of the run
	list   []status.Wait
	at     map[waitFor]int
	kept   map[waitFor]time.Time
}

// fleeting is how long reasons are left unsaid that come and go by the second
// while a run works as it should.
const fleeting = 5 * time.Second

// add notes a wait, or one more task of a wait that there is already. It is shown
// once it has lasted for patience.
func (w *waits) add(of waitFor, patience time.Duration, wait status.Wait) {
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
	wait.Reason, wait.Since = of.reason, since
	w.at[of] = len(w.list)
	w.list = append(w.list, wait)
}

// addWaits says what the run waits for, and how it gets on.
func (t *term) addWaits(s *status.Run, r *run) {
	if s.Phase.Finished() {
		return
	}
	w := &waits{term: t, run: r, atWork: t.atWork(r), at: make(map[waitFor]int), kept: make(map[waitFor]time.Time)}
	if r.state.Phase == runs.Paused {
		w.add(waitFor{reason: status.WaitPaused}, 0, status.Wait{Detail: "paused"})
	} else {
		t.addServices(w)
		t.addTasks(w)
	}
	r.waiting = w.kept
	s.Waits = w.list
	for _, wait := range w.list {
		s.Reasons = append(s.Reasons, wait.Detail)
	}
	s.Health = status.HealthOf(w.list, w.atWork)
}

// atWork reports whether a worker has an attempt that the run wants.
func (t *term) atWork(r *run) bool {
	for _, a := range t.attempts {
		if a.worker != "" && !a.stopping && slices.Contains(a.task.wants, r) {
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
		w.add(waitFor{reason: status.WaitQueue}, 0, status.Wait{Since: x.since, Detail: fmt.Sprintf("queue unreachable since %s: %v", x.since.Format(time.TimeOnly), x.err)})
	}
	switch x := &t.storageDown; {
	case errors.Is(x.err, storage.ErrFull):
		w.add(waitFor{reason: status.WaitSpace}, 0, status.Wait{Since: x.since, Detail: storeFull})
	case !x.since.IsZero():
		w.add(waitFor{reason: status.WaitStore}, 0, status.Wait{Since: x.since, Detail: fmt.Sprintf("storage unreachable since %s: %v", x.since.Format(time.TimeOnly), x.err)})
	}
	if len(t.slots) == 0 && t.now().Sub(t.begun) > heartbeatPatience {
		detail := "no live worker"
		if n := len(t.workers); n > 0 {
			detail = fmt.Sprintf("no live worker takes tasks: all %d are draining", n)
		}
		w.add(waitFor{reason: status.WaitWorker}, 0, status.Wait{Detail: detail})
	}
}

// addTasks adds what single tasks of the run wait for.
func (t *term) addTasks(w *waits) {
	r := w.run
	if !r.live() {
		if r.compileTries > 0 {
			w.add(waitFor{reason: status.WaitPlan}, 0, status.Wait{Detail: fmt.Sprintf("its plan could not be made, %d times so far; it is tried again", r.compileTries)})
		}
		return
	}
	if errors.Is(t.storageDown.err, storage.ErrFull) {
		return // what the tasks say of it says no more
	}
	gravest := []taskState{parked, pausing, inFlight}
	if !w.atWork {
		gravest = append(gravest, ready)
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
		w.add(waitFor{reason: status.WaitTidying}, 0, status.Wait{Since: r.tidying, Detail: "deleting old rounds"})
	}
}

func (t *term) addTask(w *waits, x *task) {
	one := status.Wait{Tasks: 1, Key: &x.key, Attempt: x.number}
	switch {
	case x.state == parked:
		t.addParked(w, x)
	case x.store == status.WaitSpace: // also while it is tried again, or the wait would come and go
		w.add(waitFor{reason: status.WaitSpace}, 0, status.Wait{Tasks: 1, Detail: storeFull})
	case x.state == pausing && x.store == status.WaitStore:
		one.Error = x.lastErr
		one.Detail = fmt.Sprintf("%s: the store failed its last attempt, and another follows: %s", x.label, x.lastErr)
		w.add(waitFor{status.WaitRetry, x.key.String()}, 0, one)
	case x.state == pausing && x.lastErr != "":
		one.Error = x.lastErr
		one.Detail = fmt.Sprintf("%s: attempt %d of %d at %s, after: %s", x.label, x.tries+1, t.MaxTries, x.waiting.Format(time.TimeOnly), x.lastErr)
		w.add(waitFor{status.WaitRetry, x.key.String()}, 0, one)
	case x.state == pausing:
		one.Detail = x.label + ": handed back by its worker"
		w.add(waitFor{status.WaitReturned, x.key.String()}, fleeting, one)
	case x.state == inFlight:
		t.addInFlight(w, x, one)
	case x.state == ready:
		t.addBacklogged(w, x)
	}
}

// addParked adds a task that no live worker can run.
func (t *term) addParked(w *waits, x *task) {
	detail := t.lacking(x)
	if detail == "" {
		return // one has come, and takes it next
	}
	reason := status.WaitKind
	if t.kinds[advertised(x)] {
		reason = status.WaitKey
	}
	w.add(waitFor{reason, detail}, 0, status.Wait{Tasks: 1, Detail: detail})
}

// addFlying adds an attempt that takes far longer than its siblings did.
func (t *term) addInFlight(w *waits, x *task, one status.Wait) {
	a := x.attempts[0]
	median, n := t.samplesOf(x).median()
	if a.worker == "" || n < stragglerSamples || a.running <= max(stragglerFactor*median, stragglerFloor.Seconds()) {
		return
	}
	one.Worker, one.Attempt = a.worker, a.number
	one.Since = t.now().Add(-time.Duration(a.running * float64(time.Second)))
	one.Detail = fmt.Sprintf("%s: at work on %s since %s, its siblings took %.3g s", x.label, a.worker, one.Since.Format(time.TimeOnly), median)
	if len(x.attempts) > 1 {
		one.Detail += "; a second attempt is under way"
	}
	w.add(waitFor{status.WaitStraggler, x.key.String()}, 0, one)
}

// addBacklogged adds a task that could run while nothing of its run does.
func (t *term) addBacklogged(w *waits, x *task) {
	class := t.classOf(x)
	if most, limited := t.Limits[class]; limited && t.inFlight[class] >= most {
		w.add(waitFor{status.WaitLimit, string(class)}, fleeting, status.Wait{Tasks: 1,
			Detail: fmt.Sprintf("class %s is at its limit: %d of %d tasks are queued or at work", class, t.inFlight[class], most)})
		return
	}
	if slots := t.slots[class]; slots > 0 {
		w.add(waitFor{status.WaitSlot, string(class)}, fleeting, status.Wait{Tasks: 1,
			Detail: fmt.Sprintf("all %d slots of class %s work for %s", slots, class, strings.Join(t.busyWith(class), ", "))})
	}
}

// busyWith names the runs that attempts of a class are at work for.
func (t *term) busyWith(class tasks.Class) []string {
	var names []string
	for _, a := range t.attemptsInOrder() {
		if a.class == class {
			names = append(names, a.run.id)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
