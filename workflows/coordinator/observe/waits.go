package observe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"coalmine/internal/queue"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// waitFor identifies one reason for waiting.
type waitFor struct {
	reason  status.WaitReason
	subject string // the kind, class or task
}

// waits collects the reasons why a run waits.
type waits struct {
	*View
	run    *Run
	atWork bool // whether a worker runs an attempt that the run wants
	list   []status.Wait
	at     map[waitFor]int // index in list, -1 while it is not shown
	since  map[waitFor]time.Time
}

// add adds a wait, or one more task to an existing wait. The wait is shown once it has lasted for patience.
func (w *waits) add(key waitFor, patience time.Duration, wait status.Wait) {
	if i, known := w.at[key]; known {
		if i >= 0 {
			w.list[i].Tasks += wait.Tasks
		}
		return
	}
	since, ok := w.run.since[key]
	if !ok {
		since = w.Now
		if !wait.Since.IsZero() {
			since = wait.Since
		}
	}
	w.since[key] = since
	w.at[key] = -1
	if w.Now.Sub(since) < patience {
		return
	}
	wait.Reason, wait.Since = key.reason, since
	w.at[key] = len(w.list)
	w.list = append(w.list, wait)
}

// addWaits adds the reasons for waiting and the progress of the run.
func (v *View) addWaits(s *status.Run, r *Run) {
	if s.Phase.Finished() {
		return
	}
	w := &waits{View: v, run: r, atWork: v.atWork(r.Run), at: make(map[waitFor]int), since: make(map[waitFor]time.Time)}
	if r.State.Phase == runs.Paused {
		w.add(waitFor{reason: status.WaitPaused}, 0, status.Wait{Detail: "paused"})
	} else {
		w.addServices()
		w.addTasks()
	}
	r.since = w.since
	s.Waits = w.list
	for _, wait := range w.list {
		s.Reasons = append(s.Reasons, wait.Detail)
	}
	s.Health = status.HealthOf(w.list, w.atWork)
}

// atWork reports whether a worker has an attempt that the run wants.
func (v *View) atWork(r *graph.Run) bool {
	for a := range v.Graph.Attempts() {
		if a.Worker != "" && !a.Stopping && a.Task.WantedBy(r) {
			return true
		}
	}
	return false
}

const storeFull = "the store is full: free some space, and the run continues by itself"

// addServices adds the reasons common to all runs.
func (w *waits) addServices() {
	if x := &w.Queue; x.On() {
		state := "unreachable"
		if errors.Is(x.Err, queue.ErrNoWrites) {
			state = "without writes"
		}
		w.add(waitFor{reason: status.WaitQueue}, 0, status.Wait{Since: x.Since, Detail: fmt.Sprintf("queue %s since %s: %v", state, x.Since.Format(time.TimeOnly), x.Err)})
	}
	switch x := &w.Store; {
	case errors.Is(x.Err, storage.ErrFull):
		w.add(waitFor{reason: status.WaitSpace}, 0, status.Wait{Since: x.Since, Detail: storeFull})
	case x.On():
		w.add(waitFor{reason: status.WaitStore}, 0, status.Wait{Since: x.Since, Detail: fmt.Sprintf("storage unreachable since %s: %v", x.Since.Format(time.TimeOnly), x.Err)})
	}
	fleet := &w.Dispatcher.Fleet
	if len(fleet.Slots) == 0 && w.Now.Sub(w.Began) > policy.HeartbeatPatience {
		detail := "no live worker"
		if n := len(fleet.Workers) - len(fleet.Useless); n > 0 {
			detail = fmt.Sprintf("no live worker takes tasks: all %d are draining", n)
		}
		if useless := fleet.Incapable(func(x *queue.Worker) string { return fleet.Useless[x.ID] }); useless != "" {
			detail += ": " + useless
		}
		w.add(waitFor{reason: status.WaitWorker}, 0, status.Wait{Detail: detail})
	}
}

// addTasks adds the reasons of single tasks of the run.
func (w *waits) addTasks() {
	r := w.run
	if !r.Live() {
		if r.PlanTries > 0 {
			w.add(waitFor{reason: status.WaitPlan}, 0, status.Wait{Detail: fmt.Sprintf("planning it failed %s so far; it will be retried", readable.Count(r.PlanTries, "time"))})
		}
		return
	}
	if errors.Is(w.Store.Err, storage.ErrFull) {
		return // the tasks add no reason
	}
	for _, x := range w.bySeverity() {
		w.addTask(x)
	}
	if !r.Tidying.IsZero() {
		w.add(waitFor{reason: status.WaitTidying}, 0, status.Wait{Since: r.Tidying, Detail: "deleting old rounds"})
	}
}

// bySeverity returns the tasks that may hold the run up, the gravest first.
func (w *waits) bySeverity() []*graph.Task {
	order := []graph.State{graph.Parked, graph.Pausing, graph.InFlight}
	if !w.atWork {
		order = append(order, graph.Ready)
	}
	var list []*graph.Task
	for x := range w.Graph.TasksOf(w.run.Run) {
		if x.WantedBy(w.run.Run) && slices.Contains(order, x.State()) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b *graph.Task) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.State()), slices.Index(order, b.State())), a.Key.Compare(b.Key))
	})
	return list
}

func (w *waits) addTask(x *graph.Task) {
	if x.State() != graph.Parked && len(x.Trouble().Deaths) > 0 {
		w.addDeaths(x)
	}
	switch {
	case x.State() == graph.Parked:
		w.addParked(x)
	case x.Trouble().Store == graph.StoreFull: // even between tries, or the wait would come and go
		w.add(waitFor{reason: status.WaitSpace}, 0, status.Wait{Tasks: 1, Detail: storeFull})
	case x.State() == graph.Pausing:
		w.addPausing(x)
	case x.State() == graph.InFlight:
		w.addStraggler(x)
	case x.State() == graph.Ready && !w.Dispatcher.Fleet.Serves(x):
		w.addParked(x)
	case x.State() == graph.Ready:
		w.addReady(x)
	}
}

// addParked adds a task that no live worker can run, once the workers had time to send heartbeats.
func (w *waits) addParked(x *graph.Task) {
	if w.Now.Sub(w.Began) <= policy.HeartbeatPatience {
		return
	}
	fleet := &w.Dispatcher.Fleet
	detail := fleet.MissingCapability(x)
	if detail == "" {
		return // a new worker will take it
	}
	reason := status.WaitKind
	if fleet.Knows(x) && fleet.Serves(x) {
		reason = status.WaitKey
	}
	w.add(waitFor{reason, detail}, 0, status.Wait{Tasks: 1, Detail: detail})
}

// addDeaths adds a task after deaths of its workers, with their number and the limits.
func (w *waits) addDeaths(x *graph.Task) {
	w.add(waitFor{status.WaitTakeover, x.Key.String()}, 0, status.Wait{
		Tasks: 1, Key: &x.Key, Attempt: x.Number, Detail: fmt.Sprintf("%s: its worker %s", x.Label(), policy.DeathsText(x.Trouble().Deaths)),
	})
}

// addPausing adds a task that will be tried again.
func (w *waits) addPausing(x *graph.Task) {
	wait := status.Wait{Tasks: 1, Key: &x.Key, Attempt: x.Number, Error: x.Trouble().Error}
	switch {
	case x.Trouble().Store == graph.StoreAway:
		wait.Detail = fmt.Sprintf("%s: the last attempt failed on the store and will be retried: %s", x.Label(), x.Trouble().Error)
	case x.Trouble().Error != "":
		wait.Detail = fmt.Sprintf("%s: attempt %d of %d at %s, after: %s",
			x.Label(), x.Trouble().Tries+1, w.MaxTries, x.Trouble().Until.Format(time.TimeOnly), x.Trouble().Error)
	case x.Trouble().HandedBack == "":
		return // addDeaths reports it
	default:
		wait.Error = x.Trouble().HandedBack
		wait.Detail = fmt.Sprintf("%s: handed back by its worker: %s", x.Label(), wait.Error)
		w.add(waitFor{status.WaitReturned, x.Key.String()}, policy.ShortWait, wait)
		return
	}
	w.add(waitFor{status.WaitRetry, x.Key.String()}, 0, wait)
}

// addStraggler adds a task if its attempt takes far longer than its siblings did.
func (w *waits) addStraggler(x *graph.Task) {
	attempts := w.Graph.AttemptsAt(x)
	a := attempts[0]
	median, straggles := w.Graph.Straggles(a)
	if !straggles {
		return
	}
	wait := status.Wait{
		Tasks: 1, Key: &x.Key, Attempt: a.Number, Worker: a.Worker,
		Since:  w.Now.Add(-time.Duration(a.Running * float64(time.Second))), // as of the first report
		Detail: fmt.Sprintf("%s: still running on %s; similar tasks took %.3g s", x.Label(), a.Worker, median),
	}
	if len(attempts) > 1 {
		wait.Detail += "; a second attempt is running"
	}
	w.add(waitFor{status.WaitStraggler, x.Key.String()}, 0, wait)
}

// addReady adds a task that could run while no task of its run does, because others
// occupy the slots. Slots used by the run itself do not hold it up.
func (w *waits) addReady(x *graph.Task) {
	class := w.Dispatcher.ClassOf(x)
	others := w.othersBusyWith(class)
	if len(others) == 0 {
		return
	}
	if most, limited := w.Dispatcher.Limits[class]; limited && w.Graph.InFlight(class) >= most {
		w.add(waitFor{status.WaitLimit, string(class)}, policy.ShortWait, status.Wait{Tasks: 1,
			Detail: fmt.Sprintf("class %s is at its limit: %d of %d tasks are queued or running", class, w.Graph.InFlight(class), most)})
		return
	}
	if slots := w.Dispatcher.Fleet.Slots[class]; slots > 0 {
		w.add(waitFor{status.WaitSlot, string(class)}, policy.ShortWait, status.Wait{Tasks: 1,
			Detail: fmt.Sprintf("all %d slots of class %s run tasks of %s", slots, class, strings.Join(others, ", "))})
	}
}

// othersBusyWith names the runs of the attempts of a class in flight that the run does not want.
func (w *waits) othersBusyWith(class tasks.Class) []string {
	var names []string
	for a := range w.Graph.Attempts() {
		if a.Class == class && !a.Task.WantedBy(w.run.Run) {
			names = append(names, a.Run.ID)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
