package observe

import (
	"maps"
	"slices"

	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/runs"
)

// Metrics give each wanted task one of these states.
const (
	Blocked  = "blocked"  // its inputs are not available yet
	Parked   = "parked"   // no live worker supports its kind
	Ready    = "ready"    // waits for a place in the queue
	Queued   = "queued"   // waits in the queue for a slot
	Running  = "running"  // an attempt runs
	Retrying = "retrying" // waits after an attempt that failed
)

// TaskStates lists the states of tasks in metrics.
var TaskStates = []string{Blocked, Parked, Ready, Queued, Running, Retrying}

// taskState returns the state of a task for metrics, "" for a finished one.
func (v *View) taskState(x *graph.Task) string {
	switch x.State() {
	case graph.Idle:
		return Blocked
	case graph.Parked:
		return Parked
	case graph.Ready:
		return Ready
	case graph.Pausing:
		return Retrying
	case graph.InFlight:
		if slices.ContainsFunc(v.Graph.AttemptsAt(x), func(a *graph.Attempt) bool { return a.Worker != "" }) {
			return Running
		}
		return Queued
	case graph.Finished:
	}
	return ""
}

// Stock holds the numbers of tasks, attempts and workers at one moment.
type Stock struct {
	Runs  map[runs.Phase]int
	Tasks map[tasks.Class]map[string]int // by class and state
	Slots map[tasks.Class]int
	// Active and Draining are numbers of workers.
	Active, Draining int
	QueueUp, StoreUp bool
}

// Stock counts the tasks and attempts. It walks the nodes of live runs, so it
// runs only on request.
func (v *View) Stock(classes ...tasks.Class) Stock {
	s := Stock{
		Runs: map[runs.Phase]int{}, Tasks: map[tasks.Class]map[string]int{}, Slots: maps.Clone(v.Dispatcher.Fleet.Slots),
		QueueUp: !v.Queue.On(), StoreUp: !v.Store.On(),
	}
	for _, class := range classes {
		s.Tasks[class] = map[string]int{}
	}
	for _, r := range v.Graph.Runs() {
		s.Runs[r.State.Phase]++
	}
	for x := range v.Graph.Tasks() {
		if state := v.taskState(x); state != "" && len(x.Wants) > 0 {
			s.count(v.Dispatcher.ClassOf(x), state)
		}
	}
	for _, w := range v.Dispatcher.Fleet.Workers {
		if w.Draining {
			s.Draining++
		} else {
			s.Active++
		}
	}
	return s
}

func (s *Stock) count(class tasks.Class, state string) {
	if s.Tasks[class] == nil {
		s.Tasks[class] = map[string]int{}
	}
	s.Tasks[class][state]++
}
